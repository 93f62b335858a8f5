"""Doctor checks of the rights that a flow needs on both clusters, by requests that cannot change anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.doctor.finding import Check, ok, warning
from mmtool.doctor.flow_scope import (
    identity_of,
    mirrored_topics,
    mm2_topics,
    named_topics,
    own_topics,
    synced_groups,
)
from mmtool.doctor.rights import (
    Asker,
    Lack,
    Need,
    judge_rights,
    lacking_on_cluster,
    lacking_on_topics,
)
from mmtool.errors import MmtoolError
from mmtool.kafka.wire.rights import Operation
from mmtool.plan.words import counted, few
from mmtool.translation.known import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from mmtool.doctor.examination import ExaminedFlow
    from mmtool.doctor.finding import Finding
    from mmtool.kafka.admin.details import ClusterDetailsPort, TopicDetails

_MIRROR_FROM = (
    Need(Operation.READ, "`mmtool replicate` cannot read its records"),
    Need(Operation.DESCRIBE_CONFIGS, "its configuration is not copied to the mirror", is_optional=True),
)
_MIRROR_TO = (
    Need(Operation.WRITE, "`mmtool replicate` cannot mirror records to it"),
    Need(
        Operation.READ,
        "a new owner cannot read back mirrored records, and no group's offsets can be committed",
    ),
    Need(Operation.ALTER, "partitions that the source topic gains are not added", is_optional=True),
    Need(
        Operation.ALTER_CONFIGS,
        "changes of the source topic's configuration are not copied",
        is_optional=True,
    ),
    Need(
        Operation.DESCRIBE_CONFIGS,
        "its configuration is not compared with the source topic's",
        is_optional=True,
    ),
)
_KEPT = (
    Need(Operation.WRITE, "mmtool cannot store the flow's state or offsets in it"),
    Need(Operation.READ, "mmtool cannot read the flow's state or offsets from it"),
)
_ACLS = (
    Need(
        Operation.DESCRIBE,
        "only groups with DESCRIBE are listed, disks are not checked, and ACLs are not copied",
        is_optional=True,
    ),
    Need(Operation.ALTER, "topic ACLs of the source are not copied to it", is_optional=True),
)
_DESCRIBED = _ACLS[:1]
_CREATE = "the topic does not exist yet, and mmtool cannot create it"


def check_rights(flow: ExaminedFlow) -> Iterable[Finding]:
    """Check every right that replicate, translate-offsets and failover need, on both clusters."""
    groups, untold = _groups(flow)
    source, target = list(_source_lacks(flow, groups)), list(_target_lacks(flow, groups))
    untold += _untold_rights(flow)
    yield from untold
    yield from judge_rights(_asker(flow.source), source)
    yield from judge_rights(_asker(flow.target), target)
    if not (source or target or untold):
        topics = counted(len(mirrored_topics(flow)), "topic")
        message = f"mmtool has every right that the flow needs ({topics}, {counted(len(groups), 'group')})"
        yield ok(Check.RIGHT, "", message, flow.name)


def _asker(details: ClusterDetailsPort) -> Asker:
    return Asker(details.alias, details.principal, details.bootstrap)


def _groups(flow: ExaminedFlow) -> tuple[frozenset[str], list[Finding]]:
    """The source's groups that the flow accepts; or, where they cannot be listed, the finding that says why."""
    try:
        return synced_groups(flow), []
    except MmtoolError as error:
        message = f"rights on the groups of {flow.source.alias} were not checked: {error.message}"
        return frozenset(), [warning(Check.RIGHT, flow.source.alias, "", message, error.remedy)]


def _untold_rights(flow: ExaminedFlow) -> Iterator[Finding]:
    for details in (flow.source, flow.target):
        found = details.topics().values()
        if found and all(topic.rights is UNKNOWN for topic in found):
            message = (
                f"rights on topics of {details.alias} were not checked: brokers before Kafka 2.8 do not report"
                " them"
            )
            remedy = f"compare the ACLs of {details.principal} with the rights in docs/reference/doctor.md"
            yield warning(Check.RIGHT, details.alias, "", message, remedy)


