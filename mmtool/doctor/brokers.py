"""Checks of brokers: their Kafka release, as far as it can be derived; a flow's replicas; space on disks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from mmtool.doctor.examination import mm2_topics, own_topics
from mmtool.doctor.finding import cluster_check, flow_check, limited, ok, problem, warning
from mmtool.output.human import size
from mmtool.plan.topics.configs import MIN_ISR
from mmtool.plan.words import counted, few, joined
from mmtool.translation.types import UNKNOWN, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from mmtool.config import FlowSettings
    from mmtool.doctor.examination import ExaminedCluster, ExaminedFlow
    from mmtool.doctor.finding import Finding
    from mmtool.kafka.admin.cluster_details import KafkaClusterDetails
    from mmtool.kafka.admin.listeners import ListenerAnswer
    from mmtool.kafka.wire.metadata import LogDir, TopicMetadata
    from mmtool.kafka.wire.request import SpokenApis


METADATA_VERSION = "metadata.version"


class KafkaRelease(NamedTuple):
    """A Kafka release, as far as it can be derived.

    Attributes:
        is_newer: Newer than the newest that mmtool knows.
    """

    major: int
    minor: int
    is_newer: bool = False

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}" + (" or later" if self.is_newer else "")


OLDEST = KafkaRelease(2, 0)
"""The oldest release that can be derived; earlier ones look the same."""

_BY_LEVEL = (
    (34, KafkaRelease(4, 4, is_newer=True)),
    (31, KafkaRelease(4, 4)),
    (30, KafkaRelease(4, 3)),
    (28, KafkaRelease(4, 2)),
    (26, KafkaRelease(4, 1)),
    (22, KafkaRelease(4, 0)),
    (21, KafkaRelease(3, 9)),
    (20, KafkaRelease(3, 8)),
    (15, KafkaRelease(3, 7)),
    (12, KafkaRelease(3, 6)),
    (9, KafkaRelease(3, 5)),
    (8, KafkaRelease(3, 4)),
    (4, KafkaRelease(3, 3)),
)
"""The lowest ``metadata.version`` that only this release and later ones know (``MetadataVersion``), newest first."""

_BY_API = (
    (1, 17, KafkaRelease(3, 9)),
    (1, 16, KafkaRelease(3, 7)),
    (1, 14, KafkaRelease(3, 5)),
    (35, 4, KafkaRelease(3, 3)),
    (11, 8, KafkaRelease(3, 2)),
    (1, 13, KafkaRelease(3, 1)),
    (65, 0, KafkaRelease(3, 0)),
    (60, 0, KafkaRelease(2, 8)),
    (1, 12, KafkaRelease(2, 7)),
    (48, 0, KafkaRelease(2, 6)),
    (9, 7, KafkaRelease(2, 5)),
    (47, 0, KafkaRelease(2, 4)),
    (3, 8, KafkaRelease(2, 3)),
    (11, 4, KafkaRelease(2, 2)),
    (1, 10, KafkaRelease(2, 1)),
)
"""An API's number and a version that came with a release (Kafka's protocol guide), newest first: with ZooKeeper."""


def release_of(spoken: SpokenApis) -> KafkaRelease:
    """The newest release by a broker's feature levels, else by its API versions."""
    level = spoken.features.get(METADATA_VERSION, 0)
    by_level = (release for mark, release in _BY_LEVEL if level >= mark)
    by_api = (release for api, version, release in _BY_API if spoken.versions.get(api, (0, -1))[1] >= version)
    return next(by_level, None) or next(by_api, OLDEST)


class Floor(NamedTuple):
    """The minimum that a role needs."""

    role: str
    major: int
    minor: int


SOURCE_FLOOR = Floor("source", 2, 1)
TARGET_FLOOR = Floor("target", 2, 5)
_TOPIC_IDS = (2, 8)


@cluster_check("versions")
def check_versions(cluster: ExaminedCluster) -> Iterator[Finding]:
    """The release of each broker, by its `metadata.version` and API versions.

    Problem: a source before 2.1, a target before 2.5
    Warning: several releases; brokers before 2.8, which have no topic ids
    Effect: with a too old broker `replicate` does not run; without topic ids mmtool cannot distinguish a recreated
        topic from the old one
    Remedy: upgrade the brokers; complete the upgrade
    """
    is_target = any(flow.target.alias == cluster.alias for flow in cluster.settings_of_file.flows)
    floor = TARGET_FLOOR if is_target else SOURCE_FLOOR
    return judge_versions(cluster.alias, cluster.details.listeners(), floor)


