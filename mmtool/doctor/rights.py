"""Find the missing rights of a flow from the brokers' answers: one row for each missing right.

A missing required right is a problem: `replicate` or `failover` fails without it. A missing optional one is a warning:
one feature is left out, and the rest works.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, Self

from mmtool.config.settings import OWN_TOPIC_PREFIX
from mmtool.doctor.examination import mm2_topics, own_topics
from mmtool.doctor.finding import MOST_ROWS, flow_check, ok, problem, warning
from mmtool.errors import MmtoolError
from mmtool.kafka.wire.acls import AclOperation
from mmtool.plan.groups.facts import OWN_GROUP_PREFIX
from mmtool.plan.words import counted, few
from mmtool.rights.needs import Resource, ResourceType, needs_on
from mmtool.rights.render import grant_command, resource_option
from mmtool.translation.types import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from mmtool.doctor.examination import ExaminedFlow
    from mmtool.doctor.finding import Finding
    from mmtool.kafka.admin.cluster_details import KafkaClusterDetails
    from mmtool.kafka.wire.acls import Rights
    from mmtool.kafka.wire.metadata import TopicMetadata
    from mmtool.rights.needs import Need, Side


_DENY = "if a DENY rule exists, remove it: it overrides this grant"
_KINDS = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.TRANSACTIONAL_ID: "transactional id",
    ResourceType.CLUSTER: "the cluster",
}
"""The words for each kind of resource."""


class Lack(NamedTuple):
    """A right that is missing.

    Attributes:
        kind: Of the resource.
        name: Of the resource; what ends in ``*`` stands for all names that begin so.
        why: The feature that needs it.
        is_optional: The rest works without it.
    """

    kind: ResourceType
    operation: str
    name: str
    why: str
    is_optional: bool = False

    @classmethod
    def of(cls, need: Need, name: str) -> Self:
        """A needed right that is missing on one resource; on the cluster itself the name is empty."""
        return cls(need.kind.resource_type, need.operation, name, need.lost, need.is_optional)


def lacking_on_topics(
    topics: Mapping[str, TopicMetadata], names: Iterable[str], needs: Iterable[Need]
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
        yield from (Lack.of(need, name) for need in needs if not rights.may(AclOperation[need.operation]))


def judge_rights(details: KafkaClusterDetails, lacks: Iterable[Lack]) -> Iterator[Finding]:
    """A row for each missing right of a cluster's principal, needed rights before optional ones."""
    alias, principal = details.alias, details.principal

    def command(lack: Lack) -> str:
        name = lack.name.removesuffix("*") or lack.name
        resource = resource_option(lack.kind, name, "literal" if name == lack.name else "prefixed")
        return grant_command(details.bootstrap, principal, [lack.operation], resource)

    ordered = sorted(set(lacks), key=lambda lack: (lack.is_optional, lack.kind, lack.operation, lack.name))
    for _, of in groupby(ordered, key=lambda lack: lack[:2]):
        same = list(of)
        for lack in same[:MOST_ROWS]:
            say, kind = warning if lack.is_optional else problem, _KINDS[lack.kind]
            on = f"{kind} {alias}" if lack.kind is ResourceType.CLUSTER else f"{kind} {lack.name} of {alias}"
            message = f"{principal} lacks {lack.operation} on {on}: {lack.why}"
            yield say(alias, lack.name, message, f"{command(lack)}; {_DENY}")
        if rest := same[MOST_ROWS:]:
            first, kind = rest[0], _KINDS[rest[0].kind]
            say = warning if first.is_optional else problem
            names = few([lack.name for lack in rest], 3)
            others = counted(len(rest), f"more {kind}")
            message = f"{principal} lacks {first.operation} on {others} of {alias} ({names}): {first.why}"
            again = f"{command(first)}, and the same command for each other {kind}; {_DENY}"
            yield say(alias, "", message, again)


_ON_MIRRORED = ("READ", "DESCRIBE_CONFIGS")
_ON_MIRRORS = ("WRITE", "READ", "ALTER", "DELETE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS")
_KEPT = ("WRITE", "READ")


@flow_check("right")
def check_rights(flow: ExaminedFlow) -> Iterator[Finding]:
    """The rights of the list below.

    Problem: a needed right is missing
    Warning: an optional right is missing; rights cannot be read
    Effect: without a needed right `replicate`, `translate-offsets` or `failover` ends; without an optional right
        only the named part does not work
    Remedy: the `kafka-acls.sh` command in the row
    """
    groups: frozenset[str] = frozenset()
    untold = []
    try:
        groups = frozenset(flow.accepted_groups())
    except MmtoolError as error:
        message = f"rights on the groups of {flow.source.alias} were not checked: {error.message}"
        untold.append(warning(flow.source.alias, "", message, error.remedy))
    source, target = (
        [one for one in lacks if flow.settings.create_topics or one.operation != AclOperation.CREATE.name]
        for lacks in (_source_lacks(flow, groups), _target_lacks(flow, groups))
    )
    untold += _untold_rights(flow)
    yield from untold
    yield from judge_rights(flow.source, source)
    yield from judge_rights(flow.target, target)
    if not (source or target or untold):
        topics = counted(len(flow.mirror_names()), "topic")
        message = f"mmtool has every right that the flow needs ({topics}, {counted(len(groups), 'group')})"
        yield ok(message)


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
            yield warning(details.alias, "", message, remedy)


