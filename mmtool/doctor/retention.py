"""Doctor checks ``retention`` and ``compaction``: records deleted before they are mirrored, or on one side only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from mmtool.config import FlowSettings
from mmtool.doctor.examination import ExaminedFlow, by_config_sync, reset_by_sync
from mmtool.doctor.finding import Finding, Severity, flow_check, judge_hidden, problem, unasked, warning
from mmtool.insight.status import written_times
from mmtool.kafka.state.flow_state import retention_of
from mmtool.plan.flow.positions import waiting_since
from mmtool.plan.records.documents import State
from mmtool.plan.topics.configs import ConfigEntry, cleanup_policies
from mmtool.plan.topics.retention import Deadline, Retention, deadline, deleted_unmirrored, due_words
from mmtool.plan.words import counted, joined
from mmtool.runtime.process import now_ms
from mmtool.translation.types import UNKNOWN, TopicPartition


class PartitionLag(NamedTuple):
    """The lag of one partition of which mirroring has begun.

    Attributes:
        place: On the source.
        position: Next offset to copy.
        log_start: First offset that the source still has.
        log_end: Next offset that the source writes.
        oldest_ms: When the first unmirrored record was written, in ms since 1970; None where there is none, the source
            did not return it, or its timestamp is ahead of the clock.
        first_ms: Likewise of the first record of a log that records were deleted from; None where none were.
        settled_ms: When the mirror last had everything that the source had; 0 where that is unknown.
        gaps: Offsets that were deleted unmirrored, and that the mirror has skipped.
        by_mm2: MirrorMaker 2 copies it; it stores offsets of records, not of transaction markers.
    """

    place: TopicPartition
    position: int
    log_start: int
    log_end: int
    oldest_ms: int | None = None
    first_ms: int | None = None
    settled_ms: int = 0
    gaps: int = 0
    by_mm2: bool = False


def partition_lags(flow: ExaminedFlow, retention: Mapping[str, Retention]) -> list[PartitionLag]:
    """The lag of every partition that has a position and whose source log is shown.

    Args:
        flow: The flow's answers.
        retention: Each source topic's retention; limited by size, it needs the time of the log's first record.

    Raises:
        MmtoolError: A cluster does not answer, or stored state cannot be read.
    """
    bounds = flow.source_bounds()
    lags = [
        lag._replace(log_start=log.log_start, log_end=log.log_end)
        for lag in _positions(flow)
        if (log := bounds.get(lag.place)) is not None
    ]
    behind = [lag for lag in lags if lag.position < lag.log_end]
    cut = [
        lag
        for lag in behind
        if lag.log_start and retention.get(lag.place.topic, Retention()).bytes is not None
    ]
    starts = {lag.place: lag.log_start for lag in behind}
    oldest, first = (
        {place: ms for (place, _), ms in written_times(flow.watch, flow.mirrored(), of, starts).items()}
        for of in ({(lag.place, lag.position) for lag in behind}, {(lag.place, lag.log_start) for lag in cut})
    )
    return [lag._replace(oldest_ms=oldest.get(lag.place), first_ms=first.get(lag.place)) for lag in lags]


def _positions(flow: ExaminedFlow) -> Iterable[PartitionLag]:
    """Positions by mmtool's stored state, or by MM2's where that runs the flow; without failed-over topics."""
    if flow.mm2_runs():
        for place, last in flow.traces().positions.items():
            yield PartitionLag(place, last + 1, 0, 0, by_mm2=True)
        return
    words = flow.control().positions
    for standing in flow.standings():
        position = standing.row.upstream_position
        if position is not None and standing.row.state != State.FAILED_OVER:
            word = words.get((standing.topic_id, standing.place.partition))
            gaps = word.gaps if word else 0
            yield PartitionLag(standing.place, position, 0, 0, settled_ms=standing.settled_ms, gaps=gaps)


HOUR_MS = 3_600_000
_NEAR = 0.1
_HALF = 0.5
_LIMITS = "retention.ms (and retention.bytes, if it is set)"
_UNITS = (("day", 86_400_000), ("hour", HOUR_MS), ("minute", 60_000), ("second", 1000))


class TopicPair(NamedTuple):
    """A topic of the source and its mirror, with the retention of each.

    Attributes:
        topic: On the source.
        mirror: Its name on the target.
        source: Properties of the source topic.
        target: Properties of the mirror.
        source_alias, target_alias: Of the clusters.
        reset: Properties whose overrides the config sync removes from the mirror.
    """

    topic: str
    mirror: str
    source: Mapping[str, ConfigEntry]
    target: Mapping[str, ConfigEntry]
    source_alias: str
    target_alias: str
    reset: frozenset[str] = frozenset()


@flow_check(
    "retention",
    "records are kept until they are mirrored, and mirrors keep them as long as their source topics do",
)
def check_retention(flow: ExaminedFlow) -> Iterator[Finding]:
    """The source keeps records until they are mirrored.

    The mirror keeps them as long; the target keeps committed offsets as long.

    Problem: records are deleted before they are mirrored, or will be within an hour (or a tenth of the retention,
        if that is longer)
    Warning: records that are not mirrored yet will be deleted within half of the retention; there are gaps from
        earlier deletions; the mirror's records or the target's committed offsets expire sooner than the source's
    Effect: records are missing on the target; a group finds its records or its offset deleted after a failover
    Remedy: raise `retention.ms`, `retention.bytes`, `offsets.retention.minutes`
    """
    keeps = {topic: retention_of(entries) for topic, entries in flow.source_configs().items()}
    at_ms = now_ms()
    for topic, lags in by_topic(partition_lags(flow, keeps)).items():
        finding = judge_lag(flow.settings, topic, lags, keeps.get(topic, Retention()), at_ms)
        if finding is not None:
            yield finding
    for pair in topic_pairs(flow):
        yield from judge_target_retention(pair)
    yield from judge_hidden(flow.hidden_topics())
    yield from unasked(flow.settings.source.alias, flow.source_bounds().failed)
    source, target = flow.settings.source.alias, flow.settings.target.alias
    if flow.mm2_runs() and (why := flow.traces().hidden) is not None:
        message = f"could not be checked: MirrorMaker 2's progress cannot be read: {why.message}"
        yield warning(target, flow.name, message, why.remedy)
    here = flow.clusters.source.known_offsets_retention()
    there = flow.clusters.target.known_offsets_retention()
    if here is not UNKNOWN and there is not UNKNOWN:
        yield from judge_offsets_retention(source, target, here, there)


def by_topic(lags: Iterable[PartitionLag]) -> dict[str, list[PartitionLag]]:
    """The partitions' lags by topic."""
    found: dict[str, list[PartitionLag]] = {}
    for lag in lags:
        found.setdefault(lag.place.topic, []).append(lag)
    return found


