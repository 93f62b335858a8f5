"""Find the missing rights of a flow from the brokers' answers: one row for each missing right.

A missing required right is a problem: `replicate` or `failover` fails without it. A missing optional one is a warning:
one feature is left out, and the rest works.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, Self

from mmtool.config.settings import OWN_TOPIC_PREFIX
from mmtool.doctor.examination import mm2_topics, own_topics
from mmtool.doctor.finding import MOST_ROWS, Check, ok, problem, warning
from mmtool.errors import MmtoolError
from mmtool.kafka.wire.acls import Operation
from mmtool.plan.groups.facts import OWN_GROUP_PREFIX
from mmtool.plan.words import counted, few
from mmtool.rights.needs import Kind, ResourceType, needs_on
from mmtool.rights.render import grant_command, resource_option
from mmtool.translation.types import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from mmtool.doctor.examination import ExaminedFlow
    from mmtool.doctor.finding import Finding
    from mmtool.kafka.admin.cluster_details import KafkaClusterDetails, TopicDetails
    from mmtool.kafka.wire.acls import Rights
    from mmtool.rights.needs import Need, Side


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
        yield from (_finding(asker, lack) for lack in same[:MOST_ROWS])
        if len(same) > MOST_ROWS:
            yield _rest(asker, same[MOST_ROWS:])


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


_ON_MIRRORED = ("READ", "DESCRIBE_CONFIGS")
_ON_MIRRORS = ("WRITE", "READ", "ALTER", "DELETE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS")
_KEPT = ("WRITE", "READ")


def check_rights(flow: ExaminedFlow) -> Iterable[Finding]:
    """Check every right that replicate, translate-offsets and failover need, on both clusters."""
    groups, untold = _groups(flow)
    source, target = list(_source_lacks(flow, groups)), list(_target_lacks(flow, groups))
    untold += _untold_rights(flow)
    yield from untold
    yield from judge_rights(_asker(flow.source), source)
    yield from judge_rights(_asker(flow.target), target)
    if not (source or target or untold):
        topics = counted(len(flow.view.mirror_names()), "topic")
        message = f"mmtool has every right that the flow needs ({topics}, {counted(len(groups), 'group')})"
        yield ok(Check.RIGHT, "", message, flow.name)


def _asker(details: KafkaClusterDetails) -> Asker:
    return Asker(details.alias, details.principal, details.bootstrap)


def _groups(flow: ExaminedFlow) -> tuple[frozenset[str], list[Finding]]:
    """The source's groups that the flow accepts; or, where they cannot be listed, the finding that says why."""
    try:
        return frozenset(flow.view.accepted_groups()), []
    except MmtoolError as error:
        message = f"rights on the groups of {flow.source.alias} were not checked: {error.message}"
        return frozenset(), [warning(Check.RIGHT, flow.source.alias, "", message, error.remedy)]


def _untold_rights(flow: ExaminedFlow) -> Iterator[Finding]:
    for details in (flow.source, flow.target):
        found = details.topics().values()
        if found and all(topic.rights is UNKNOWN for topic in found):
            message = (
                f"rights on topics of {details.alias} were not checked: only brokers of Kafka 2.8 or later"
                " report them"
            )
            command = "mmtool acls --for replicate --for failover -c FILE"
            remedy = f"compare the ACLs of {details.principal} with `{command}`"
            yield warning(Check.RIGHT, details.alias, "", message, remedy)


def _source_lacks(flow: ExaminedFlow, groups: Collection[str]) -> Iterator[Lack]:
    details, topics = flow.source, flow.source.topics()
    mirrored = _needs(flow, "source", Kind.MIRRORED, *_ON_MIRRORED)
    yield from lacking_on_topics(topics, flow.view.mirror_names(), mirrored)
    yield from _all_of(details.hidden(flow.settings.literal_topics - topics.keys()), mirrored)
    yield from _of_kept(
        details, mm2_topics(flow, "source"), _needs(flow, "source", Kind.OFFSET_SYNCS, *_KEPT)
    )
    (described,) = _needs(flow, "source", Kind.GROUPS, "DESCRIBE")
    yield from (Lack.of(described, name) for name in sorted(details.hidden_groups(groups)))
    yield from lacking_on_cluster(details.rights(), _needs(flow, "source", Kind.WHOLE, "DESCRIBE"))


