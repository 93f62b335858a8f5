"""Doctor checks ``mm2_*``: what an existing MirrorMaker 2 does not cover, by its topics and by its file."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from mmtool.config import FlowSettings
from mmtool.config.aliases import workers_groups
from mmtool.config.keys import FLOW_KEYS
from mmtool.config.load import read_file
from mmtool.config.names import NameFilter
from mmtool.config.report import FileFinding
from mmtool.config.scopes import Scopes, part_of_key
from mmtool.config.values import parse_list
from mmtool.doctor.examination import Commits, ExaminedFlow, Mm2Traces
from mmtool.doctor.finding import NEITHER, Finding, flow_check, ok, problem, warning
from mmtool.doctor.groups import unread
from mmtool.doctor.retention import span_words
from mmtool.insight.status import written_times
from mmtool.kafka.ports import StoredCheckpoint
from mmtool.plan.words import counted, few
from mmtool.runtime.process import now_ms
from mmtool.translation.sync_map import OffsetPair
from mmtool.translation.types import TopicPartition

NO_MM2 = "not checked: MirrorMaker 2 does not run this flow"
_DEFAULT_LAG_MAX = 100
_FLUSHED_MS = 180_000
"""MM2 from 3.7 on syncs a partition's tail once in ``offset.flush.interval.ms``, a minute by default; in ms."""
_INTERVALS = 5
_LEAST_MS = 30_000
_LATELY_MS = 900_000
_NAMED = 3


# --- mm2_offset_lag ---------------------------------------------------------------------------------------


class SyncedPartition(NamedTuple):
    """MirrorMaker 2's progress and last offset sync of a partition.

    Attributes:
        place: On the source.
        records: Offsets in the source's log.
        copied: Offset of the last record that it has stored as copied; None where it has stored none.
        newest: Its last offset sync; None where there is none.
        unsynced_ms: How old the first record behind that sync is; None where that is unknown.
    """

    place: TopicPartition
    records: int
    copied: int | None
    newest: OffsetPair | None
    unsynced_ms: int | None = None

    @property
    def pending(self) -> int:
        """Records that were copied after the partition's last offset sync."""
        if self.copied is None:
            return 0
        return self.copied - (self.newest.upstream if self.newest is not None else -1)


def _runs(flow: ExaminedFlow) -> bool:
    """Whether MirrorMaker 2 runs the flow, or ran it last.

    Raises:
        NotAuthorisedError: MirrorMaker 2's topics may not be read, and mmtool never ran the flow.
    """
    if flow.control().flow is None:
        flow.traces()
    return flow.mm2_runs()


@flow_check("mm2_offset_lag", "MirrorMaker 2 writes offset syncs of every partition")
def check_offset_lag(flow: ExaminedFlow) -> Iterator[Finding]:
    """MirrorMaker 2 writes offset syncs for the records of every partition.

    Problem: copied records without a sync for more than 3 minutes; `emit.offset-syncs.enabled = false`
    Warning: `offset.lag.max` is above the default, and some partitions hold fewer records than it
    Effect: groups read these records again after a failover
    Remedy: lower `offset.lag.max`; upgrade MirrorMaker 2 to Kafka 3.7 or later
    """
    settings = flow.settings
    if not _runs(flow):
        yield ok(NO_MM2)
        return
    if not settings.emit_offset_syncs:
        yield problem(
            "",
            settings.name,
            "emit.offset-syncs.enabled = false: MirrorMaker 2 cannot translate the offsets of any group",
            f"set {settings.name}.emit.offset-syncs.enabled = true",
        )
        return
    yield from judge_offset_lag(settings, _synced_partitions(flow), now_ms())


def _synced_partitions(flow: ExaminedFlow) -> list[SyncedPartition]:
    traces = flow.traces()
    found = [
        SyncedPartition(
            place,
            log.log_end - log.log_start,
            traces.positions.get(place),
            traces.synced.newest.get(place),
        )
        for place, log in flow.source_bounds().items()
        if place in traces.positions or place in traces.synced.newest
    ]
    unsynced = {
        one.place: one.newest.upstream + 1 if one.newest is not None else 0
        for one in found
        if one.pending > 0
    }
    times, at_ms = written_times(flow.watch, flow.mirrored(), unsynced.items(), {}), now_ms()
    ages = {place: at_ms - ms for (place, _), ms in times.items()}
    return [one._replace(unsynced_ms=ages.get(one.place)) for one in found]