def judge_lag(
    settings: FlowSettings, topic: str, lags: Iterable[PartitionLag], keeps: Retention, at_ms: int
) -> Finding | None:
    """The worst finding of a topic about unmirrored records that are deleted or about to be; None without a risk.

    Args:
        settings: The flow's settings.
        topic: The source topic.
        lags: The lags of its partitions.
        keeps: Its retention on the source.
        at_ms: The time.
    """
    alias = settings.source.alias
    lost = [(lag, why) for lag in lags if (why := _deleted(lag))]
    if lost:
        return _is_lost(settings, topic, lost)
    due = [
        (found, lag)
        for lag in lags
        if lag.position < lag.log_end and (written_ms := lag.oldest_ms or lag.settled_ms)
        if (found := deadline(written_ms, at_ms, keeps, lag.first_ms)) is not None
    ]
    if due:
        first, lag = min(due, key=lambda one: one[0].at_ms)
        severity = severity_of(first, at_ms)
        if severity is not Severity.OK:
            say = problem if severity is Severity.PROBLEM else warning
            return say(
                alias,
                lag.place.topic,
                f"{due_words(first, at_ms)} {alias} may delete records of {lag.place} that are not mirrored yet"
                f" ({first.name} keeps them for {span_words(first.span_ms)};"
                f" {counted(lag.log_end - max(lag.position, lag.log_start), 'offset')} to mirror)",
                f"raise {first.name} of {lag.place.topic} on {alias} until the mirror has caught up; `mmtool status -c"
                " FILE` shows what the flow does",
            )
    gaps = sum(lag.gaps for lag in lags)
    if not gaps:
        return None
    them, they = ("it", "it was") if gaps == 1 else ("them", "they were")
    return warning(
        alias,
        topic,
        f"{alias} deleted {counted(gaps, 'offset')} of {topic} before {they} mirrored: the mirror lacks {them}, and"
        " mirroring continued after the gap",
        f"nothing brings these offsets into the mirror; to prevent another gap, raise {_LIMITS} of {topic} on {alias}"
        " above the longest outage that you plan for",
    )


