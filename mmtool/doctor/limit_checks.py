"""Doctor checks of topic limits: read them from both clusters, and find records that exceed them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from mmtool.doctor.finding import Check, unasked
from mmtool.doctor.flow_scope import identity_of, mirrored_topics, reset_by_sync
from mmtool.doctor.limits import (
    RefusedTimes,
    SizeFacts,
    TimeFacts,
    TopicSizes,
    judge_hidden,
    judge_sizes,
    judge_times,
)
from mmtool.kafka.admin.details import SizeQuestion
from mmtool.plan.topics.configs import ConfigEntry, Origin
from mmtool.replication.topics.target_limits import FOR_EVER, TargetLimits
from mmtool.translation.names import DEAD_LETTER_SUFFIX
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from mmtool.doctor.examination import ExaminedFlow
    from mmtool.doctor.finding import Finding
    from mmtool.errors import MmtoolError
    from mmtool.kafka.ports import Bounds

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


class _Limits(NamedTuple):
    """A topic's configuration on both sides, as far as limits go.

    Attributes:
        is_made: The target's exists; else it is what the target will make of it.
    """

    source: Entries
    target: Entries
    is_made: bool


class _Told(NamedTuple):
    """Limits by the source's name of a topic.

    Attributes:
        hidden: Topics, by the alias of the cluster that does not show how they are configured.
        unsure: Topics that are to be made, where the brokers do not tell what their defaults are.
    """

    limits: dict[str, _Limits]
    hidden: Mapping[str, Sequence[str]]
    unsure: Sequence[str]


def check_sizes(flow: ExaminedFlow) -> Iterable[Finding]:
    """Check that the target accepts records of every size that the source accepts."""
    mirrored = mirrored_topics(flow)
    told = _limits_of(flow, mirrored)
    narrower = [
        found
        for name, limits in told.limits.items()
        if (found := _narrower(flow, name, mirrored[name], limits)) is not None
    ]
    samples = flow.source.size_samples(_size_questions(flow, narrower))
    facts = SizeFacts(
        flow.name,
        flow.target.alias,
        narrower,
        samples,
        _letters(flow, mirrored.values()),
        flow.settings.on_oversize == "dead-letter",
        told.unsure,
        flow.target.bootstrap,
        samples.failed,
    )
    yield from judge_hidden(Check.MESSAGE_SIZE, told.hidden)
    yield from judge_sizes(facts)


def check_times(flow: ExaminedFlow) -> Iterable[Finding]:
    """Check that the target accepts the timestamps of the source's records, and keeps them."""
    mirrored = mirrored_topics(flow)
    told = _limits_of(flow, mirrored)
    limits = told.limits
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
    is_raised = flow.settings.on_timestamp_refused == "raise-limit"
    yield from judge_hidden(Check.TIMESTAMPS, told.hidden)
    facts = TimeFacts(
        flow.name,
        flow.target.alias,
        sorted(stamped, key=lambda name: not stamped[name]),
        refused,
        is_raised,
        told.unsure,
        flow.target.bootstrap,
        list(unasked(Check.TIMESTAMPS, flow.source.alias, failed)),
        frozenset(name for name, is_made in stamped.items() if not is_made),
    )
    yield from judge_times(facts)


# --- configurations ---------------------------------------------------------------------------------------


def _limits_of(flow: ExaminedFlow, mirrored: Mapping[str, str]) -> _Told:
    """The limits of topics on both sides; for a mirror that does not exist, those that it will be created with."""
    there = [name for name in mirrored.values() if name in flow.target.topics()]
    source, target, defaults = (
        flow.source.configs(mirrored, _BROKER_KEYS),
        flow.target.configs(there, _BROKER_KEYS),
        _defaults(flow),
    )
    made = {name: _Limits(source[name], target[mirrored[name]], is_made=True)
            for name in source if mirrored[name] in target}  # fmt: skip
    new = {
        name: _Limits(source[name], _to_be_made(flow, source[name], defaults), is_made=False)
        for name in source
        if mirrored[name] not in there
    }
    hidden = {
        flow.source.alias: sorted(set(mirrored) - source.keys()),
        flow.target.alias: sorted(set(there) - target.keys()),
    }
    return _Told(made | new, hidden, () if defaults else sorted(new))