def judge_offset_lag(
    settings: FlowSettings, partitions: Iterable[SyncedPartition], at_ms: int
) -> Iterator[Finding]:
    """Findings about partitions without a recent sync, and topics smaller than a raised ``offset.lag.max``.

    Args:
        settings: The flow's settings.
        partitions: The partitions that MirrorMaker 2 copies.
        at_ms: The time.
    """
    lag_max, key = settings.offset_lag_max, f"{settings.name}.offset.lag.max"
    known = sorted(partitions)
    tails = [one for one in known if _is_left(one, at_ms)]
    if tails:
        worst = max(tails, key=lambda one: one.pending)
        total = f"; {len(tails)} such partitions" if len(tails) > 1 else ""
        yield problem(
            settings.source.alias,
            worst.place.topic,
            f"{worst.place} has {counted(worst.pending, 'record')} without an offset sync"
            f" (offset.lag.max = {lag_max:,}{total}): groups read these records again after a failover",
            "check that MirrorMaker 2 runs; before Kafka 3.7 it writes no sync for a partition's last records, if these"
            f" are fewer than offset.lag.max: upgrade MirrorMaker 2, or set {key} = 0",
        )
    small = sorted({one.place.topic for one in known if 0 < one.records < lag_max})
    if small and lag_max > _DEFAULT_LAG_MAX and not tails:
        yield warning(
            settings.source.alias,
            small[0] if len(small) == 1 else "",
            f"offset.lag.max = {lag_max:,}, and partitions of {few(small, _NAMED)} hold fewer records: MirrorMaker 2"
            " writes few offset syncs of them, and groups that lag on them read many records again after a failover",
            f"set {key} = {_DEFAULT_LAG_MAX} or less, or commit exact offsets at the failover: `mmtool"
            f" translate-offsets -c FILE -s {settings.source.alias} -t {settings.target.alias} --all-groups --refine"
            " --execute`",
        )


def _is_left(one: SyncedPartition, at_ms: int) -> bool:
    synced_ms = 0 if one.newest is None else one.newest.timestamp_ms
    young = one.unsynced_ms is not None and one.unsynced_ms < _FLUSHED_MS
    return one.pending > 0 and not young and at_ms - synced_ms > _FLUSHED_MS


# --- mm2_filters ------------------------------------------------------------------------------------------


@flow_check("mm2_filters", "MirrorMaker 2's topic and group filters agree with the properties file")
def check_filters(flow: ExaminedFlow) -> Iterator[Finding]:
    """The filters of MirrorMaker 2's connectors agree with the file's `topics` and `groups`.

    Warning: they differ
    Effect: offsets are translated on topics that are not mirrored, or not translated at all
    Remedy: `topics`, `groups`
    """
    settings = flow.settings
    if not _runs(flow):
        yield ok(NO_MM2)
        return
    lately: dict[str, set[str]] = {}
    at_ms = now_ms()
    for group, of in flow.traces().held.checkpoints.items():
        for place, checkpoint in of.items():
            if not checkpoint.is_ours and at_ms - checkpoint.pair.timestamp_ms < _LATELY_MS:
                lately.setdefault(place.topic, set()).add(group)
    yield from judge_translated_topics(settings, lately, flow.source_topics())
    yield from judge_excluded_groups(settings, flow.commits(), flow.mirrored())
    yield from unread(flow.commits().failed, settings.source.alias)