def severity_of(due: Deadline, at_ms: int) -> Severity:
    """A problem within an hour, or a tenth of the retention; a warning within half of the retention; else OK.

    For a retention below two hours the hour is half of it: a mirror that keeps up is never a problem.
    """
    left = due.at_ms - at_ms
    if left <= max(_NEAR * due.span_ms, min(HOUR_MS, _HALF * due.span_ms)):
        return Severity.PROBLEM
    return Severity.WARNING if left <= _HALF * due.span_ms else Severity.OK


def _deleted(lag: PartitionLag) -> str:
    """The clause that offsets were deleted before they were mirrored; empty where none were.

    MM2 stores offsets of records: one offset after the last record may be a transaction marker, and does not count.
    """
    spare = 1 if lag.by_mm2 else 0
    if lag.log_start <= lag.position + spare:
        return ""
    return deleted_unmirrored(lag.position, lag.log_start)


def _is_lost(settings: FlowSettings, topic: str, lost: list[tuple[PartitionLag, str]]) -> Finding:
    (lag, why), more = lost[0], len(lost) - 1
    alias, others = settings.source.alias, f" (likewise in {counted(more, 'more partition')})" if more else ""
    if lag.by_mm2:  # it goes on by itself
        after = ""
    elif settings.on_data_loss == "continue":
        after = "; `mmtool replicate` mirrors the records after them"
    else:
        after = (
            f"; to mirror the records after them, set {settings.name}.mmtool.on.data.loss = continue: with halt, the"
            " default, the partition stays halted"
        )
    return problem(
        alias,
        topic,
        f"{lag.place}: {why}{others}; the mirror lacks them",
        f"the deleted records cannot be mirrored{after}; to prevent another gap, raise {_LIMITS} of {topic} on {alias}",
    )


