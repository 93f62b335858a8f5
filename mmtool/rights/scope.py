"""The rights that flows need for a purpose, and the names of their resources as ACL patterns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal, NamedTuple

from mmtool.config import FlowSettings
from mmtool.config.aliases import positions_topics, workers_groups
from mmtool.config.names import LITERAL, NameFilter
from mmtool.config.settings import OWN_TOPIC_PREFIX
from mmtool.plan.groups.facts import OWN_GROUP_PREFIX
from mmtool.plan.records.identity import CANARY_TOPIC
from mmtool.rights.needs import Purpose, Resource, ResourceType, Side, needs_for
from mmtool.translation.names import DEAD_LETTER_SUFFIX, HEARTBEATS_TOPIC, DefaultPolicy

CLUSTER_NAME = "kafka-cluster"
COMMITS_TOPIC = "__consumer_offsets"
_UNCLEAR = re.compile(r"\\Q|\(\?(?!:)|\[[^\]]*[\[(]")
"""Quoted text, flags, look-around, and brackets in classes: what follows them may be other than it seems."""
_STARTS = re.compile(r"(?:[\w-]|\\[^\w\s])*", re.ASCII)
"""The characters with which every match of a pattern starts: literal ones, and escaped punctuation."""


class Pattern(NamedTuple):
    """The names that an ACL covers: one, all with a prefix, or ``*`` for all."""

    name: str
    pattern: Literal["literal", "prefixed"] = "literal"


EVERYTHING = Pattern("*")


def resources(flow: FlowSettings, side: Side, kind: Resource) -> tuple[Pattern, ...]:
    """The flow's resources of a kind on one side; none where the flow's settings have none."""
    return tuple(dict.fromkeys(_PATTERNS[kind](flow, side)))


def _mirrors(flow: FlowSettings) -> list[Pattern]:
    return [mirror for topic in (*_mirrored(flow), *_canary(flow)) for mirror in _mirror(flow, topic)]


def _offset_syncs(flow: FlowSettings, side: Side) -> list[Pattern]:
    held = flow.emit_offset_syncs and flow.offset_syncs_location == side
    return [Pattern(flow.offset_syncs_topic)] if held else []


def _mirrored(flow: FlowSettings) -> list[Pattern]:
    found = [
        p
        for p in _accepted(flow.topics)
        if p.pattern == "prefixed" or p == EVERYTHING or flow.mirrors_topic(p.name)
    ]
    return found if EVERYTHING in found else [*found, *_heartbeats(flow)]


def _heartbeats(flow: FlowSettings) -> Iterator[Pattern]:
    """The source's heartbeats that are mirrored: its own, and those of other clusters of the file."""
    policy = flow.policy if isinstance(flow.policy, DefaultPolicy) else flow.policy.base
    others = (alias for alias in policy.known if alias != flow.topic_aliases.source)
    remote = (flow.policy.format_remote_topic(alias, HEARTBEATS_TOPIC) for alias in others)
    yield from (Pattern(name) for name in (HEARTBEATS_TOPIC, *remote) if flow.mirrors_topic(name))


def _canary(flow: FlowSettings) -> list[Pattern]:
    return [Pattern(CANARY_TOPIC)] if flow.mirrors_canary else []


def _mirror(flow: FlowSettings, topic: Pattern) -> list[Pattern]:
    """The mirrors of topics: with the policy's text before the name, the same kind of pattern."""
    if topic.pattern == "literal" and topic != EVERYTHING:
        return [Pattern(flow.remote_topic(topic.name))]
    stem = "" if topic == EVERYTHING else topic.name
    mark = "x"  # stands for the rest of a name
    prefix = flow.remote_topic(stem + mark).partition(stem + mark)[0] + stem
    return [Pattern(prefix, "prefixed") if prefix else EVERYTHING]


def _dead_letters(flow: FlowSettings) -> list[Pattern]:
    mirrors = (mirror for topic in _mirrored(flow) for mirror in _mirror(flow, topic))
    return [
        Pattern(mirror.name + DEAD_LETTER_SUFFIX)
        if mirror.pattern == "literal" and mirror != EVERYTHING
        else mirror
        for mirror in mirrors
    ]