def _defaults(flow: ExaminedFlow) -> Entries:
    """The target brokers' defaults of the topic limits; where brokers differ, the lowest."""
    told = list(flow.target.broker_configs(_BROKER_KEYS.values()).values())
    found: dict[str, ConfigEntry] = {}
    for name, key in _BROKER_KEYS.items():
        values = [value for one in told if (value := one.get(key))]
        if values:
            value = min(values, key=lambda text: int(text) if text.isdecimal() else 0)
            found[name] = ConfigEntry(value, Origin.DEFAULT, on_topic=False)
    return found


def _to_be_made(flow: ExaminedFlow, source: Mapping[str, ConfigEntry], defaults: Entries) -> Entries:
    """The limits of a mirror that `replicate` would create: the source's overrides over the target's defaults."""
    settings = flow.settings
    carried = {
        name: entry
        for name in _BROKER_KEYS
        if (entry := source.get(name)) is not None
        and (entry.origin is Origin.OVERRIDE or settings.use_defaults_from == "source")
        and settings.config_properties_exclude.accepts(name)
    }
    return {**defaults, **carried}


# --- sizes ------------------------------------------------------------------------------------------------


def _narrower(flow: ExaminedFlow, name: str, remote: str, limits: _Limits) -> TopicSizes | None:
    source, target = (_number(side.get(_SIZE)) for side in (limits.source, limits.target))
    if source is None or target is None or source <= target:
        return None
    is_reset = _SIZE in reset_by_sync(flow.settings, limits.source)
    return TopicSizes(name, remote, source, target, limits.is_made, is_reset)


def _number(entry: ConfigEntry | None) -> int | None:
    return int(entry.value) if entry is not None and entry.value and entry.value.isdecimal() else None


def _size_questions(
    flow: ExaminedFlow, narrower: Collection[TopicSizes]
) -> dict[TopicPartition, SizeQuestion]:
    limits = {one.topic: one.target_limit for one in narrower}
    return {
        place: SizeQuestion(start, log.log_end, limits[place.topic])
        for place, (start, log, _) in _unmirrored(flow, limits).items()
        if start < log.log_end
    }


def _letters(flow: ExaminedFlow, remotes: Iterable[str]) -> dict[str, int]:
    topics = flow.target.topics()
    names = {f"{remote}{DEAD_LETTER_SUFFIX}" for remote in remotes} & topics.keys()
    places = [TopicPartition(name, n) for name in names for n in range(len(topics[name].partitions))]
    found: dict[str, int] = {}
    for place, log in flow.clusters.target.bounds_each(places).items():
        found[place.topic] = found.get(place.topic, 0) + log.log_end - log.log_start
    return {name: number for name, number in found.items() if number}


# --- times ------------------------------------------------------------------------------------------------


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
    known = flow.source.topics()
    places = [
        TopicPartition(name, n)
        for name in topics
        if name in known
        for n in range(len(known[name].partitions))
    ]
    if not places:
        return {}
    positions = {
        TopicPartition(one.topic, one.partition): one.upstream_position
        for one in flow.watch.control(identity_of(flow)).positions.values()
    }
    logs = flow.clusters.source.bounds_each(places)
    copied = _with_records(flow, [place for place in logs if place not in positions])
    return {
        place: (max(log.log_start, positions.get(place, 0)), log, place not in copied)
        for place, log in logs.items()
    }


def _with_records(flow: ExaminedFlow, places: Collection[TopicPartition]) -> set[TopicPartition]:
    """The source partitions whose mirrors have, or had, records."""
    there = flow.target.topics()
    remote = {
        place: TopicPartition(flow.settings.remote_topic(place.topic), place.partition) for place in places
    }
    logs = flow.clusters.target.bounds_each([one for one in remote.values() if one.topic in there])
    return {place for place, one in remote.items() if one in logs and logs[one].log_end > 0}