def judge_versions(alias: str, answers: Sequence[ListenerAnswer], floor: Floor) -> Iterator[Finding]:
    """Findings about brokers that are too old, and about an upgrade in progress."""
    found: dict[KafkaRelease, list[str]] = {}
    for one in answers:
        if one.apis is not None:
            name = one.address if one.broker is None else f"broker {one.broker}"
            names = found.setdefault(release_of(one.apis), [])
            names.extend([name] if name not in names else [])
    if not found:
        message = f"the Kafka release of {alias} was not checked: no broker answered the request for its API versions"
        yield warning(alias, "", message, f"see the listeners and authentication rows of {alias}")
        return
    findings = [*_old(alias, found, floor), *_mixed(alias, found)]
    yield from findings or [ok(f"Kafka {next(iter(found))}")]


def _old(alias: str, found: dict[KafkaRelease, list[str]], floor: Floor) -> Iterator[Finding]:
    oldest = min(found)
    needed = f"{floor.major}.{floor.minor}"
    if oldest[:2] < (floor.major, floor.minor):
        message = (
            f"{few(found[oldest])} of {alias} {_run(found[oldest])} {_named(oldest)}: a {floor.role} cluster needs"
            f" Kafka {needed} or later"
        )
        yield problem(alias, "", message, f"upgrade the brokers to {needed} or later")
    elif oldest[:2] < _TOPIC_IDS:
        message = (
            f"{few(found[oldest])} of {alias} {_run(found[oldest])} {_named(oldest)}, which has no topic ids: mmtool"
            " cannot distinguish a topic that is deleted and created again from the deleted one"
        )
        yield warning(alias, "", message, "upgrade the brokers to 2.8 or later")


def _run(brokers: Sequence[str]) -> str:
    return "runs" if len(brokers) == 1 else "run"


def _named(release: KafkaRelease) -> str:
    """A broker's release in words; the oldest one that can be derived includes all earlier ones."""
    return f"Kafka {release} or earlier" if release == OLDEST else f"Kafka {release}"


def _mixed(alias: str, found: dict[KafkaRelease, list[str]]) -> Iterator[Finding]:
    if len(found) > 1:
        each = "; ".join(f"{_named(release)}: {few(names)}" for release, names in sorted(found.items()))
        message = (
            f"brokers of {alias} run {len(found)} releases ({each}), as during an upgrade: a broker that restarts"
            " delays a failover"
        )
        yield warning(alias, "", message, "complete the upgrade before a planned failover")


# --- replicas ---------------------------------------------------------------------------------------------

_LONE = 1
_CAPS_MIN_ISR = (3, 7)


class Factor(NamedTuple):
    """The replication factor of new topics.

    Attributes:
        key: The key that sets it.
        replicas: Their number; -1 leaves it to the brokers' default.
        what: Which topics.
    """

    key: str
    replicas: int
    what: str


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """The replicas on one side of a flow.

    Attributes:
        brokers: How many are there now.
        factors: Of topics that the flow creates on this side.
        in_sync: ``min.insync.replicas`` of brokers, for topics to be created; None where they do not return it.
        topics: Those of the flow on this side that exist.
        needed: Each topic's ``min.insync.replicas``, where it is known.
        is_written: The flow writes them; else it reads them.
        refuses_short: Brokers before 3.7: a topic with fewer replicas than ``min.insync.replicas`` accepts no records.
    """

    alias: str
    brokers: int
    factors: tuple[Factor, ...]
    in_sync: int | None
    topics: Mapping[str, TopicMetadata]
    needed: Mapping[str, int]
    is_written: bool
    refuses_short: bool = False


@flow_check("replication_factor", "every mirrored partition has a leader, and all its replicas are in sync")
def check_replicas(flow: ExaminedFlow) -> Iterator[Finding]:
    """Replication factors against brokers and `min.insync.replicas`; leaders and in-sync replicas.

    Problem: a factor above the number of brokers, or below `min.insync.replicas`; too few replicas in sync; a
        partition without a leader
    Warning: one replica where there are more brokers; under-replicated partitions
    Effect: topics cannot be created; writes with `acks=all` fail; a lost broker loses records
    Remedy: `replication.factor`; start brokers; `kafka-reassign-partitions.sh`
    """
    mirrored = flow.mirror_names()
    yield from judge_replicas(_source_side(flow, mirrored))
    yield from judge_replicas(_target_side(flow, mirrored.values()))


