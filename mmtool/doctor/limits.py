"""Checks of whether target topics accept the record sizes and timestamps of the source topics."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from mmtool.config import FlowSettings
from mmtool.doctor.examination import ExaminedFlow, by_config_sync, reset_by_sync
from mmtool.doctor.finding import Finding, flow_check, judge_hidden, limited, ok, problem, unasked, warning
from mmtool.errors import MmtoolError
from mmtool.kafka.logs.samples import SizeQuestion, SizeSample, sample_sizes
from mmtool.kafka.ports import Answers, Bounds
from mmtool.output.human import size
from mmtool.plain_text import duration
from mmtool.plan.topics.configs import FOR_EVER, ConfigEntry, ConfigOrigin, TargetLimits
from mmtool.plan.words import are, counted, few, have
from mmtool.translation.names import DEAD_LETTER_SUFFIX
from mmtool.translation.types import TopicPartition

Entries = Mapping[str, ConfigEntry]

_SIZE = "max.message.bytes"
_TYPE = "message.timestamp.type"
_BROKER_KEYS = {
    _SIZE: "message.max.bytes",
    _TYPE: "log.message.timestamp.type",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.difference.max.ms": "log.message.timestamp.difference.max.ms",
}
"""The broker property that decides where a topic property is not set."""


class TopicSizes(NamedTuple):
    """One topic's limits, in bytes of a batch.

    Attributes:
        is_made: The target's topic exists; else it will be created with that limit.
        is_reset: The config sync removes an override of the limit from the target's topic.
    """

    topic: str
    target_topic: str
    source_limit: int
    target_limit: int
    is_made: bool
    is_reset: bool = False


def judge_sizes(
    settings: FlowSettings,
    narrower: Sequence[TopicSizes],
    samples: Answers[TopicPartition, SizeSample],
    letters: Mapping[str, int],
    unsure: Sequence[str] = (),
) -> Iterator[Finding]:
    """Findings about record sizes: a record that does not fit is a problem, limits that differ are a warning.

    Args:
        settings: The flow's settings.
        narrower: Topics whose limit is lower on the target.
        samples: Of the records that are not mirrored yet, of partitions of these topics.
        letters: Records in dead-letter topics, by the topic on the target.
        unsure: Topics to be created with the brokers' own limit, which the brokers do not return.
    """
    alias = settings.target.alias
    found = [
        *_letters(alias, narrower, letters),
        *(_of_sizes(settings, one, samples) for one in narrower),
    ]
    yield from limited(found) or [
        ok(f"{alias} accepts every record size that the source accepts{_but(alias, unsure)}")
    ]


def _but(alias: str, unsure: Sequence[str]) -> str:
    """The clause of an ``ok`` row about topics that were not checked; empty where all were."""
    if not unsure:
        return ""
    missing = "its mirror does not exist yet" if len(unsure) == 1 else "their mirrors do not exist yet"
    return f"; not checked for {few(unsure, 2)}: {missing}, and the brokers of {alias} do not show their defaults"


def _letters(alias: str, narrower: Iterable[TopicSizes], letters: Mapping[str, int]) -> Iterator[Finding]:
    resets = {one.target_topic: one for one in narrower if one.is_made and one.is_reset}
    for topic, number in sorted(letters.items()):
        mirror = topic.removesuffix(DEAD_LETTER_SUFFIX)
        reset = resets.get(mirror)
        limit = (
            f"set max.message.bytes = {reset.source_limit} on source topic {reset.topic} itself (the config sync copies"
            f" it to {mirror}), so that later records fit"
            if reset is not None
            else f"if max.message.bytes of {mirror} on {alias} is still too low, raise it for later records"
        )
        message = (
            f"{counted(number, 'record')} {are(number)} in the dead-letter topic {topic} on {alias} instead"
            f" of {mirror}, because of max.message.bytes of {mirror}"
        )
        remedy = (
            f"{limit}; let the applications that need these records read {topic}, then delete"
            f" {topic} on {alias}"
        )
        yield problem(alias, topic, message, remedy)


def _of_sizes(
    settings: FlowSettings, one: TopicSizes, samples: Answers[TopicPartition, SizeSample]
) -> Finding:
    alias, is_lettered = settings.target.alias, settings.on_oversize == "dead-letter"
    limits = (
        f"max.message.bytes is {one.source_limit} for source topic {one.topic} and {one.target_limit} for"
        f" {one.target_topic} on {alias}"
        + ("" if one.is_made else " (the topic does not exist yet, and gets the brokers' default)")
    )
    entity, setting = (
        (f"topics --entity-name {one.target_topic}", "max.message.bytes")
        if one.is_made
        else ("brokers --entity-default", "message.max.bytes")
    )
    remedy = (
        "kafka-configs.sh --bootstrap-server"
        f" {settings.target.bootstrap_servers_for('admin')} --alter --entity-type {entity} --add-config"
        f" {setting}={one.source_limit}"
    )
    if one.is_made and one.is_reset:
        remedy = (
            f"on the source, set max.message.bytes of topic {one.topic} to {one.source_limit}, its present value:"
            f" {by_config_sync(one.target_topic)}"
        )
    mine = {place: sample for place, sample in samples.items() if place.topic == one.topic}
    worst = next(((place, s) for place, s in mine.items() if s.offset is not None), None)
    if worst is None:
        then = (
            "a larger record goes to the dead-letter topic"
            if is_lettered
            else "a larger record halts its partition"
        )
        unread = {place: error for place, error in samples.failed.items() if place.topic == one.topic}
        message = f"{limits}: {then}; {_seen(one.topic, mine.values(), unread)}"
        return warning(alias, one.target_topic, message, remedy)
    place, sample = worst
    then = (
        f"it goes to {one.target_topic}{DEAD_LETTER_SUFFIX}"
        if is_lettered
        else "the partition halts at this record"
    )
    message = (
        f"{limits}: the record at offset {sample.offset} of {place} needs {sample.size} bytes, so that {then}"
    )
    return problem(alias, one.target_topic, message, remedy)


def _seen(topic: str, samples: Collection[SizeSample], unread: Mapping[TopicPartition, MmtoolError]) -> str:
    """The clause that no unmirrored record is too large, as far as records were read."""
    if unread:
        return f"{few(list(unread))} could not be read: {next(iter(unread.values())).message}"
    if not samples:
        return f"{topic} has no record that is still to be mirrored"
    if all(sample.is_whole for sample in samples):
        return "all records that are still to be mirrored are small enough"
    read = size(sum(sample.looked_bytes for sample in samples))
    return f"no record in a sample of {read} is too large; the other records were not read"


# --- timestamps -------------------------------------------------------------------------------------------


class RefusedTimes(NamedTuple):
    """Records whose timestamps a target topic refuses.

    Attributes:
        key: The property that sets the limit.
        bound_ms: Its value.
        is_ahead: They are too far ahead, not too old.
        places: Partitions of the source that hold some, and the first offset of each.
        is_certain: They are not mirrored yet; else that is unknown.
        is_reset: The config sync removes an override of the limit from the target's topic.
    """

    topic: str
    target_topic: str
    key: str
    bound_ms: int
    is_ahead: bool
    places: Mapping[TopicPartition, int]
    is_certain: bool
    is_reset: bool = False


def judge_times(
    settings: FlowSettings,
    stamped: Mapping[str, bool],
    refused: Iterable[RefusedTimes],
    others: Iterable[Finding] = (),
    unsure: Sequence[str] = (),
) -> Iterator[Finding]:
    """Findings about timestamps: refused records are a problem, overwritten timestamps a warning.

    Args:
        settings: The flow's settings.
        stamped: Target topics that set their own times (``LogAppendTime``), and whether each exists; one that does not
            will get the brokers' default.
        refused: Records that the target will refuse.
        others: Rows of topics of the source that did not tell their records' times.
        unsure: As for `judge_sizes`.
    """
    alias = settings.target.alias
    found = [*(_of_times(settings, one) for one in refused), *others]
    if stamped:
        names = sorted(stamped, key=lambda name: not stamped[name])
        message = (
            f"{few(names)} on {alias} {have(len(names))} message.timestamp.type = LogAppendTime: records get the time"
            " when they are mirrored, and retention.ms and offset look-ups by time use this time"
        )
        entity, setting = (
            (f"topics --entity-name {names[0]}", _TYPE)
            if stamped[names[0]]
            else ("brokers --entity-default", f"log.{_TYPE}")
        )
        likewise = " (likewise for the others)" if any(stamped[name] for name in names[1:]) else ""
        remedy = (
            f"to keep the records' own times: kafka-configs.sh --bootstrap-server"
            f" {settings.target.bootstrap_servers_for('admin')} --alter --entity-type {entity} --add-config"
            f" {setting}=CreateTime{likewise}"
        )
        found.append(warning(alias, names[0], message, remedy))
    yield from limited(found) or [ok(f"{alias} accepts and keeps every timestamp{_but(alias, unsure)}")]


def _of_times(settings: FlowSettings, one: RefusedTimes) -> Finding:
    alias, is_raised = settings.target.alias, settings.on_timestamp_refused == "raise-limit"
    (place, offset), *others = one.places.items()
    first = f"{place} (from offset {offset} on)"
    holders = f"{first} and {counted(len(others), 'more partition')} hold" if others else f"{first} holds"
    bound = duration(one.bound_ms / 1000)
    what = f"more than {bound} ahead of now" if one.is_ahead else f"older than {bound}"
    halts = (
        "each partition halts at its first such record" if others else "the partition halts at the first one"
    )
    then = "`mmtool replicate` raises the limit" if is_raised else halts
    doubt = (
        ""
        if one.is_certain
        else "; MirrorMaker 2 may have copied these records before they exceeded the limit"
    )
    refuses = f"{one.target_topic} on {alias} refuses them ({one.key})"
    message = f"{holders} records {what}, and {refuses}: {then}{doubt}"
    say = problem if one.is_certain and not is_raised else warning
    remedy = (
        "nothing to do"
        if is_raised
        else f"set {settings.name}.mmtool.on.timestamp.refused = raise-limit, and `mmtool replicate` raises the limit"
    )
    if not is_raised and not one.is_reset:
        remedy += f"; or raise {one.key} of {one.target_topic} on {alias} yourself"
    return say(alias, one.target_topic, message, remedy)


class _Limits(NamedTuple):
    """A topic's configuration on both sides, as far as limits go.

    Attributes:
        is_made: The target's exists; else it is what the target will make of it.
    """

    source: Entries
    target: Entries
    is_made: bool


@flow_check("message_size")
def check_sizes(flow: ExaminedFlow) -> Iterator[Finding]:
    """The limit `max.message.bytes` of each mirror against its source topic, and dead-letter topics.

    For mirrors that do not exist yet, the limit is `message.max.bytes` of the brokers.

    Problem: a record that is not mirrored yet is too large; a dead-letter topic `*.mmtool-dlq` has records
    Warning: the limits differ, and no record in a sample is too large (the sample: 8 MiB from the next record to
        mirror on, and the newest 500 offsets)
    Effect: the partition halts at the record, or the record goes to the dead-letter topic (`mmtool.on.oversize`)
    Remedy: the `kafka-configs.sh` command in the row
    """
    mirrored = flow.mirror_names()
    limits, unsure = _limits_of(flow, mirrored)
    narrower = []
    for name, one in limits.items():
        source, target = _number(one.source.get(_SIZE)), _number(one.target.get(_SIZE))
        if source is not None and target is not None and source > target:
            is_reset = _SIZE in reset_by_sync(flow.settings, one.source)
            narrower.append(TopicSizes(name, mirrored[name], source, target, one.is_made, is_reset))
    limit = {one.topic: one.target_limit for one in narrower}
    samples = flow.source.samples(
        {
            place: SizeQuestion(start, log.log_end, limit[place.topic])
            for place, (start, log, _) in _unmirrored(flow, limit).items()
            if start < log.log_end
        },
        sample_sizes,
    )
    yield from judge_hidden(flow.hidden_topics())
    letters = flow.held_on_target(f"{mirror}{DEAD_LETTER_SUFFIX}" for mirror in mirrored.values())
    yield from judge_sizes(flow.settings, narrower, samples, letters, unsure)


@flow_check("timestamps")
def check_times(flow: ExaminedFlow) -> Iterator[Finding]:
    """The mirror accepts and keeps the timestamps of the source's records.

    Problem: records that are not mirrored yet are outside `message.timestamp.before.max.ms` or
        `message.timestamp.after.max.ms`
    Warning: such records, and `mmtool.on.timestamp.refused = raise-limit` is set; `message.timestamp.type =
        LogAppendTime`
    Effect: the partition halts at the record; with `LogAppendTime`, `retention.ms` counts from the time of
        mirroring
    Remedy: `mmtool.on.timestamp.refused = raise-limit`, or raise the limit
    """
    mirrored = flow.mirror_names()
    limits, unsure = _limits_of(flow, mirrored)
    stamped = {
        mirrored[name]: one.is_made
        for name, one in limits.items()
        if _TYPE in one.target and one.target[_TYPE].value == "LogAppendTime"
    }
    bounds = {name: TargetLimits.of(one.target) for name, one in limits.items()}
    refused, failed = _refused(flow, mirrored, bounds)
    refused = [
        one._replace(is_reset=one.key in reset_by_sync(flow.settings, limits[one.topic].source))
        for one in refused
    ]
    others = unasked(flow.source.alias, failed)
    yield from judge_hidden(flow.hidden_topics())
    yield from judge_times(flow.settings, stamped, refused, others, unsure)


# --- configurations ---------------------------------------------------------------------------------------


def _limits_of(flow: ExaminedFlow, mirrored: Mapping[str, str]) -> tuple[dict[str, _Limits], list[str]]:
    """The limits of topics on both sides; for a mirror that does not exist, those that it will be created with.

    Beside them the topics that are to be made, where the brokers do not tell what their defaults are.
    """
    source, target, defaults = flow.source_configs(), flow.target_configs(), _defaults(flow)
    made = {name: _Limits(source[name], target[mirrored[name]], is_made=True)
            for name in source if mirrored[name] in target}  # fmt: skip
    new = {
        name: _Limits(source[name], _to_be_made(flow, source[name], defaults), is_made=False)
        for name in source
        if mirrored[name] not in flow.target_topics()
    }
    return made | new, [] if defaults else sorted(new)


def _defaults(flow: ExaminedFlow) -> Entries:
    """The target brokers' defaults of the topic limits; where brokers differ, the lowest."""
    told = list(flow.target.broker_configs(_BROKER_KEYS.values()).values())
    found: dict[str, ConfigEntry] = {}
    for name, key in _BROKER_KEYS.items():
        values = [value for one in told if (value := one.get(key))]
        if values:
            value = min(values, key=lambda text: int(text) if text.isdecimal() else 0)
            found[name] = ConfigEntry(value, ConfigOrigin.DEFAULT, on_topic=False)
    return found