def _accepted(names: NameFilter) -> list[Pattern]:
    """ACL patterns that cover all names that a filter accepts; ``*`` alone where one pattern has no literal start."""
    found = [_covering(pattern) for pattern in _alternatives(names.include)]
    if EVERYTHING in found:
        return [EVERYTHING]
    return [p for p in found if p.pattern == "prefixed" or names.accepts(p.name)]


def _groups(flow: FlowSettings, side: Side) -> list[Pattern]:
    """The flow's groups; on the target also the other names that its group map gives them."""
    found = _accepted(flow.groups)
    names = sorted(flow.group_map.pairs.values()) if side == "target" and EVERYTHING not in found else ()
    return list(dict.fromkeys([*found, *map(Pattern, names)]))


def _alternatives(patterns: Iterable[str]) -> list[str]:
    """The alternatives of a list, which is joined with ``|`` as in MM2; one for all names where that is in doubt."""
    text, found, depth, start = "|".join(patterns), [], 0, 0
    if _UNCLEAR.search(text):
        return [".*"]
    for sign in re.finditer(r"\\.|[\]\[()|]", text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(sign.group(), 0)
        if sign.group() == "|" and not depth:
            found.append(text[start : sign.start()])
            start = sign.end()
    return [".*"] if depth else [*found, text[start:]]


def _covering(pattern: str) -> Pattern:
    """The narrowest ACL pattern for the names that a regular expression matches."""
    if LITERAL.fullmatch(pattern):
        return Pattern(pattern)
    start = _STARTS.match(pattern)
    literal = start.group() if start else ""
    rest = pattern[len(literal) :]
    if rest[:1] in {"*", "?", "{"}:  # the last character need not be there
        literal = re.sub(r"\\?.$", "", literal)
    prefix = literal.replace("\\", "")
    return Pattern(prefix, "prefixed") if prefix else EVERYTHING


_OWN_NAMES = [Pattern(OWN_GROUP_PREFIX, "prefixed")]
_PATTERNS: dict[Resource, Callable[[FlowSettings, Side], Iterable[Pattern]]] = {
    Resource.MIRRORED: lambda flow, _: _mirrored(flow),
    Resource.MIRRORS: lambda flow, _: _mirrors(flow),
    Resource.DEAD_LETTERS: lambda flow, _: _dead_letters(flow),
    Resource.CANARY: lambda flow, _: _canary(flow),
    Resource.CANARY_MIRROR: lambda flow, _: (m for topic in _canary(flow) for m in _mirror(flow, topic)),
    Resource.INTERNAL: lambda _, __: [Pattern(OWN_TOPIC_PREFIX, "prefixed")],
    Resource.OFFSET_SYNCS: _offset_syncs,
    Resource.REVERSE_SYNCS: lambda flow, _: [
        Pattern(flow.policy.offset_syncs_topic(flow.topic_aliases.source))
    ],
    Resource.REVERSE_CHECKPOINTS: lambda flow, _: [
        Pattern(flow.policy.checkpoints_topic(flow.topic_aliases.target))
    ],
    Resource.CHECKPOINTS: lambda flow, _: [Pattern(flow.checkpoints_topic)] if flow.emit_checkpoints else [],
    Resource.HEARTBEATS: lambda flow, _: [Pattern(flow.policy.heartbeats_topic())],
    Resource.COMMITS: lambda _, __: [Pattern(COMMITS_TOPIC)],
    Resource.GROUPS: _groups,
    Resource.OWN_GROUPS: lambda _, __: _OWN_NAMES,
    Resource.WORKERS: lambda flow, _: [Pattern(workers_groups(flow)[0])],
    Resource.POSITIONS: lambda flow, _: [Pattern(positions_topics(flow)[0])],
    Resource.OWN_IDS: lambda _, __: _OWN_NAMES,
    Resource.WHOLE: lambda _, __: [Pattern(CLUSTER_NAME)],
}


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
    return merged(
        NeededRight(
            (flow.source if need.side == "source" else flow.target).alias,
            need.kind.resource_type,
            name,
            pattern,
            need.operation,
            optional,
            f"without it, {need.lost}",
        )
        for need, optional in needs_for(flow, purpose)
        if beats_on_source or (need.side, need.kind) != ("source", Resource.HEARTBEATS)
        for name, pattern in resources(flow, need.side, need.kind)
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