def _source_side(flow: ExaminedFlow, topics: Collection[str]) -> ReplicaFacts:
    details, syncs = flow.source, mm2_topics(flow, "source")
    key, replicas = "offset-syncs.topic.replication.factor", flow.settings.offset_syncs_replication_factor
    factors = tuple(Factor(key, replicas, name) for name in _absent(details, syncs))
    known = {name: one for name, one in details.topics().items() if name in topics}
    return ReplicaFacts(details.alias, len(details.brokers()), factors, None, known, {}, is_written=False)


def _target_side(flow: ExaminedFlow, topics: Iterable[str]) -> ReplicaFacts:
    details, own = flow.target, (*own_topics(flow.identity()), *mm2_topics(flow, "target"))
    written = {*topics, *own}
    known = {name: one for name, one in details.topics().items() if name in written}
    defaults = (values.get(MIN_ISR) for values in details.broker_configs([MIN_ISR]).values())
    configs = details.configs(known, [MIN_ISR])
    releases = [release_of(one.apis) for one in details.listeners() if one.apis is not None]
    return ReplicaFacts(
        details.alias,
        len(details.brokers()),
        tuple(_target_factors(flow, _absent(details, own))),
        max((int(value) for value in defaults if value), default=None),
        known,
        {name: int(of[MIN_ISR].value or 1) for name, of in configs.items() if MIN_ISR in of},
        is_written=True,
        refuses_short=any(release[:2] < _CAPS_MIN_ISR for release in releases),
    )


def _absent(details: KafkaClusterDetails, names: Collection[str]) -> list[str]:
    return [name for name in names if name not in details.topics()]


def _target_factors(flow: ExaminedFlow, absent: Collection[str]) -> Iterator[Factor]:
    """The replication factors of topics that the flow may create; mirrored topics may be created at any time."""
    settings = flow.settings
    yield Factor("replication.factor", settings.replication_factor, "mirrored topics")
    if any(name != settings.checkpoints_topic for name in absent):
        key = "offset-syncs.topic.replication.factor"
        yield Factor(key, settings.offset_syncs_replication_factor, "topics mmtool-*")
    if settings.checkpoints_topic in absent:
        key = "checkpoints.topic.replication.factor"
        yield Factor(key, settings.checkpoints_replication_factor, settings.checkpoints_topic)


def judge_replicas(side: ReplicaFacts) -> Iterator[Finding]:
    """Findings about impossible or low replication factors, leaderless partitions and out-of-sync replicas."""
    yield from _of_factors(side)
    yield from limited(_offline(side))
    if side.is_written:
        yield from limited(_too_few(side))
        yield from _lone(side)
    yield from limited(_behind(side))


def _of_factors(side: ReplicaFacts) -> Iterator[Finding]:
    for key, replicas, what in side.factors:
        if replicas > side.brokers:
            have = counted(side.brokers, "broker")
            message = f"{key} = {replicas}, and {side.alias} has {have}: {what} cannot be created"
            remedy = f"set {key} to {side.brokers} or less, or start more brokers"
            yield problem(side.alias, key, message, remedy)
        elif side.in_sync is not None and 0 < replicas < side.in_sync:
            message = (
                f"{key} = {replicas} is below min.insync.replicas = {side.in_sync} of the brokers of {side.alias}: for"
                f" {what}, {_consequence(side, replicas)}"
            )
            remedy = f"set {key} to {side.in_sync} or more"
            yield problem(side.alias, key, message, remedy)


def _offline(side: ReplicaFacts) -> Iterator[Finding]:
    for name, topic in side.topics.items():
        lost = [n for n, one in enumerate(topic.partitions) if one.leader is None]
        if lost:
            what = "written" if side.is_written else "read"
            message = f"{_partitions(name, lost)} without a leader on {side.alias}: no record can be {what}"
            remedy = f"start the brokers of {side.alias} that hold the replicas of {name}"
            yield problem(side.alias, name, message, remedy)


