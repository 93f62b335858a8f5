"""What target topics take of what source topics hold: sizes, and timestamps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from mmtool.doctor.finding import Check, ok, problem, warning
from mmtool.output.human import duration, size
from mmtool.plan.words import counted, few

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mmtool.doctor.finding import Finding
    from mmtool.kafka.admin.details import SizeSample
    from mmtool.translation.types import TopicPartition

_ROWS = 20


class TopicSizes(NamedTuple):
    """One topic's limits, in bytes of a batch.

    Attributes:
        is_made: The target's topic exists; else it will be made with that limit.
    """

    topic: str
    target_topic: str
    source_limit: int
    target_limit: int
    is_made: bool


@dataclass(frozen=True, slots=True)
class SizeFacts:
    """What is known of sizes.

    Attributes:
        flow: ``A->B``.
        alias: Of the target.
        narrower: Topics whose limit is lower on the target.
        samples: Of the records that are not mirrored yet, of partitions of these topics.
        letters: Records in dead-letter topics, by the topic on the target.
        is_lettered: ``mmtool.on.oversize = dead-letter``.
        unsure: Topics that are to be made, and whose limit is the brokers' own, which they do not tell.
    """

    flow: str
    alias: str
    narrower: Sequence[TopicSizes]
    samples: Mapping[TopicPartition, SizeSample]
    letters: Mapping[str, int]
    is_lettered: bool
    unsure: Sequence[str] = ()


def judge_sizes(facts: SizeFacts) -> Iterator[Finding]:
    """A record that does not fit is a problem, limits that differ are a warning."""
    found = [*_letters(facts), *(_of_sizes(facts, one) for one in facts.narrower)]
    yield from _first(found) or [
        ok(Check.MESSAGE_SIZE, "", "the target takes whatever the source takes", facts.flow)
    ]


def _but(unsure: Sequence[str]) -> str:
    """What an ``ok`` does not speak of."""
    if not unsure:
        return ""
    missing = "the topic does not exist yet" if len(unsure) == 1 else "the topics do not exist yet"
    return f"; not checked for {few(unsure, 2)}: {missing}, and the target's brokers do not show their default limit"


def judge_hidden(check: Check, hidden: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Topics that do not show how they are configured, by the alias of their cluster: they were not looked at."""
    for alias, topics in hidden.items():
        if topics:
            message = f"not looked at, for {alias} does not show how they are configured: {few(topics)}"
            remedy = "grant DESCRIBE_CONFIGS on them to mmtool's principal"
            yield warning(check, alias, "", message, remedy)


def _letters(facts: SizeFacts) -> Iterator[Finding]:
    for topic, number in sorted(facts.letters.items()):
        message = f"{counted(number, 'record')} that the target takes in no batch {_are(number)} in {topic}"
        remedy = "copy them by hand and delete the topic; raise max.message.bytes for those to come"
        yield problem(Check.MESSAGE_SIZE, facts.alias, topic, message, remedy)


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _of_sizes(facts: SizeFacts, one: TopicSizes) -> Finding:
    limits = f"max.message.bytes is {one.source_limit} for {one.topic} and {one.target_limit} for {one.target_topic}"
    remedy = (
        f"kafka-configs.sh --alter --entity-type topics --entity-name {one.target_topic} --add-config"
        f" max.message.bytes={one.source_limit}"
        if one.is_made
        else f"set message.max.bytes of the brokers of {facts.alias} to {one.source_limit}"
    )
    samples = {place: sample for place, sample in facts.samples.items() if place.topic == one.topic}
    worst = next(((place, s) for place, s in samples.items() if s.offset is not None), None)
    if worst is None:
        looked = size(sum(sample.looked_bytes for sample in samples.values()))
        whole = bool(samples) and all(sample.is_whole for sample in samples.values())
        seen = (
            "every record that is there fits" if whole else f"no record of a sample of {looked} is too large"
        )
        message = f"{limits}: a larger record will not fit; {seen}"
        return warning(Check.MESSAGE_SIZE, facts.alias, one.target_topic, message, remedy)
    place, sample = worst
    then = (
        "it goes to the dead-letter topic" if facts.is_lettered else "the mirror of the partition halts there"
    )
    message = (
        f"{limits}: the record at offset {sample.offset} of {place} needs {sample.size} bytes, and {then}"
    )
    return problem(Check.MESSAGE_SIZE, facts.alias, one.target_topic, message, remedy)