def judge_translated_topics(
    settings: FlowSettings, translated: Mapping[str, Collection[str]], there: Collection[str]
) -> Iterator[Finding]:
    """Findings about groups with checkpoints of topics that the flow does not mirror.

    Args:
        settings: The flow's settings.
        translated: Groups with a checkpoint of the last minutes, by source topic.
        there: The source's topics.
    """
    strays = sorted(topic for topic in translated if topic in there and not settings.mirrors_topic(topic))
    for topic in strays:
        yield warning(
            settings.target.alias,
            topic,
            f"MirrorMaker 2 writes checkpoints of {few(sorted(translated[topic]), _NAMED)} for topic {topic}, which"
            f" {settings.name} does not mirror ({settings.unmirrored(topic)}); so MirrorCheckpointConnector has other"
            f" settings than the properties file; mmtool neither mirrors {topic} nor translates offsets on it",
            "give MirrorSourceConnector, MirrorCheckpointConnector and the properties file the same `topics` and"
            f" `topics.exclude` for {settings.name}",
        )


def judge_excluded_groups(
    settings: FlowSettings, commits: Mapping[str, Commits], mirrored: Collection[str]
) -> Iterator[Finding]:
    """Findings about groups that read mirrored topics and are excluded, though not by MirrorMaker 2's default.

    Args:
        settings: The flow's settings.
        commits: The commits of every source group.
        mirrored: Topics that the flow mirrors.
    """
    usual = NameFilter((".*",), parse_list(FLOW_KEYS["groups.exclude"].default or ""))
    left = sorted(
        group
        for group, of in commits.items()
        if usual.accepts(group)
        and not settings.groups.accepts(group)
        and any(place.topic in mirrored for place in of)
    )
    if left:
        yield warning(
            settings.source.alias,
            left[0] if len(left) == 1 else "",
            f"`groups` and `groups.exclude` of {settings.name} leave out groups that read mirrored topics"
            f" ({few(left, _NAMED)}): MirrorMaker 2 does not translate their offsets",
            f"change `groups` and `groups.exclude` of {settings.name} so that they accept {few(left, _NAMED)};"
            f" nothing to do for groups that stay on {settings.source.alias}",
        )


# --- mm2_checkpoints --------------------------------------------------------------------------------------


class StaleGroup(NamedTuple):
    """A group whose checkpoint is older than MirrorMaker 2 could have made it.

    Attributes:
        group: The group.
        place: The partition of the source.
        commit: Its commit there.
        told: Its last checkpoint; None where there is none.
        silent_ms: For how long it has not committed; None where that is unknown.
    """

    group: str
    place: TopicPartition
    commit: int
    told: StoredCheckpoint | None
    silent_ms: int | None = None


@flow_check("mm2_checkpoints", "MirrorMaker 2's checkpoints keep up with the groups")
def check_checkpoints(flow: ExaminedFlow) -> Iterator[Finding]:
    """MirrorMaker 2's checkpoints keep up with the groups' commits.

    Problem: checkpoints are behind; `emit.checkpoints.enabled = false`
    Warning: `sync.group.offsets.enabled = false`; offsets below the oldest offset sync
    Effect: on the target the group reads records again, or finds no offset
    Remedy: restart MirrorCheckpointConnector; `mmtool translate-offsets --refine`
    """
    settings = flow.settings
    if not _runs(flow):
        yield ok(NO_MM2)
        return
    yield from judge_switches(settings)
    if not settings.emit_checkpoints:
        return
    mirrored = flow.mirrored()
    commits = {
        group: {place: commit for place, commit in of.items() if place.topic in mirrored}
        for group, of in flow.commits().items()
        if flow.accepts_group(group)
    }
    pace, at_ms = (
        CheckpointPace.of(settings, read_file(flow.settings_of_file.path, os.environ).scopes),
        now_ms(),
    )
    stale = late_groups(flow.traces(), commits, pace, at_ms)
    times = flow.clusters.source.commit_times({one.group for one in stale}) if stale else {}
    stale = [
        one._replace(silent_ms=at_ms - when)
        if (when := times.get(one.group, {}).get(one.place)) is not None
        else one
        for one in stale
    ]
    yield from judge_stale(settings, stale, pace, at_ms, _stopped(flow) if stale else "")
    yield from judge_unreached(settings, flow.traces(), commits)
    yield from unread(flow.commits().failed, settings.source.alias)