def _source_lacks(flow: ExaminedFlow, groups: Collection[str]) -> Iterator[Lack]:
    details, topics = flow.source, flow.source.topics()
    mirrored = _needs(flow, "source", Resource.MIRRORED, *_ON_MIRRORED)
    yield from lacking_on_topics(topics, flow.mirror_names(), mirrored)
    yield from _all_of(details.hidden(flow.settings.literal_topics - topics.keys()), mirrored)
    yield from _on_topics(
        details, mm2_topics(flow, "source"), _needs(flow, "source", Resource.OFFSET_SYNCS, *_KEPT)
    )
    (described,) = _needs(flow, "source", Resource.GROUPS, "DESCRIBE")
    yield from (Lack.of(described, name) for name in sorted(details.hidden_groups(groups)))
    yield from lacking_on_cluster(details.rights(), _needs(flow, "source", Resource.WHOLE, "DESCRIBE"))


def _target_lacks(flow: ExaminedFlow, groups: Collection[str]) -> Iterator[Lack]:
    details, identity = flow.target, flow.identity()
    remote = flow.mirror_names().values()
    mirrors = _needs(flow, "target", Resource.MIRRORS, *_ON_MIRRORS)
    create = next(iter(_needs(flow, "target", Resource.MIRRORS, "CREATE")), None)
    yield from _on_topics(details, remote, mirrors, create=create)
    kept = _needs(flow, "target", Resource.INTERNAL, *_KEPT)
    yield from _on_topics(details, own_topics(identity), kept, pattern=f"{OWN_TOPIC_PREFIX}*")
    yield from _on_topics(details, mm2_topics(flow, "target"), kept)
    own = f"{OWN_GROUP_PREFIX}*"
    if details.unclaimable([identity.transactional_id(0)]):
        yield from (Lack.of(need, own) for need in _needs(flow, "target", Resource.OWN_IDS, "WRITE"))
    if details.unreadable_groups([identity.ownership_group]):
        yield from (Lack.of(need, own) for need in _needs(flow, "target", Resource.OWN_GROUPS, "READ"))
    read, delete = _needs(flow, "target", Resource.GROUPS, "READ", "DELETE")
    yield from (Lack.of(read, name) for name in sorted(details.unreadable_groups(groups)))
    denied = sorted(details.undeletable_groups(groups))
    named = ["*"] if len(denied) == len(groups) > 1 else denied  # one row where it is missing on all groups
    yield from (Lack.of(delete, name) for name in named)
    carries_acls = flow.settings.sync_topic_acls and flow.source.has_authorizer()
    of_cluster = ("DESCRIBE", "ALTER") if carries_acls else ("DESCRIBE",)
    yield from lacking_on_cluster(details.rights(), _needs(flow, "target", Resource.WHOLE, *of_cluster))


def _needs(flow: ExaminedFlow, side: Side, kind: Resource, *operations: str) -> list[Need]:
    """The lines of the table of rights for these operations, as far as the flow's settings ask for them."""
    found = needs_on(flow.settings, side, kind)
    return [found[operation] for operation in operations if operation in found]


def _all_of(hidden: Iterable[str], needs: Iterable[Need]) -> Iterator[Lack]:
    """Every needed right, for topics that are not shown: each right on a topic implies DESCRIBE, so all are missing."""
    needed = [need for need in needs if not need.is_optional]
    for name in sorted(hidden):
        yield from (Lack.of(need, name) for need in needed)


def _on_topics(
    details: KafkaClusterDetails,
    names: Collection[str],
    needs: Collection[Need],
    *,
    create: Need | None = None,
    pattern: str = "",
) -> Iterator[Lack]:
    """Missing rights on topics that exist, are hidden, or have to be created.

    Args:
        details: The cluster.
        names: The topics.
        needs: The rights on them.
        create: The right to create a mirror; None for internal topics.
        pattern: Of internal topics: it grants all of them where some cannot be created.
    """
    topics, rights = details.topics(), details.rights()
    yield from lacking_on_topics(topics, names, needs)
    missing = set(names) - topics.keys()
    hidden = details.hidden(missing)
    yield from _all_of(hidden, needs)
    denied: list[str] = []
    if missing - hidden and (rights is UNKNOWN or not rights.may(AclOperation.CREATE)):
        denied = sorted(details.uncreatable(missing - hidden))
    if create is not None:
        yield from (Lack.of(create, name) for name in denied)
    elif denied and pattern:
        yield Lack(ResourceType.TOPIC, "CREATE", pattern, f"mmtool cannot create {few(denied, 2)}")
    else:
        for name in denied:
            yield Lack(ResourceType.TOPIC, "CREATE", name, f"mmtool cannot create {name}")