def _source_lacks(flow: ExaminedFlow, groups: Collection[str]) -> Iterator[Lack]:
    details, topics = flow.source, flow.source.topics()
    needs = _MIRROR_FROM if flow.settings.sync_topic_configs else _MIRROR_FROM[:1]
    yield from lacking_on_topics(topics, mirrored_topics(flow), needs)
    yield from _all_of(details.hidden(named_topics(flow) - topics.keys()), _MIRROR_FROM)
    yield from _of_kept(details, topics, mm2_topics(flow, "source"))
    for group in sorted(details.hidden_groups(groups)):
        yield Lack("group", "DESCRIBE", group, "mmtool cannot translate its offsets")
    yield from lacking_on_cluster(details.rights(), _DESCRIBED)


def _target_lacks(flow: ExaminedFlow, groups: Collection[str]) -> Iterator[Lack]:
    details, topics = flow.target, flow.target.topics()
    identity = identity_of(flow)
    remote = mirrored_topics(flow).values()
    yield from lacking_on_topics(topics, remote, _needed_of(flow))
    yield from _hidden_or_uncreatable(details, topics, remote)
    yield from _of_kept(details, topics, own_topics(identity), "mmtool-*")
    yield from _of_kept(details, topics, mm2_topics(flow, "target"))
    if details.unclaimable([identity.transactional_id(0)]):
        yield Lack("transactional id", "WRITE", "mmtool.*", "`mmtool replicate` cannot claim its shards")
    if details.unreadable_groups([identity.ownership_group]):
        yield Lack(
            "group", "READ", "mmtool.*", "`mmtool replicate` cannot get the ownership lease of the flow"
        )
    for group in sorted(details.unreadable_groups(groups)):
        yield Lack("group", "READ", group, "translated offsets cannot be committed for it")
    yield from _undeletable(details, groups)
    carries_acls = flow.settings.sync_topic_acls and flow.source.has_authorizer()
    yield from lacking_on_cluster(details.rights(), _ACLS if carries_acls else _DESCRIBED)


def _undeletable(details: ClusterDetailsPort, groups: Collection[str]) -> Iterator[Lack]:
    """Missing DELETE rights on groups; one row where they are missing on all groups."""
    why = "a rollback or a drill cannot delete offsets of a group that had none before"
    denied = sorted(details.undeletable_groups(groups))
    named = ["*"] if len(denied) == len(groups) > 1 else denied
    yield from (Lack("group", "DELETE", name, why, is_optional=True) for name in named)


def _needed_of(flow: ExaminedFlow) -> list[Need]:
    left_out = set() if flow.settings.sync_topic_configs else {Operation.ALTER_CONFIGS}
    return [need for need in _MIRROR_TO if need.operation not in left_out]


def _all_of(hidden: Iterable[str], needs: Iterable[Need]) -> Iterator[Lack]:
    """Every needed right, for topics that are not shown: each right on a topic implies DESCRIBE, so all are missing."""
    needed = [need for need in needs if not need.is_optional]
    for name in sorted(hidden):
        yield from (Lack("topic", need.operation.name, name, need.why) for need in needed)


def _hidden_or_uncreatable(
    details: ClusterDetailsPort, topics: Collection[str], names: Iterable[str]
) -> Iterator[Lack]:
    missing = set(names) - set(topics)
    hidden = details.hidden(missing)
    yield from _all_of(hidden, _MIRROR_TO)
    for name in _uncreatable(details, missing - hidden):
        yield Lack("topic", "CREATE", name, _CREATE)


def _of_kept(
    details: ClusterDetailsPort, topics: Mapping[str, TopicDetails], names: Collection[str], pattern: str = ""
) -> Iterator[Lack]:
    """Missing rights on internal topics; where none can be created, the pattern that grants all of them."""
    yield from lacking_on_topics(topics, names, _KEPT)
    missing = set(names) - topics.keys()
    hidden = details.hidden(missing)
    yield from _all_of(hidden, _KEPT)
    denied = _uncreatable(details, missing - hidden)
    if denied and pattern:
        yield Lack("topic", "CREATE", pattern, f"mmtool cannot create {few(sorted(denied), 2)}")
    else:
        yield from (Lack("topic", "CREATE", name, _CREATE) for name in sorted(denied))


def _uncreatable(details: ClusterDetailsPort, names: Collection[str]) -> Collection[str]:
    """The topics that could not be created; no request is made where CREATE is granted on the whole cluster."""
    rights = details.rights()
    if not names or (rights is not UNKNOWN and rights.may(Operation.CREATE)):
        return ()
    return details.uncreatable(names)