def span_words(ms: float) -> str:
    """A duration in ms as words, in its largest whole unit: ``7 days``, ``90 minutes``."""
    for name, size in _UNITS:
        if ms >= 2 * size or ms == size:
            return counted(int(ms // size), name)
    return f"{ms:.0f} ms"


def topic_pairs(flow: ExaminedFlow) -> list[TopicPair]:
    """Source topics with their mirrors, where both clusters show the configuration."""
    here, there = flow.source_configs(), flow.target_configs()
    aliases = flow.settings.source.alias, flow.settings.target.alias
    return [
        TopicPair(name, mirror, here[name], there[mirror], *aliases, reset_by_sync(flow.settings, here[name]))
        for name, mirror in flow.mirror_names().items()
        if name in here and mirror in there
    ]


def judge_target_retention(pair: TopicPair) -> Iterator[Finding]:
    """The finding of a mirror that keeps records less long than its source: positions may be lost after a failover."""
    here, there = retention_of(pair.source), retention_of(pair.target)
    if "delete" not in cleanup_policies(pair.target):
        return
    shorter = {
        name: f"{name} = {_kept(name, mine)} ({pair.source_alias}: {_kept(name, theirs)})"
        for name, theirs, mine in (
            ("retention.ms", here.ms, there.ms),
            ("retention.bytes", here.bytes, there.bytes),
        )
        if mine is not None
        and (theirs is None or mine < theirs)
        and "delete" in cleanup_policies(pair.source)
    }
    if shorter:
        yield warning(
            pair.target_alias,
            pair.mirror,
            f"{pair.mirror} on {pair.target_alias} keeps less than its source topic: {'; '.join(shorter.values())};"
            " after a failover, the mirror may lack records that a lagging group has not read yet",
            _lengthen(pair, shorter),
        )


def _lengthen(pair: TopicPair, names: Iterable[str]) -> str:
    on_mirror = [name for name in names if name not in pair.reset]
    on_source = [name for name in names if name in pair.reset]
    return joined(
        f"set {' and '.join(on_mirror)} of {pair.mirror} on {pair.target_alias} to the value of {pair.topic} on"
        f" {pair.source_alias} or more (-1: without limit)"
        if on_mirror
        else "",
        f"on {pair.source_alias}, set {' and '.join(on_source)} of topic {pair.topic} to the value that it has now by"
        f" the brokers' default: {by_config_sync(pair.mirror)}"
        if on_source
        else "",
    )


def _kept(name: str, value: int | None) -> str:
    if value is None:
        return "without limit"
    return span_words(value) if name.endswith(".ms") else f"{value:,} bytes"


def judge_offsets_retention(
    source: str, target: str, source_seconds: float, target_seconds: float
) -> Iterator[Finding]:
    """The finding of a target that expires committed offsets sooner than the source does.

    Args:
        source: The source's alias.
        target: The target's alias.
        source_seconds: ``offsets.retention.minutes`` of the source.
        target_seconds: The same setting of the target.
    """
    if target_seconds < source_seconds:
        kept = span_words(1000 * target_seconds)
        yield warning(
            target,
            "",
            f"{target} deletes committed offsets of groups without members after {kept}, and {source} after"
            f" {span_words(1000 * source_seconds)}: after a failover, a group that is stopped for longer than {kept}"
            " starts by its auto.offset.reset",
            f"set offsets.retention.minutes to {source_seconds / 60:.0f} or more in server.properties of {target}'s"
            " brokers, and restart them",
        )


# --- compaction -------------------------------------------------------------------------------------------


@flow_check("compaction", "each mirror has the cleanup.policy of its source topic")
def check_compaction(flow: ExaminedFlow) -> Iterator[Finding]:
    """The `cleanup.policy` of each mirror against its source topic; the lag against `delete.retention.ms`.

    Problem: only one side compacts; the mirror deletes keys that the source keeps; tombstones may be missed
    Warning: the mirror keeps keys that the source deletes by age; tombstones may soon be missed
    Effect: after a failover, keys are missing, or deleted keys are back
    Remedy: `cleanup.policy`, `delete.retention.ms`
    """
    pairs = topic_pairs(flow)
    for pair in pairs:
        yield from judge_policies(pair)
    configs = flow.source_configs()
    compacted = {name for name, of in configs.items() if "compact" in cleanup_policies(of)}
    if compacted:
        at_ms, lags = now_ms(), by_topic(partition_lags(flow, {}))
        for topic in sorted(compacted & lags.keys()):
            yield from judge_tombstones(flow.settings.source.alias, topic, configs[topic], lags[topic], at_ms)
    yield from judge_hidden(flow.hidden_topics())


def judge_policies(pair: TopicPair) -> Iterator[Finding]:
    """Findings about compaction on one side only, or records that only one side deletes by age."""
    here, there = cleanup_policies(pair.source), cleanup_policies(pair.target)
    for policy, on_source, say, consequence in (
        ("compact", True, problem, "deletes keys by age, and keeps old values of a key"),
        (
            "compact",
            False,
            problem,
            "loses all but the last value of each key, and refuses records without a key",
        ),
        ("delete", False, problem, "deletes keys that the source keeps"),
        ("delete", True, warning, "keeps keys that the source deletes by age"),
    ):
        if (policy in here) is on_source and (policy in there) is not on_source:
            source, target = (",".join(sorted(policies)) for policies in (here, there))
            yield say(
                pair.target_alias,
                pair.mirror,
                f"{pair.mirror}: cleanup.policy is {source or 'empty'} on {pair.source_alias} and {target or 'empty'}"
                f" on {pair.target_alias}: the mirror {consequence}",
                f"on {pair.source_alias}, set cleanup.policy of topic {pair.topic} to {source or 'an empty list'}, its"
                f" present default: {by_config_sync(pair.mirror)}"
                if "cleanup.policy" in pair.reset
                else f"set cleanup.policy of {pair.mirror} on {pair.target_alias} to {source or 'an empty list'}",
            )
            return


def judge_tombstones(
    alias: str, topic: str, entries: Mapping[str, ConfigEntry], lags: Iterable[PartitionLag], at_ms: int
) -> Iterator[Finding]:
    """The finding of a lag above half of ``delete.retention.ms``: the mirror may miss tombstones and keep keys.

    Args:
        alias: The source's alias.
        topic: A compacted topic.
        entries: Its properties on the source.
        lags: The lags of its partitions.
        at_ms: The time.
    """
    entry = entries.get("delete.retention.ms")
    waiting = [
        (since, lag)
        for lag in lags
        if lag.position < lag.log_end
        and (since := waiting_since(at_ms, lag.oldest_ms, lag.settled_ms)) is not None
    ]
    if entry is None or not entry.value or not waiting:
        return
    since, lag = min(waiting, key=lambda one: one[0])
    keeps, waited = int(entry.value), at_ms - since
    if waited < _HALF * keeps:
        return
    say = problem if waited >= keeps and bool(lag.settled_ms) else warning
    yield say(
        alias,
        topic,
        f"the mirror of {lag.place} has been behind for {span_words(waited)}, and {alias} keeps tombstones for"
        f" {span_words(keeps)} (delete.retention.ms): if {alias} deletes a tombstone before it is mirrored, its"
        " key stays in the mirror",
        f"raise delete.retention.ms of {topic} on {alias} above the mirror's lag until the mirror has caught up",
    )