def judge_switches(settings: FlowSettings) -> Iterator[Finding]:
    """The finding of checkpoints or group syncs that the file switches off."""
    flow, target = settings.name, settings.target.alias
    if not settings.emit_checkpoints:
        yield problem(
            target,
            flow,
            f"emit.checkpoints.enabled = false: MirrorMaker 2 translates no group's offsets to {target}",
            f"set {flow}.emit.checkpoints.enabled = true, and restart MirrorMaker 2",
        )
    elif not settings.sync_group_offsets:
        yield warning(
            target,
            flow,
            f"sync.group.offsets.enabled = false: groups have no committed offsets on {target} until a failover commits"
            " them",
            f"nothing to do if you move groups with `mmtool failover`; otherwise set {flow}.sync.group.offsets.enabled"
            " = true, and restart MirrorMaker 2",
        )


class CheckpointPace(NamedTuple):
    """How often the file lets MirrorMaker 2 write a group's checkpoints, by MM2's own defaults.

    Attributes:
        emit_seconds: ``emit.checkpoints.interval.seconds``.
        find_seconds: ``refresh.groups.interval.seconds``; 0 where it lists groups at its start only.
    """

    emit_seconds: int
    find_seconds: int

    @classmethod
    def of(cls, settings: FlowSettings, scopes: Scopes) -> CheckpointPace:
        """The pace of a flow's checkpoints, by its properties file."""
        ends = settings.source.alias, settings.target.alias

        def seconds(name: str, set_to: int) -> int:
            default = FLOW_KEYS[name].mm2
            return int(default) if default and scopes.of_flow(*ends, name) is None else set_to

        emit = seconds("emit.checkpoints.interval.seconds", settings.emit_checkpoints_interval_seconds)
        find = seconds("refresh.groups.interval.seconds", settings.refresh_groups_interval_seconds)
        return cls(emit, find if settings.refresh_groups else 0)

    def allowed_ms(self, *, is_known: bool) -> int:
        """The age in ms at which a checkpoint is late; ``is_known``: the group has other checkpoints."""
        late = max(_INTERVALS * 1000 * self.emit_seconds, _LEAST_MS)
        return late if is_known else late + 1000 * self.find_seconds


def late_groups(
    traces: Mm2Traces, commits: Mapping[str, Commits], pace: CheckpointPace, at_ms: int
) -> list[StaleGroup]:
    """Groups past a partition's newest offset sync whose checkpoint does not show it; one row for each group.

    MirrorMaker 2 keeps few of the older syncs, so that nothing is expected for a group before the newest one.

    Args:
        traces: MirrorMaker 2's stored state.
        commits: The commits of the groups that it translates, in topics that it mirrors.
        pace: How soon it has to write checkpoints.
        at_ms: The time.
    """
    found: dict[str, StaleGroup] = {}
    for group, of in commits.items():
        checkpoints = traces.held.checkpoints.get(group, {})
        for place, commit in sorted(of.items()):
            newest, told = traces.synced.newest.get(place), checkpoints.get(place)
            if newest is None or commit.offset < newest.upstream:
                continue
            expected = newest.downstream + (commit.offset > newest.upstream)
            if at_ms - newest.timestamp_ms <= pace.allowed_ms(is_known=bool(checkpoints)):
                continue
            if told is None or told.pair.downstream < expected:
                found.setdefault(group, StaleGroup(group, place, commit.offset, told))
    return list(found.values())