# --- timestamps -------------------------------------------------------------------------------------------


class RefusedTimes(NamedTuple):
    """Records whose timestamps a target topic refuses.

    Attributes:
        key: The property that says so.
        bound_ms: Its value.
        is_ahead: They are too far ahead, not too old.
        places: Partitions of the source that hold some, and the first offset of each.
        is_certain: They are not mirrored yet; else nobody knows.
    """

    topic: str
    target_topic: str
    key: str
    bound_ms: int
    is_ahead: bool
    places: Mapping[TopicPartition, int]
    is_certain: bool


@dataclass(frozen=True, slots=True)
class TimeFacts:
    """What is known of timestamps.

    Attributes:
        stamped: Target topics that set their own times (``LogAppendTime``).
        refused: Records that will not be taken.
        is_raised: ``mmtool.on.timestamp.refused = raise-limit``.
        unsure: As for `SizeFacts`.
    """

    flow: str
    alias: str
    stamped: Sequence[str]
    refused: Sequence[RefusedTimes]
    is_raised: bool
    unsure: Sequence[str] = ()


def judge_times(facts: TimeFacts) -> Iterator[Finding]:
    """Records that are refused are a problem, times that are overwritten a warning."""
    found = [_of_times(facts, one) for one in facts.refused]
    if facts.stamped:
        message = (
            f"{few(facts.stamped)} on {facts.alias} {'has' if len(facts.stamped) == 1 else 'have'}"
            " message.timestamp.type = LogAppendTime: records get the time of their mirroring, which is what"
            " retention.ms and look-ups by time go by"
        )
        remedy = "set message.timestamp.type = CreateTime there to keep the records' own times"
        found.append(warning(Check.TIMESTAMPS, facts.alias, facts.stamped[0], message, remedy))
    yield from _first(found) or [
        ok(Check.TIMESTAMPS, "", f"the target keeps every timestamp{_but(facts.unsure)}", facts.flow)
    ]


def _of_times(facts: TimeFacts, one: RefusedTimes) -> Finding:
    (place, offset), *others = one.places.items()
    holders = f"{place} and {len(others)} more partitions hold" if others else f"{place} holds"
    bound = duration(one.bound_ms / 1000)
    what = f"more than {bound} ahead of now" if one.is_ahead else f"older than {bound}"
    then = "replicate raises the limit" if facts.is_raised else "their mirror halts there"
    doubt = "" if one.is_certain else "; MirrorMaker 2 may have copied them before they were so old"
    message = (
        f"{holders} records {what}, from offset {offset} on, which {one.target_topic} refuses ({one.key}):"
        f" {then}{doubt}"
    )
    say = problem if one.is_certain and not facts.is_raised else warning
    remedy = f"raise {one.key} of {one.target_topic}, or set mmtool.on.timestamp.refused = raise-limit"
    return say(Check.TIMESTAMPS, facts.alias, one.target_topic, message, remedy)


def _first(findings: Iterable[Finding]) -> list[Finding]:
    """Problems first; of many rows the first ones, and how many more there would be."""
    found = sorted(findings, key=lambda finding: finding.severity != "problem")
    if len(found) <= _ROWS:
        return found
    message = f"{counted(len(found) - _ROWS, 'more topic')} as these: {found[_ROWS].message}"
    return [*found[:_ROWS], found[_ROWS]._replace(subject="", message=message)]