def _too_few(side: ReplicaFacts) -> Iterator[Finding]:
    for name, topic in side.topics.items():
        wanted = side.needed.get(name, 1)
        short = [one for one in topic.partitions if one.leader is not None and len(one.in_sync) < wanted]
        if not short:
            continue
        have, made = min(len(one.in_sync) for one in short), min(len(one.replicas) for one in short)
        fails = (
            "writes with acks=all fail until more replicas are in sync"
            if have < made
            else _consequence(side, made)
        )
        in_sync = f"{counted(have, 'replica')} in sync of {made}"
        message = f"{name} on {side.alias} has {in_sync}, below min.insync.replicas = {wanted}: {fails}"
        remedy = (
            f"add replicas with kafka-reassign-partitions.sh, or lower min.insync.replicas of {name}"
            if made < wanted
            else f"start the brokers of {side.alias} that are down; if none is, the brokers' logs say why replicas of"
            f" {name} are out of sync"
        )
        yield problem(side.alias, name, message, remedy)


def _consequence(side: ReplicaFacts, replicas: int) -> str:
    """The consequence of fewer replicas than ``min.insync.replicas``, as a clause."""
    if side.refuses_short:
        return "brokers before Kafka 3.7 refuse every write with acks=all"
    return f"brokers accept writes with {counted(replicas, 'replica')} in sync, fewer than min.insync.replicas asks for"


def _behind(side: ReplicaFacts) -> Iterator[Finding]:
    for name, topic in side.topics.items():
        wanted = side.needed.get(name, 1) if side.is_written else 1
        behind = [
            n
            for n, one in enumerate(topic.partitions)
            if one.leader is not None and wanted <= len(one.in_sync) < len(one.replicas)
        ]
        if behind:
            message = (
                f"{_partitions(name, behind)} under-replicated on {side.alias}: if more brokers fail, partitions may"
                " have no leader"
            )
            remedy = f"check the brokers of {side.alias} whose replicas of {name} are out of sync"
            yield warning(side.alias, name, message, remedy)


def _lone(side: ReplicaFacts) -> Iterator[Finding]:
    """The finding of topics with one replica on a cluster of several brokers; one row for all topics."""
    lone = sorted(
        name
        for name, topic in side.topics.items()
        if topic.partitions and min(len(one.replicas) for one in topic.partitions) == _LONE
    )
    factors = [factor.key for factor in side.factors if factor.replicas == _LONE]
    if side.brokers > _LONE and (lone or factors):
        brokers = counted(side.brokers, "broker")
        what = (
            f"partitions of {few(lone)} have one replica"
            if lone
            else " and ".join(f"{factor} = 1" for factor in factors)
        )
        message = f"{what}, and {side.alias} has {brokers}: if one broker is lost, records are lost"
        factor = min(3, side.brokers)
        set_to = f"set {' and '.join(factors)} to {factor}" if factors else ""
        add = "add replicas to existing topics with kafka-reassign-partitions.sh" if lone else ""
        remedy = joined(set_to, add)
        yield warning(side.alias, "", message, remedy)


def _partitions(name: str, numbers: list[int]) -> str:
    listed = few([f"{name}-{number}" for number in numbers], 3)
    return f"{listed} {'is' if len(numbers) == 1 else 'are'}"


# --- disks ------------------------------------------------------------------------------------------------

_LITTLE = 0.10
_NOTHING = 0.02


@cluster_check("disk", "no log directory is offline or full")
def check_disks(cluster: ExaminedCluster) -> Iterator[Finding]:
    """Each log directory is online and has free space; the target has space for what a flow still has to copy.

    Kafka 3.3 and later report free space.

    Problem: offline; less than 2 % free; too little space for a flow that never ran
    Warning: less than 10 % free; too little space for a flow that has run
    Effect: a full log directory goes offline, with its replicas
    Remedy: replace or add disks; lower `retention.ms`
    """
    answers = cluster.details.log_dirs(())
    for node, error in sorted(answers.failed.items()):
        message = f"log directories of broker {node} of {cluster.alias} were not checked: {error.message}"
        yield warning(cluster.alias, f"broker {node}", message, error.remedy)
    if answers:
        yield from judge_disks(cluster.alias, answers)