def _to_be_made(flow: ExaminedFlow, source: Mapping[str, ConfigEntry], defaults: Entries) -> Entries:
    """The limits of a mirror that `replicate` would create: the source's overrides over the target's defaults."""
    settings = flow.settings
    carried = {
        name: entry
        for name in _BROKER_KEYS
        if (entry := source.get(name)) is not None
        and (entry.origin is ConfigOrigin.OVERRIDE or settings.use_defaults_from == "source")
        and settings.config_properties_exclude.accepts(name)
    }
    return {**defaults, **carried}


# --- sizes ------------------------------------------------------------------------------------------------


def _number(entry: ConfigEntry | None) -> int | None:
    return int(entry.value) if entry is not None and entry.value and entry.value.isdecimal() else None


def _refused(
    flow: ExaminedFlow, mirrored: Mapping[str, str], bounds: Mapping[str, TargetLimits]
) -> tuple[list[RefusedTimes], Mapping[TopicPartition, MmtoolError]]:
    """Records whose timestamps the target refuses, and errors of partitions whose records' times are not shown."""
    now_ms = int(time.time() * 1000)
    left = {place: of for place, of in _unmirrored(flow, bounds).items() if of[0] < of[1].log_end}
    oldest = {at: now_ms - b.before[1] for at in left if (b := bounds[at.topic]).before[1] < now_ms}
    newest = {at: now_ms + b.after[1] for at in left if (b := bounds[at.topic]).after[1] < FOR_EVER - now_ms}
    taken, ahead = flow.source.offsets_at(oldest), flow.source.offsets_at(newest)
    old = {at: left[at][0] for at, first in taken.items() if first is None or first > left[at][0]}
    early = {at: first for at, first in ahead.items() if first is not None and first >= left[at][0]}
    found = [
        RefusedTimes(name, mirrored[name], *limit, is_ahead, of, all(left[at][2] for at in of))
        for is_ahead, places in ((False, old), (True, early))
        for name in dict.fromkeys(at.topic for at in places)
        for of in [{at: first for at, first in places.items() if at.topic == name}]
        for limit in [bounds[name].after if is_ahead else bounds[name].before]
    ]
    return found, taken.failed | ahead.failed


def _unmirrored(
    flow: ExaminedFlow, topics: Collection[str]
) -> dict[TopicPartition, tuple[int, Bounds, bool]]:
    """For each partition the first unmirrored offset, the source's log, and whether that offset is certain.

    Where mmtool never ran, MirrorMaker 2's progress is unknown: the offset is the log's start, and certain only where
    the mirror has no records.
    """
    if not topics:
        return {}
    positions = {
        TopicPartition(one.topic, one.partition): one.upstream_position
        for one in flow.control().positions.values()
    }
    logs = {place: log for place, log in flow.source_bounds().items() if place.topic in topics}
    mirrors = {
        place: TopicPartition(flow.settings.remote_topic(place.topic), place.partition)
        for place in logs
        if place not in positions
    }
    there = flow.target.topics()
    ends = flow.clusters.target.bounds_each([one for one in mirrors.values() if one.topic in there])
    copied = {place for place, one in mirrors.items() if one in ends and ends[one].log_end > 0}
    return {
        place: (max(log.log_start, positions.get(place, 0)), log, place not in copied)
        for place, log in logs.items()
    }