def judge_stale(
    settings: FlowSettings, stale: Iterable[StaleGroup], pace: CheckpointPace, at_ms: int, stopped: str
) -> Iterator[Finding]:
    """Findings about groups that committed long enough ago for MirrorMaker 2 to have written a checkpoint.

    Args:
        settings: The flow's settings.
        stale: As `late_groups` finds them, with the times of their commits.
        pace: How soon MirrorMaker 2 has to write checkpoints.
        at_ms: The time.
        stopped: The clause that MirrorMaker 2 does not run; empty where that is not shown.
    """
    for one in stale:
        patience_ms = pace.allowed_ms(is_known=one.told is not None)
        if one.silent_ms is not None and one.silent_ms <= patience_ms:
            continue
        told = (
            "has no checkpoint of this partition"
            if one.told is None
            else f"has its last checkpoint at offset {one.told.pair.upstream:,}, written"
            f" {span_words(at_ms - one.told.pair.timestamp_ms)} ago"
        )
        then = "finds no offset of this partition" if one.told is None else "reads records again"
        say = warning if one.silent_ms is None else problem
        yield say(
            settings.target.alias,
            one.group,
            f"group {one.group} has committed offset {one.commit:,} of {one.place} and {told}: MirrorMaker 2 does not"
            f" keep up{stopped}; after a failover the group {then} on {settings.target.alias}",
            "start MirrorMaker 2"
            if stopped
            else "see the log of MirrorCheckpointConnector, and restart the connector; MirrorMaker 2 needs READ and"
            f" WRITE on {settings.checkpoints_topic} and DESCRIBE on the group",
        )


def _stopped(flow: ExaminedFlow) -> str:
    names = workers_groups(flow.settings)
    found = flow.clusters.target.groups.describe_each(names)
    there = {name: one for name, one in found.items() if one.state != "Dead"}
    if not there or any(one.members for one in there.values()):
        return ""
    return f" (its workers' group {next(iter(there))} has no member: MirrorMaker 2 does not run)"


def judge_unreached(
    settings: FlowSettings, traces: Mm2Traces, commits: Mapping[str, Commits]
) -> Iterator[Finding]:
    """Findings about groups before the oldest offset sync of a partition, which MirrorMaker 2 cannot translate there.

    Args:
        settings: The flow's settings.
        traces: MirrorMaker 2's stored state.
        commits: The commits of the groups that it translates, in topics that it mirrors.
    """
    for group, of in sorted(commits.items()):
        checkpoints = traces.held.checkpoints.get(group, {})
        below = [
            place
            for place, commit in sorted(of.items())
            if place not in checkpoints
            and (known := traces.synced.maps.get(place)) is not None
            and known.forward.up_to(commit.offset) is None
        ]
        if not below:
            continue
        place = below[0]
        yield warning(
            settings.target.alias,
            group,
            f"group {group} has committed an offset below the oldest offset sync of {place}: MirrorMaker 2 cannot"
            " translate this offset",
            "find the exact offset by comparing records: `mmtool translate-offsets -c FILE --refine -s"
            f" {settings.source.alias} -t {settings.target.alias} -g {group}` (with --execute, mmtool"
            f" commits it on {settings.target.alias})",
        )


# --- mm2_scope --------------------------------------------------------------------------------------------


@flow_check("mm2_scope", "every key of the properties file is in a scope where it is read", NEITHER)
def check_scope(flow: ExaminedFlow) -> Iterator[Finding]:
    """Each key is in a scope where MirrorMaker 2 or mmtool reads it.

    Warning: a key is not
    Effect: the key has no effect
    Remedy: move the key; `mmtool config check`
    """
    file = flow.settings_of_file
    for found in read_file(file.path, os.environ).findings:
        if found.misplaced and concerns(found, flow.settings, tuple(file.clusters)):
            yield judge_scope(flow.settings, found)


def concerns(found: FileFinding, settings: FlowSettings, aliases: tuple[str, ...]) -> bool:
    """Whether a finding is about the flow, one of its clusters, or the whole file.

    Args:
        found: A finding about a key, or a note that lists keys.
        settings: The flow's settings.
        aliases: The aliases of the file's clusters.
    """
    own = {settings.source.alias, settings.target.alias}
    parts = [part_of_key(key, aliases) for key in (found.listed if found.key is None else (found.key,))]
    return any(part is None or set(part) <= own for part in parts)


def judge_scope(settings: FlowSettings, found: FileFinding) -> Finding:
    """The row of a finding about the properties file."""
    key = f"{found.key} " if found.key else ""
    return warning(
        "",
        settings.name,
        f"{key}{found.message}",
        "move the key to a scope where it is read, or remove it; `mmtool config check -c FILE` lists such lines",
    )