def _target_lacks(flow: ExaminedFlow, groups: Collection[str]) -> Iterator[Lack]:
    details, topics = flow.target, flow.target.topics()
    identity = flow.view.identity()
    remote = flow.view.mirror_names().values()
    mirrors = _needs(flow, "target", Kind.MIRRORS, *_ON_MIRRORS)
    yield from lacking_on_topics(topics, remote, mirrors)
    yield from _hidden_or_uncreatable(flow, remote, mirrors)
    kept = _needs(flow, "target", Kind.INTERNAL, *_KEPT)
    yield from _of_kept(details, own_topics(identity), kept, f"{OWN_TOPIC_PREFIX}*")
    yield from _of_kept(details, mm2_topics(flow, "target"), kept)
    own = f"{OWN_GROUP_PREFIX}*"
    if details.unclaimable([identity.transactional_id(0)]):
        yield from (Lack.of(need, own) for need in _needs(flow, "target", Kind.OWN_IDS, "WRITE"))
    if details.unreadable_groups([identity.ownership_group]):
        yield from (Lack.of(need, own) for need in _needs(flow, "target", Kind.OWN_GROUPS, "READ"))
    yield from _on_groups(flow, groups)
    carries_acls = flow.settings.sync_topic_acls and flow.source.has_authorizer()
    of_cluster = ("DESCRIBE", "ALTER") if carries_acls else ("DESCRIBE",)
    yield from lacking_on_cluster(details.rights(), _needs(flow, "target", Kind.WHOLE, *of_cluster))


def _on_groups(flow: ExaminedFlow, groups: Collection[str]) -> Iterator[Lack]:
    """Missing READ and DELETE rights on groups; one row where DELETE is missing on all groups."""
    read, delete = _needs(flow, "target", Kind.GROUPS, "READ", "DELETE")
    yield from (Lack.of(read, name) for name in sorted(flow.target.unreadable_groups(groups)))
    denied = sorted(flow.target.undeletable_groups(groups))
    named = ["*"] if len(denied) == len(groups) > 1 else denied
    yield from (Lack.of(delete, name) for name in named)


def _needs(flow: ExaminedFlow, side: Side, kind: Kind, *operations: str) -> list[Need]:
    """The lines of the table of rights for these operations, as far as the flow's settings ask for them."""
    found = needs_on(flow.settings, side, kind)
    return [found[operation] for operation in operations if operation in found]


def _all_of(hidden: Iterable[str], needs: Iterable[Need]) -> Iterator[Lack]:
    """Every needed right, for topics that are not shown: each right on a topic implies DESCRIBE, so all are missing."""
    needed = [need for need in needs if not need.is_optional]
    for name in sorted(hidden):
        yield from (Lack.of(need, name) for need in needed)


def _hidden_or_uncreatable(flow: ExaminedFlow, names: Iterable[str], needs: Iterable[Need]) -> Iterator[Lack]:
    details = flow.target
    missing = set(names) - set(details.topics())
    hidden = details.hidden(missing)
    yield from _all_of(hidden, needs)
    (create,) = _needs(flow, "target", Kind.MIRRORS, "CREATE")
    yield from (Lack.of(create, name) for name in _uncreatable(details, missing - hidden))


def _of_kept(
    details: KafkaClusterDetails, names: Collection[str], needs: Collection[Need], pattern: str = ""
) -> Iterator[Lack]:
    """Missing rights on internal topics; where none can be created, the pattern that grants all of them."""
    topics = details.topics()
    yield from lacking_on_topics(topics, names, needs)
    missing = set(names) - topics.keys()
    hidden = details.hidden(missing)
    yield from _all_of(hidden, needs)
    denied = sorted(_uncreatable(details, missing - hidden))
    if denied and pattern:
        yield Lack("topic", "CREATE", pattern, f"mmtool cannot create {few(denied, 2)}")
    else:
        yield from (Lack("topic", "CREATE", name, f"mmtool cannot create {name}") for name in denied)


def _uncreatable(details: KafkaClusterDetails, names: Collection[str]) -> Collection[str]:
    """The topics that could not be created; no request is made where CREATE is granted on the whole cluster."""
    rights = details.rights()
    if not names or (rights is not UNKNOWN and rights.may(Operation.CREATE)):
        return ()
    return details.uncreatable(names)
