"""Doctor checks ``retention`` and ``compaction``: records deleted before they are mirrored, or on one side only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmtool.doctor.examination import by_config_sync, reset_by_sync
from mmtool.doctor.finding import Check, Finding, Severity, judge_hidden, problem, unasked, warning
from mmtool.insight.status import written_times
from mmtool.kafka.state.flow_state import retention_of
from mmtool.plan.flow.partition_rows import waiting_since
from mmtool.plan.records.documents import State
from mmtool.plan.topics.configs import cleanup_policies
from mmtool.plan.topics.retention import Deadline, Retention, deadline, deleted_unmirrored, due_words
from mmtool.plan.words import counted, joined
from mmtool.runtime.process import now_ms
from mmtool.translation.types import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mmtool.config import FlowSettings
    from mmtool.doctor.examination import ExaminedFlow
    from mmtool.doctor.flow_view import FlowView
    from mmtool.plan.topics.configs import ConfigEntry
    from mmtool.translation.types import TopicPartition


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


def partition_lags(view: FlowView, retention: Mapping[str, Retention]) -> list[PartitionLag]:
    """The lag of every partition that has a position and whose source log is shown.

    Args:
        view: The flow's answers.
        retention: Each source topic's retention; limited by size, it needs the time of the log's first record.

    Raises:
        MmtoolError: A cluster does not answer, or stored state cannot be read.
    """
    bounds = view.source_bounds()
    found = [lag for lag in _positions(view) if lag.place in bounds]
    lags = [
        lag._replace(log_start=bounds[lag.place].log_start, log_end=bounds[lag.place].log_end)
        for lag in found
    ]
    behind = [lag for lag in lags if lag.position < lag.log_end]
    cut = [
        lag
        for lag in behind
        if lag.log_start and retention.get(lag.place.topic, Retention()).bytes is not None
    ]
    starts = {lag.place: lag.log_start for lag in behind}
    oldest, first = (
        {place: ms for (place, _), ms in written_times(view.watch, view.mirrored(), of, starts).items()}
        for of in ({(lag.place, lag.position) for lag in behind}, {(lag.place, lag.log_start) for lag in cut})
    )
    return [lag._replace(oldest_ms=oldest.get(lag.place), first_ms=first.get(lag.place)) for lag in lags]


def source_retention(view: FlowView) -> dict[str, Retention]:
    """The retention of source topics that show their configuration."""
    return {topic: retention_of(entries) for topic, entries in view.source_configs().items()}


def _positions(view: FlowView) -> Iterable[PartitionLag]:
    """Positions by mmtool's stored state, or by MM2's where that runs the flow; without failed-over topics."""
    if view.mm2_runs():
        for place, last in view.traces().positions.items():
            yield PartitionLag(place, last + 1, 0, 0, by_mm2=True)
        return
    words = view.control().positions
    for standing in view.standings():
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


def check_retention(flow: ExaminedFlow) -> Iterator[Finding]:
    """Check for records deleted unmirrored, or about to be, for mirrors kept less long, and for expiring positions."""
    view = flow.view
    keeps = source_retention(view)
    at_ms = now_ms()
    for topic, lags in by_topic(partition_lags(view, keeps)).items():
        finding = judge_lag(view.settings, topic, lags, keeps.get(topic, Retention()), at_ms)
        if finding is not None:
            yield finding
    for pair in topic_pairs(view):
        yield from judge_target_retention(pair)
    yield from judge_hidden(Check.RETENTION, view.hidden_topics())
    yield from unasked_partitions(view)
    yield from _hidden_positions(view)
    yield from _offsets_retention(view)


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
    due = [(found, lag) for lag in lags if (found := _deadline(lag, keeps, at_ms)) is not None]
    if due:
        first, lag = min(due, key=lambda one: one[0].at_ms)
        severity = severity_of(first, at_ms)
        if severity is not Severity.OK:
            return _is_due(alias, lag, first, severity, at_ms)
    gaps = sum(lag.gaps for lag in lags)
    if not gaps:
        return None
    them, they = ("it", "it was") if gaps == 1 else ("them", "they were")
    return warning(
        Check.RETENTION,
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


def _deadline(lag: PartitionLag, keeps: Retention, at_ms: int) -> Deadline | None:
    if lag.position >= lag.log_end:
        return None
    written_ms = lag.oldest_ms or lag.settled_ms
    return deadline(written_ms, at_ms, keeps, lag.first_ms) if written_ms else None


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
    alias, others = (
        settings.source.alias,
        f" (likewise in {counted(more, 'more partition')})" if more else "",
    )
    remedy = (
        f"the deleted records cannot be mirrored{_after_loss(settings, lag)}; to prevent another gap, raise"
        f" {_LIMITS} of {topic} on {alias}"
    )
    return problem(
        Check.RETENTION, alias, topic, f"{lag.place}: {why}{others}; the mirror lacks them", remedy
    )


def _after_loss(settings: FlowSettings, lag: PartitionLag) -> str:
    """The clause that says how the records after the deleted ones are mirrored; MM2 goes on by itself."""
    if lag.by_mm2:
        return ""
    if settings.on_data_loss == "continue":
        return "; `mmtool replicate` mirrors the records after them"
    return (
        f"; to mirror the records after them, set {settings.name}.mmtool.on.data.loss = continue: with halt, the"
        " default, the partition stays halted"
    )


def _is_due(alias: str, lag: PartitionLag, due: Deadline, severity: Severity, at_ms: int) -> Finding:
    missing = counted(lag.log_end - max(lag.position, lag.log_start), "offset")
    message = (
        f"{due_words(due, at_ms)} {alias} may delete records of {lag.place} that are not mirrored yet ({due.name}"
        f" keeps them for {span_words(due.span_ms)}; {missing} to mirror)"
    )
    remedy = (
        f"raise {due.name} of {lag.place.topic} on {alias} until the mirror has caught up; `mmtool status -c FILE`"
        " shows what the flow does"
    )
    return Finding(Check.RETENTION, alias, lag.place.topic, severity, message, remedy)


def span_words(ms: float) -> str:
    """A duration in ms as words, in its largest whole unit: ``7 days``, ``90 minutes``."""
    for name, size in _UNITS:
        if ms >= 2 * size or ms == size:
            return counted(int(ms // size), name)
    return f"{ms:.0f} ms"


def topic_pairs(view: FlowView) -> list[TopicPair]:
    """Source topics with their mirrors, where both clusters show the configuration."""
    here, there = view.source_configs(), view.target_configs()
    aliases = view.settings.source.alias, view.settings.target.alias
    return [
        TopicPair(name, mirror, here[name], there[mirror], *aliases, reset_by_sync(view.settings, here[name]))
        for name, mirror in view.mirror_names().items()
        if name in here and mirror in there
    ]


def _hidden_positions(view: FlowView) -> Iterator[Finding]:
    """The warning that MirrorMaker 2 runs the flow and its stored positions may not be read."""
    if view.mm2_runs() and (why := view.traces().hidden) is not None:
        name = view.settings.name
        message = f"could not be checked: MirrorMaker 2's progress cannot be read: {why.message}"
        yield warning(Check.RETENTION, view.settings.target.alias, name, message, why.remedy)


def unasked_partitions(view: FlowView) -> Iterator[Finding]:
    """A warning for each source topic with partitions whose log could not be read, since no other row covers them."""
    return unasked(Check.RETENTION, view.settings.source.alias, view.source_bounds().failed)


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
            Check.RETENTION,
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


def _offsets_retention(view: FlowView) -> Iterator[Finding]:
    here = view.clusters.source.known_offsets_retention()
    there = view.clusters.target.known_offsets_retention()
    if here is UNKNOWN or there is UNKNOWN:
        return
    yield from judge_offsets_retention(view.settings.source.alias, view.settings.target.alias, here, there)


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
            Check.RETENTION,
            target,
            "",
            f"{target} deletes committed offsets of groups without members after {kept}, and {source} after"
            f" {span_words(1000 * source_seconds)}: after a failover, a group that is stopped for longer than {kept}"
            " starts by its auto.offset.reset",
            f"set offsets.retention.minutes to {source_seconds / 60:.0f} or more in server.properties of {target}'s"
            " brokers, and restart them",
        )


# --- compaction -------------------------------------------------------------------------------------------


def check_compaction(flow: ExaminedFlow) -> Iterator[Finding]:
    """Check for unequal cleanup policies, and for tombstones that the source removes before they are mirrored."""
    view = flow.view
    pairs = topic_pairs(view)
    for pair in pairs:
        yield from judge_policies(pair)
    configs = view.source_configs()
    compacted = {name for name, of in configs.items() if "compact" in cleanup_policies(of)}
    if compacted:
        at_ms, lags = now_ms(), by_topic(partition_lags(view, {}))
        for topic in sorted(compacted & lags.keys()):
            yield from judge_tombstones(view.settings.source.alias, topic, configs[topic], lags[topic], at_ms)
    yield from judge_hidden(Check.COMPACTION, view.hidden_topics())


def judge_policies(pair: TopicPair) -> Iterator[Finding]:
    """Findings about compaction on one side only, or records that only one side deletes by age."""
    here, there = cleanup_policies(pair.source), cleanup_policies(pair.target)
    if "compact" in here and "compact" not in there:
        yield _unequal(pair, Severity.PROBLEM, "deletes keys by age, and keeps old values of a key")
    elif "compact" in there and "compact" not in here:
        yield _unequal(
            pair,
            Severity.PROBLEM,
            "loses all but the last value of each key, and refuses records without a key",
        )
    elif "delete" in there and "delete" not in here:
        yield _unequal(pair, Severity.PROBLEM, "deletes keys that the source keeps")
    elif "delete" in here and "delete" not in there:
        yield _unequal(pair, Severity.WARNING, "keeps keys that the source deletes by age")


def _unequal(pair: TopicPair, severity: Severity, consequence: str) -> Finding:
    here, there = (",".join(sorted(cleanup_policies(of))) for of in (pair.source, pair.target))
    return Finding(
        Check.COMPACTION,
        pair.target_alias,
        pair.mirror,
        severity,
        f"{pair.mirror}: cleanup.policy is {here or 'empty'} on {pair.source_alias} and {there or 'empty'} on"
        f" {pair.target_alias}: the mirror"
        f" {consequence}",
        f"on {pair.source_alias}, set cleanup.policy of topic {pair.topic} to {here or 'an empty list'}, its present"
        f" default: {by_config_sync(pair.mirror)}"
        if "cleanup.policy" in pair.reset
        else f"set cleanup.policy of {pair.mirror} on {pair.target_alias} to {here or 'an empty list'}",
    )


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
    certain = waited >= keeps and bool(lag.settled_ms)
    yield Finding(
        Check.COMPACTION,
        alias,
        topic,
        Severity.PROBLEM if certain else Severity.WARNING,
        f"the mirror of {lag.place} has been behind for {span_words(waited)}, and {alias} keeps tombstones for"
        f" {span_words(keeps)} (delete.retention.ms): if {alias} deletes a tombstone before it is mirrored, its"
        " key stays in the mirror",
        f"raise delete.retention.ms of {topic} on {alias} above the mirror's lag until the mirror has caught up",
    )
