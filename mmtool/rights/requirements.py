"""The rights that flows need for a purpose: the table's lines on the flows' resources, each once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Literal

from mmtool.rights.needs import Kind, Need, Purpose, ResourceType, needs_for
from mmtool.rights.scope import resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mmtool.config import FlowSettings


@dataclass(frozen=True, slots=True)
class NeededRight:
    """A right that mmtool's principal needs.

    Attributes:
        cluster: Its alias.
        resource_type: ``topic``, ``group``, ``cluster`` or ``transactional_id``.
        name: ``*`` for all; ``kafka-cluster`` for the cluster itself.
        pattern: Whether the name is whole, or a prefix of names.
        operation: As Kafka's ``AclOperation`` names it.
        optional: True if only one feature needs it: without it that feature is left out, and the rest works.
        why: What does not work without it.
    """

    cluster: str
    resource_type: ResourceType
    name: str
    pattern: Literal["literal", "prefixed"]
    operation: str
    optional: bool
    why: str


def needed_rights(
    flow: FlowSettings, purpose: Purpose, *, beats_on_source: bool = False
) -> tuple[NeededRight, ...]:
    """Exactly the rights that a flow needs for a purpose, on both its clusters, without a connection to either.

    Args:
        flow: The flow.
        purpose: What its user runs.
        beats_on_source: The flow's owner also writes the heartbeats of the reverse pair, which is not enabled.
    """
    lines = needs_for(flow, purpose)
    return merged(
        right
        for need, optional in lines
        if beats_on_source or (need.side, need.kind) != ("source", Kind.HEARTBEATS)
        for right in _rights(flow, need, optional)
    )


def _rights(flow: FlowSettings, need: Need, optional: bool) -> Iterator[NeededRight]:
    cluster = flow.source if need.side == "source" else flow.target
    for name, pattern in resources(flow, need.side, need.kind):
        yield NeededRight(
            cluster.alias,
            need.kind.resource_type,
            name,
            pattern,
            need.operation,
            optional,
            f"without it, {need.lost}",
        )


def rights_of_flows(
    flows: Iterable[FlowSettings], purposes: Iterable[Purpose], beaten: Iterable[FlowSettings] = ()
) -> tuple[NeededRight, ...]:
    """The rights of several flows for several purposes together, cluster by cluster.

    Args:
        flows: The flows.
        purposes: What their user runs.
        beaten: Pairs of clusters that get heartbeats without a flow.
    """
    pairs = {(pair.target.alias, pair.source.alias) for pair in beaten}
    found = merged(
        right
        for flow, purpose in product(flows, purposes)
        for right in needed_rights(
            flow, purpose, beats_on_source=(flow.source.alias, flow.target.alias) in pairs
        )
    )
    order = list(dict.fromkeys(right.cluster for right in found))
    return tuple(sorted(found, key=lambda right: order.index(right.cluster)))


def merged(rights: Iterable[NeededRight]) -> tuple[NeededRight, ...]:
    """Each right once, in the order of its first line; needed where any line needs it."""
    found: dict[tuple[str, ...], NeededRight] = {}
    for right in rights:
        key = (right.cluster, right.resource_type, right.name, right.pattern, right.operation)
        known = found.setdefault(key, right)
        if known.optional and not right.optional:
            found[key] = right
    return tuple(found.values())
