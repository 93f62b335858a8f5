"""Judge whether target topics accept the record sizes and timestamps of the source topics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from mmtool.doctor.finding import Check, ok, problem, warning
from mmtool.doctor.flow_scope import by_config_sync
from mmtool.output.human import size
from mmtool.plain_text import duration
from mmtool.plan.words import are, counted, few, have
from mmtool.translation.names import DEAD_LETTER_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from mmtool.doctor.finding import Finding
    from mmtool.errors import MmtoolError
    from mmtool.kafka.admin.details import SizeSample
    from mmtool.translation.types import TopicPartition

_ROWS = 20


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


@dataclass(frozen=True, slots=True)
class SizeFacts:
    """The facts about record sizes of a flow.

    Attributes:
        flow: ``A->B``.
        alias: Of the target.
        narrower: Topics whose limit is lower on the target.
        samples: Of the records that are not mirrored yet, of partitions of these topics.
        letters: Records in dead-letter topics, by the topic on the target.
        is_lettered: ``mmtool.on.oversize = dead-letter``.
        unsure: Topics to be created with the brokers' own limit, which the brokers do not return.
        bootstrap: Of the target, for the command that raises a limit.
        unread: Partitions of these topics that have no sample.
    """

    flow: str
    alias: str
    narrower: Sequence[TopicSizes]
    samples: Mapping[TopicPartition, SizeSample]
    letters: Mapping[str, int]
    is_lettered: bool
    unsure: Sequence[str] = ()
    bootstrap: str = ""
    unread: Mapping[TopicPartition, MmtoolError] = field(default_factory=dict)


def judge_sizes(facts: SizeFacts) -> Iterator[Finding]:
    """Findings about record sizes: a record that does not fit is a problem, limits that differ are a warning."""
    found = [*_letters(facts), *(_of_sizes(facts, one) for one in facts.narrower)]
    yield from _first(found) or [
        ok(
            Check.MESSAGE_SIZE,
            "",
            f"{facts.alias} accepts every record size that the source accepts{_but(facts.alias, facts.unsure)}",
            facts.flow,
        )
    ]


def _but(alias: str, unsure: Sequence[str]) -> str:
    """The clause of an ``ok`` row about topics that were not checked; empty where all were."""
    if not unsure:
        return ""
    missing = "its mirror does not exist yet" if len(unsure) == 1 else "their mirrors do not exist yet"
    return f"; not checked for {few(unsure, 2)}: {missing}, and the brokers of {alias} do not show their defaults"


def judge_hidden(check: Check, hidden: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """A warning for each cluster about topics that were not checked, because their configuration is not shown."""
    for alias, topics in hidden.items():
        if topics:
            message = f"could not be checked: {alias} does not show the configuration of {few(topics)}"
            these = "this topic" if len(topics) == 1 else "these topics"
            remedy = f"grant mmtool's principal DESCRIBE_CONFIGS on {these} of {alias}"
            yield warning(check, alias, "", message, remedy)


def _letters(facts: SizeFacts) -> Iterator[Finding]:
    resets = {one.target_topic: one for one in facts.narrower if one.is_made and one.is_reset}
    for topic, number in sorted(facts.letters.items()):
        mirror = topic.removesuffix(DEAD_LETTER_SUFFIX)
        reset = resets.get(mirror)
        limit = (
            f"set max.message.bytes = {reset.source_limit} on source topic {reset.topic} itself (the config sync copies"
            f" it to {mirror}), so that later records fit"
            if reset is not None
            else f"if max.message.bytes of {mirror} on {facts.alias} is still too low, raise it for later records"
        )
        message = (
            f"{counted(number, 'record')} {are(number)} in the dead-letter topic {topic} on {facts.alias} instead"
            f" of {mirror}, because of max.message.bytes of {mirror}"
        )
        remedy = (
            f"{limit}; let the applications that need these records read {topic}, then delete"
            f" {topic} on {facts.alias}"
        )
        yield problem(Check.MESSAGE_SIZE, facts.alias, topic, message, remedy)


def _of_sizes(facts: SizeFacts, one: TopicSizes) -> Finding:
    limits = (
        f"max.message.bytes is {one.source_limit} for source topic {one.topic} and {one.target_limit} for"
        f" {one.target_topic} on {facts.alias}"
        + ("" if one.is_made else " (the topic does not exist yet, and gets the brokers' default)")
    )
    entity, setting = (
        (f"topics --entity-name {one.target_topic}", "max.message.bytes")
        if one.is_made
        else ("brokers --entity-default", "message.max.bytes")
    )
    remedy = (
        f"kafka-configs.sh --bootstrap-server {facts.bootstrap} --alter --entity-type {entity} --add-config"
        f" {setting}={one.source_limit}"
    )
    if one.is_made and one.is_reset:
        remedy = (
            f"on the source, set max.message.bytes of topic {one.topic} to {one.source_limit}, its present value:"
            f" {by_config_sync(one.target_topic)}"
        )
    samples = {place: sample for place, sample in facts.samples.items() if place.topic == one.topic}
    worst = next(((place, s) for place, s in samples.items() if s.offset is not None), None)
    if worst is None:
        then = (
            "a larger record goes to the dead-letter topic"
            if facts.is_lettered
            else "a larger record halts its partition"
        )
        message = f"{limits}: {then}; {_seen(facts, one, samples.values())}"
        return warning(Check.MESSAGE_SIZE, facts.alias, one.target_topic, message, remedy)
    place, sample = worst
    then = (
        f"it goes to {one.target_topic}{DEAD_LETTER_SUFFIX}"
        if facts.is_lettered
        else "the partition halts at this record"
    )
    message = (
        f"{limits}: the record at offset {sample.offset} of {place} needs {sample.size} bytes, so that {then}"
    )
    return problem(Check.MESSAGE_SIZE, facts.alias, one.target_topic, message, remedy)


def _seen(facts: SizeFacts, one: TopicSizes, samples: Collection[SizeSample]) -> str:
    """The clause that no unmirrored record is too large, as far as records were read."""
    unread = {place: error for place, error in facts.unread.items() if place.topic == one.topic}
    if unread:
        return f"{few(list(unread))} could not be read: {next(iter(unread.values())).message}"
    if not samples:
        return f"{one.topic} has no record that is still to be mirrored"
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


@dataclass(frozen=True, slots=True)
class TimeFacts:
    """The facts about record timestamps of a flow.

    Attributes:
        stamped: Target topics that set their own times (``LogAppendTime``).
        refused: Records that the target will refuse.
        is_raised: ``mmtool.on.timestamp.refused = raise-limit``.
        unsure, bootstrap: As for `SizeFacts`.
        absent: Those of ``stamped`` that do not exist yet, and will get the brokers' default.
        unasked: A row for each topic of the source that did not tell its records' times.
    """

    flow: str
    alias: str
    stamped: Sequence[str]
    refused: Sequence[RefusedTimes]
    is_raised: bool
    unsure: Sequence[str] = ()
    bootstrap: str = ""
    unasked: Sequence[Finding] = ()
    absent: Collection[str] = ()


def judge_times(facts: TimeFacts) -> Iterator[Finding]:
    """Findings about timestamps: refused records are a problem, overwritten timestamps a warning."""
    found = [*(_of_times(facts, one) for one in facts.refused), *facts.unasked]
    if facts.stamped:
        message = (
            f"{few(facts.stamped)} on {facts.alias} {have(len(facts.stamped))}"
            " message.timestamp.type = LogAppendTime: records get the time when they are mirrored, and retention.ms and"
            " offset look-ups by time use this time"
        )
        first, key = facts.stamped[0], "message.timestamp.type"
        entity, setting = (
            ("brokers --entity-default", f"log.{key}")
            if first in facts.absent
            else (f"topics --entity-name {first}", key)
        )
        others = " (likewise for the others)" if set(facts.stamped[1:]) - set(facts.absent) else ""
        remedy = (
            f"to keep the records' own times: kafka-configs.sh --bootstrap-server {facts.bootstrap} --alter"
            f" --entity-type {entity} --add-config {setting}=CreateTime{others}"
        )
        found.append(warning(Check.TIMESTAMPS, facts.alias, facts.stamped[0], message, remedy))
    yield from _first(found) or [
        ok(
            Check.TIMESTAMPS,
            "",
            f"{facts.alias} accepts and keeps every timestamp{_but(facts.alias, facts.unsure)}",
            facts.flow,
        )
    ]


def _of_times(facts: TimeFacts, one: RefusedTimes) -> Finding:
    (place, offset), *others = one.places.items()
    first = f"{place} (from offset {offset} on)"
    holders = f"{first} and {counted(len(others), 'more partition')} hold" if others else f"{first} holds"
    bound = duration(one.bound_ms / 1000)
    what = f"more than {bound} ahead of now" if one.is_ahead else f"older than {bound}"
    halts = (
        "each partition halts at its first such record" if others else "the partition halts at the first one"
    )
    then = "`mmtool replicate` raises the limit" if facts.is_raised else halts
    doubt = (
        ""
        if one.is_certain
        else "; MirrorMaker 2 may have copied these records before they exceeded the limit"
    )
    refuses = f"{one.target_topic} on {facts.alias} refuses them ({one.key})"
    message = f"{holders} records {what}, and {refuses}: {then}{doubt}"
    say = problem if one.is_certain and not facts.is_raised else warning
    remedy = (
        "nothing to do"
        if facts.is_raised
        else f"set {facts.flow}.mmtool.on.timestamp.refused = raise-limit, and `mmtool replicate` raises the limit"
    )
    if not facts.is_raised and not one.is_reset:
        remedy += f"; or raise {one.key} of {one.target_topic} on {facts.alias} yourself"
    return say(Check.TIMESTAMPS, facts.alias, one.target_topic, message, remedy)


def _first(findings: Iterable[Finding]) -> list[Finding]:
    """Findings up to the row limit, problems first, and a row that counts the others."""
    found = sorted(findings, key=lambda finding: finding.severity != "problem")
    if len(found) <= _ROWS:
        return found
    rest = found[_ROWS:]
    named = few([one.subject for one in rest], 3)
    others = f"{counted(len(rest), 'more topic')} {have(len(rest))} such findings ({named})"
    message = f"{others}; the first: {rest[0].message}"
    return [*found[:_ROWS], found[_ROWS]._replace(subject="", message=message)]