def judge_disks(alias: str, brokers: Mapping[int, tuple[LogDir, ...]]) -> Iterator[Finding]:
    """Findings about each broker's log directories: offline or full."""
    found = [
        finding
        for node, dirs in sorted(brokers.items())
        for one in dirs
        for finding in _of_dir(alias, node, one)
    ]
    known = [
        one
        for dirs in brokers.values()
        for one in dirs
        if one.total is not UNKNOWN and one.usable is not UNKNOWN
    ]
    if found:
        yield from found
    elif known:
        fullest = min(known, key=_share)
        free = f"{_share(fullest):.0%} ({size(_free(fullest))})"
        yield ok(f"every log directory is online; the fullest volume has {free} free")
    else:
        yield ok(
            "no log directory is offline; free space was not checked: brokers before Kafka 3.3 do not report it"
        )


def _of_dir(alias: str, node: int, one: LogDir) -> Iterator[Finding]:
    subject = f"broker {node}: {one.path}" if one.path else f"broker {node}"
    what = f"log directory {one.path or '(path not reported)'} of broker {node} of {alias}"
    if one.failure:
        message = f"{what} is offline ({one.failure}): its replicas cannot be read or written"
        yield problem(
            alias,
            subject,
            message,
            "free space if the disk is full, else repair or replace it; then restart the broker",
        )
    elif one.total is not UNKNOWN and one.usable is not UNKNOWN and _share(one) < _LITTLE:
        say = problem if _share(one) < _NOTHING else warning
        message = (
            f"{what} has {size(one.usable)} of {size(one.total)} free ({_share(one):.0%}): Kafka takes a full log"
            " directory offline"
        )
        remedy = "add disk space, or lower retention.ms or retention.bytes of large topics"
        yield say(alias, subject, message, remedy)


def _share(one: LogDir) -> float:
    return _free(one) / one.total if one.total is not UNKNOWN and one.total else 1.0


def _free(one: LogDir) -> int:
    return 0 if one.usable is UNKNOWN else one.usable


@flow_check("disk")
def check_room(flow: ExaminedFlow) -> Iterator[Finding]:
    mirrored = flow.mirror_names()
    source, target = flow.source.log_dirs(mirrored), flow.target.log_dirs(mirrored.values())
    there = largest_sizes(target.values())
    held = largest_sizes(source.values())
    copied = {place: there.get(TopicPartition(mirrored[place.topic], place.partition), 0) for place in held}
    return judge_copy(flow.settings, held, copied, [one for dirs in target.values() for one in dirs])


def judge_copy(
    settings: FlowSettings,
    source: Mapping[TopicPartition, int],
    target: Mapping[TopicPartition, int],
    dirs: Iterable[LogDir],
) -> Iterator[Finding]:
    """Whether the target has room for what is still to be mirrored; brokers before 3.3 do not report free space.

    Args:
        settings: The flow's settings.
        source: Bytes of each mirrored partition on the source's disks.
        target: Bytes of its mirror, by the source's name.
        dirs: The target's log directories.
    """
    flow, alias, replicas = settings.name, settings.target.alias, max(settings.replication_factor, 1)
    known = [one for one in dirs if one.usable is not UNKNOWN and not one.failure]
    room = sum(map(_free, known))
    wanted = replicas * sum(max(held - target.get(place, 0), 0) for place, held in source.items())
    has = f"{alias} has {size(room)} free, and {flow} has up to {size(wanted)} to copy"
    if not known:
        yield ok(
            f"space for the copy was not checked: {alias} does not report free space; Kafka 3.3 and later report it to"
            f" a principal with DESCRIBE on cluster {alias}"
        )
    elif wanted <= room:
        yield ok(has)
    else:
        say = (
            warning if any(target.values()) else problem
        )  # one that was mirrored may keep less than the source
        of_each = f"{counted(replicas, 'replica')} of each partition"
        yield say(
            alias,
            flow,
            f"{has} ({of_each}): disks of {alias} may become full",
            f"add disk space to {alias}, or mirror fewer topics; or set mmtool.start = latest: topics that {flow} has"
            " not mirrored before are then mirrored without their existing records",
        )


def largest_sizes(brokers: Iterable[Iterable[LogDir]]) -> dict[TopicPartition, int]:
    """The size in bytes of each partition's largest replica."""
    found: dict[TopicPartition, int] = {}
    for one in (directory for dirs in brokers for directory in dirs):
        for place, held in one.sizes.items():
            found[place] = max(held, found.get(place, 0))
    return found
