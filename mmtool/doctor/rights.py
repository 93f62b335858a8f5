"""Find the missing rights of a flow from the brokers' answers: one row for each missing right.

A missing required right is a problem: `replicate` or `failover` fails without it. A missing optional one is a warning:
one feature is left out, and the rest works.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, Self

from mmtool.doctor.finding import Check, problem, warning
from mmtool.kafka.wire.rights import Operation
from mmtool.plan.words import counted, few
from mmtool.rights.needs import ResourceType
from mmtool.rights.render import grant_command, resource_option
from mmtool.translation.known import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mmtool.doctor.finding import Finding
    from mmtool.kafka.admin.details import TopicDetails
    from mmtool.kafka.wire.rights import Rights
    from mmtool.rights.needs import Need

_ROWS = 20
"""The most rows for one operation on one kind of resource; the others are counted in one row."""
_DENY = "if a DENY rule exists, remove it: it overrides this grant"
CLUSTER = "the cluster"
_KINDS = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.TRANSACTIONAL_ID: "transactional id",
    ResourceType.CLUSTER: CLUSTER,
}
"""The words for each kind of resource."""
_TYPES = {words: kind for kind, words in _KINDS.items()}


class Asker(NamedTuple):
    """The principal that needs the rights on one cluster.

    Attributes:
        principal: As ``User:mm``.
        bootstrap: For the command that grants them.
    """

    alias: str
    principal: str
    bootstrap: str


class Lack(NamedTuple):
    """A right that is missing.

    Attributes:
        kind: ``topic``, ``group``, ``transactional id``; `CLUSTER` for the cluster itself.
        name: Of the resource; what ends in ``*`` stands for all names that begin so.
        why: The feature that needs it.
        is_optional: The rest works without it.
    """

    kind: str
    operation: str
    name: str
    why: str
    is_optional: bool = False

    @classmethod
    def of(cls, need: Need, name: str) -> Self:
        """A needed right that is missing on one resource; on the cluster itself the name is empty."""
        return cls(_KINDS[need.kind.resource_type], need.operation, name, need.lost, need.is_optional)


def lacking_on_topics(
    topics: Mapping[str, TopicDetails], names: Iterable[str], needs: Iterable[Need]
) -> Iterator[Lack]:
    """The missing rights on those of the named topics that exist; none where the broker does not report rights."""
    listed = list(needs)
    for name in sorted(set(names) & topics.keys()):
        yield from _lacking(topics[name].rights, name, listed)


def lacking_on_cluster(rights: Rights | Unknown, needs: Iterable[Need]) -> Iterator[Lack]:
    """The missing rights on the cluster itself; none where the broker does not report rights."""
    yield from _lacking(rights, "", needs)


def _lacking(rights: Rights | Unknown, name: str, needs: Iterable[Need]) -> Iterator[Lack]:
    if rights is not UNKNOWN:
        yield from (Lack.of(need, name) for need in needs if not rights.may(Operation[need.operation]))


def judge_rights(asker: Asker, lacks: Iterable[Lack]) -> Iterator[Finding]:
    """A row for each missing right, needed rights before optional ones."""
    ordered = sorted(set(lacks), key=lambda lack: (lack.is_optional, lack.kind, lack.operation, lack.name))
    for _, of in groupby(ordered, key=lambda lack: lack[:2]):
        same = list(of)
        yield from (_finding(asker, lack) for lack in same[:_ROWS])
        if len(same) > _ROWS:
            yield _rest(asker, same[_ROWS:])


def _finding(asker: Asker, lack: Lack) -> Finding:
    say = warning if lack.is_optional else problem
    message = f"{asker.principal} lacks {lack.operation} on {_named(asker, lack)}: {lack.why}"
    return say(Check.RIGHT, asker.alias, lack.name, message, f"{_command(asker, lack)}; {_DENY}")


def _rest(asker: Asker, lacks: list[Lack]) -> Finding:
    first = lacks[0]
    say = warning if first.is_optional else problem
    names = few([lack.name for lack in lacks], 3)
    others = counted(len(lacks), f"more {first.kind}")
    message = f"{asker.principal} lacks {first.operation} on {others} of {asker.alias} ({names}): {first.why}"
    return say(
        Check.RIGHT,
        asker.alias,
        "",
        message,
        f"{_command(asker, first)}, and the same command for each other {first.kind}; {_DENY}",
    )


def _named(asker: Asker, lack: Lack) -> str:
    if lack.kind == CLUSTER:
        return f"{CLUSTER} {asker.alias}"
    return f"{lack.kind} {lack.name} of {asker.alias}"


def _command(asker: Asker, lack: Lack) -> str:
    name = lack.name.removesuffix("*") or lack.name
    pattern = "literal" if name == lack.name else "prefixed"
    resource = resource_option(_TYPES[lack.kind], name, pattern)
    return grant_command(asker.bootstrap, asker.principal, [lack.operation], resource)
