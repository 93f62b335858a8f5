"""Doctor check ``same_offsets``: whether a flow can keep the source's offsets, and what that costs.

Each hole of the source, a run of offsets without a record for the mirror, costs two round trips to the target, and each
of its offsets a marker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.doctor.finding import flow_check, problem, unasked, warning
from mmtool.doctor.retention import span_words
from mmtool.errors import MmtoolError
from mmtool.kafka.logs.samples import HoleQuestion, sample_holes
from mmtool.plan.words import counted, few
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from mmtool.config import FlowSettings
    from mmtool.doctor.examination import ExaminedFlow
    from mmtool.doctor.finding import Finding
    from mmtool.kafka.admin.listeners import ListenerAnswer
    from mmtool.kafka.logs.samples import HoleSample
    from mmtool.kafka.ports import Bounds

_APIS = {21: "DeleteRecords", 27: "WriteTxnMarkers", 61: "DescribeProducers"}
_NEWEST = 2_000
"""Offsets before the log end where the sample of the newest records begins."""
_MOST_SAMPLES = 200
"""Partitions that are sampled: first one of each topic."""
_MARKERS_A_SECOND = 3_000
"""Into one partition of a busy broker."""
_SHORTEST_HOLE_SECONDS = 0.003
_TRIPS = 2
_LONG_SECONDS = 3_600.0
_TRANSLATE = "set mmtool.offsets = translated for this flow"


@flow_check(
    "same_offsets",
    "mirrors can keep the source's offsets",
    only=lambda flow: flow.settings.writes_same_offsets,
)
def check_same_offsets(flow: ExaminedFlow) -> Iterator[Finding]:
    """Only for flows with [`mmtool.offsets = same`](../concepts/same-offsets.md).

    The target's APIs WriteTxnMarkers, DescribeProducers and DeleteRecords; the right to write markers; target
    topics with records; the cost of [prefills](../concepts/same-offsets.md#prefill); the source's holes, from a
    sample of up to 1 MiB of each of up to 200 partitions.

    Problem: an API or the right is missing; a target topic has records that were not mirrored with the source's
        offsets; prefills have more offsets than `mmtool.prefill.max.offsets`; holes arise faster than they can be
        filled
    Warning: holes arise half as fast as they can be filled; the markers of a first copy take more than an hour
    Effect: `replicate` does not start; partitions halt with `offsets_differ`; the mirror falls behind
    Remedy: grant ALTER on the cluster; delete the target topic; larger transactions; `mmtool.offsets = translated`
    """
    settings = flow.settings
    lacking = list(judge_apis(settings.target.alias, flow.target.listeners()))
    yield from lacking
    trip_seconds = 0.0
    if not lacking:
        try:
            trip_seconds = flow.target.marker_trip_seconds()
        except MmtoolError as error:
            yield problem(settings.target.alias, "", error.message, error.remedy)
    topics = {name: topic for name, topic in flow.mirrored().items() if settings.keeps_offsets(name)}
    there = flow.target_bounds(flow.mirrors())
    yield from unasked(settings.target.alias, there.failed)
    stored = {place for place, block in flow.blocks().items() if block.tail.same_offsets}
    begun = {
        TopicPartition(name, n)
        for name, topic in topics.items()
        for n in range(topic.partitions)
        if (topic.topic_id, n) in stored
    }
    if not (
        settings.keeps_names and settings.way_back
    ):  # else the target's own records may be the source's, too
        yield from judge_targets(settings, topics, begun, there)
    logs = {place: log for place, log in flow.source_bounds().items() if place.topic in topics}
    yield from judge_prefills(
        settings, {place: log for place, log in logs.items() if place not in begun}, there
    )
    yield from _judge_holes(flow, topics, begun, max(_SHORTEST_HOLE_SECONDS, _TRIPS * trip_seconds))


def judge_apis(alias: str, answers: Iterable[ListenerAnswer]) -> Iterator[Finding]:
    """A problem for each API that brokers of the target lack."""
    spoken = {answer.address: answer.apis.versions for answer in answers if answer.apis is not None}
    for number, name in _APIS.items():
        if brokers := sorted(address for address, versions in spoken.items() if number not in versions):
            yield problem(
                alias,
                "",
                f"{few(brokers)} of {alias} lacks the {name} API, without which mmtool.offsets = same cannot work",
                f"upgrade the brokers to Kafka 2.8 or later; if {alias} is a service without this API, {_TRANSLATE}",
            )


def judge_targets(
    settings: FlowSettings,
    topics: Collection[str],
    begun: Collection[TopicPartition],
    there: Mapping[TopicPartition, Bounds],
) -> Iterator[Finding]:
    """A problem for each target topic with records where no mirror with the source's offsets was begun.

    Args:
        settings: The flow's.
        topics: Source topics.
        begun: Source partitions whose mirrors this flow has begun.
        there: The logs of the target's partitions.
    """
    for topic in sorted(topics):
        remote = settings.remote_topic(topic)
        foreign = [
            down.partition
            for down, log in there.items()
            if down.topic == remote and log.log_end > log.log_start and (topic, down.partition) not in begun
        ]
        if foreign:
            yield problem(
                settings.target.alias,
                remote,
                f"{remote} of {settings.target.alias} has records that this flow did not mirror with the source's"
                f" offsets, in {counted(len(foreign), 'partition')}: they halt with offsets_differ",
                f"delete topic {remote} on {settings.target.alias} before the flow starts (if mmtool mirrored it with"
                f" translated offsets: stop `mmtool replicate`, then `mmtool flow forget`), add {topic} to"
                f" {settings.name}.topics.exclude, or {_TRANSLATE}",
            )


def judge_prefills(
    settings: FlowSettings, new: Mapping[TopicPartition, Bounds], there: Mapping[TopicPartition, Bounds]
) -> Iterator[Finding]:
    """A problem where mirrors that begin far above offset 0 need larger prefills than the flow allows.

    Args:
        settings: The flow's.
        new: The logs of source partitions whose mirrors are not begun.
        there: The logs of the target's partitions.
    """
    from mmtool.replication.same_offsets.refusals import FEW, Cost

    ends = {down: log.log_end for down, log in there.items()}
    left = [
        begins - ends.get(TopicPartition(settings.remote_topic(place.topic), place.partition), 0)
        for place, log in new.items()
        for begins in [log.log_end if settings.start == "latest" else log.log_start]
    ]
    cost = Cost.of([offsets for offsets in left if offsets > FEW], settings.replication_factor, settings)
    if why := cost.why_refused(settings):
        yield problem(settings.source.alias, settings.name, why.cause, why.cure)


def _judge_holes(
    flow: ExaminedFlow, topics: Collection[str], begun: Collection[TopicPartition], hole_seconds: float
) -> Iterator[Finding]:
    settings = flow.settings
    found = flow.stable_bounds() if settings.reads_committed else flow.source_bounds()
    logs = {place: log for place, log in found.items() if place.topic in topics}
    some = sorted(logs, key=lambda place: (place.partition, place.topic))[:_MOST_SAMPLES]

    def question(place: TopicPartition, start: int) -> HoleQuestion:
        return HoleQuestion(start, logs[place].log_end, settings.reads_committed)

    newest = flow.source.samples(
        {place: question(place, max(logs[place].log_start, logs[place].log_end - _NEWEST)) for place in some},
        sample_holes,
    )
    yield from unasked(settings.source.alias, newest.failed)
    for place, sample in sorted(newest.items()):
        yield from judge_pace(settings, place, sample, hole_seconds)
    oldest = flow.source.samples(
        {place: question(place, logs[place].log_start) for place in newest if place not in begun},
        sample_holes,
    )
    for place, sample in sorted(oldest.items()):
        log = logs[place]
        yield from judge_first_copy(settings, place, sample, log.log_end - log.log_start, hole_seconds)


def judge_pace(
    settings: FlowSettings, place: TopicPartition, newest: HoleSample, hole_seconds: float
) -> Iterator[Finding]:
    """A finding for a partition whose holes arise about as fast as they can be filled, or faster."""
    share = newest.holes * hole_seconds / newest.seconds
    if share < 1 / 2:
        return
    say, falls = (problem, "falls") if share >= 1 else (warning, "may fall")
    yield say(
        settings.source.alias,
        str(place),
        f"{place} of {settings.source.alias} gets {newest.holes / newest.seconds:,.0f} holes a second (transaction"
        f" markers, aborted or compacted records), and at most {1 / hole_seconds:,.0f} can be filled, each in two round"
        f" trips to {settings.target.alias}: its mirror {falls} behind",
        "let producers write larger transactions, spread the records over more partitions, run `mmtool replicate`"
        f" nearer to {settings.target.alias}, or {_TRANSLATE}",
    )


def judge_first_copy(
    settings: FlowSettings, place: TopicPartition, oldest: HoleSample, offsets: int, hole_seconds: float
) -> Iterator[Finding]:
    """A warning for a partition whose holes make the first copy take hours; ``offsets`` is how many its log has."""
    parts = offsets / max(oldest.offsets, 1)
    seconds = parts * (oldest.missing / _MARKERS_A_SECOND + oldest.holes * hole_seconds)
    if seconds >= _LONG_SECONDS:
        yield warning(
            settings.source.alias,
            str(place),
            f"{oldest.missing / oldest.offsets:.0%} of the offsets of {place} of {settings.source.alias} have no"
            f" record, by a sample: the markers of its first copy take about {span_words(int(seconds * 1000))}",
            f"begin that much earlier than consumers need the mirror, or {_TRANSLATE}",
        )
