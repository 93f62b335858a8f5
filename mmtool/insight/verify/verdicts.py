"""The findings of a comparison by kind, and the verdict on each compared partition: the contract's rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, NotRequired, Self, TypedDict

from mmtool.errors import DifferencesError
from mmtool.plan.failover.half_transactions import HalfTransactionRow
from mmtool.plan.flow.moves import by_other_system
from mmtool.plan.records.documents import OffsetKind
from mmtool.plan.words import are, counted, joined, then
from mmtool.translation.names import DEAD_LETTER_SUFFIX
from mmtool.translation.types import TopicPartition


class Mismatch(StrEnum):
    """How a record differs (the contract's words)."""

    MISSING = "missing"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"
    TIMESTAMP = "timestamp"
    MAPPING = "mapping"
    FOREIGN = "foreign"


MUTATED = frozenset({Mismatch.KEY, Mismatch.VALUE, Mismatch.HEADERS, Mismatch.TIMESTAMP})
"""Kinds of a record that is there on both sides, and not the same."""


class DifferenceRow(TypedDict):
    """The first difference of a partition in `mmtool verify`.

    Attributes:
        kind: How the record differs.
        upstream_offset: The record's offset on the source; if only the target has the record, or has it twice, the
            offset of the next record on the source.
        downstream_offset: The record's offset on the target; if the target does not have the record, the offset of the
            next record on the target.
    """

    kind: Mismatch
    upstream_offset: int
    downstream_offset: int


class Difference(NamedTuple):
    """One record that is not equal on both sides.

    Attributes:
        kind: How it differs.
        upstream_offset: On the source. Of a foreign record, and of a duplicate's second copy: the source's next record.
        downstream_offset: On the target. Of a missing record: the target's next record.
        print: A fingerprint of the record, equal for equal records; of a mutated one the source's.
    """

    kind: Mismatch
    upstream_offset: int
    downstream_offset: int
    print: int = 0

    def document(self) -> DifferenceRow:
        """The contract's ``first_difference``."""
        return {
            "kind": self.kind,
            "upstream_offset": self.upstream_offset,
            "downstream_offset": self.downstream_offset,
        }


KEPT = 1_000
"""Differences of one range that are kept one by one; more are only counted."""


@dataclass(slots=True)
class Findings:
    """The differences in one range, or in several.

    Attributes:
        compared: Records of the source that were compared.
        counts: How many differences there are of each kind.
        differences: The first of them, by their offsets on the target.
        in_gaps: Records that the flow skipped because an operator chose so.
        letters: Records that are among the mirror's dead letters instead.
        ends_early: The last difference is that records are missing at the end of the mirror.
    """

    compared: int = 0
    counts: dict[Mismatch, int] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    in_gaps: int = 0
    letters: int = 0
    ends_early: bool = False

    def add(self, difference: Difference) -> None:
        """Count one; keep it as long as there is room."""
        self.counts[difference.kind] = self.counts.get(difference.kind, 0) + 1
        if len(self.differences) < KEPT:
            self.differences.append(difference)

    def count(self, *kinds: Mismatch) -> int:
        """How many differences of these kinds there are."""
        return sum(self.counts.get(kind, 0) for kind in kinds)

    @property
    def first(self) -> Difference | None:
        """The first difference by its place on the target, then on the source; None where both sides are the same."""
        return min(self.differences, key=_place, default=None)

    @classmethod
    def joined(cls, parts: Iterable[Findings]) -> Self:
        """Ranges of one partition as one: a record missing in one and extra in another has moved."""
        whole = cls()
        found: list[Difference] = []
        for part in parts:
            whole.compared += part.compared
            whole.in_gaps += part.in_gaps
            whole.letters += part.letters
            found += part.differences
            whole.ends_early |= part.ends_early
            for kind, count in part.counts.items():
                whole.counts[kind] = whole.counts.get(kind, 0) + count
        whole.differences = _moved(sorted(found, key=_place), whole.counts)
        return whole


def _place(difference: Difference) -> tuple[int, int]:
    return difference.downstream_offset, difference.upstream_offset


def _moved(found: list[Difference], counts: dict[Mismatch, int]) -> list[Difference]:
    """With each missing record that is foreign elsewhere as one that is reordered."""
    extra = {d.print: at for at, d in enumerate(found) if d.kind is Mismatch.FOREIGN}
    gone: set[int] = set()
    for at, difference in enumerate(found):
        there = extra.pop(difference.print, None) if difference.kind is Mismatch.MISSING else None
        if there is None:
            continue
        found[there] = Difference(
            Mismatch.REORDERED, difference.upstream_offset, found[there].downstream_offset, difference.print
        )
        gone.add(at)
    if gone:
        for kind, change in (
            (Mismatch.MISSING, -len(gone)),
            (Mismatch.FOREIGN, -len(gone)),
            (Mismatch.REORDERED, len(gone)),
        ):
            counts[kind] = counts.get(kind, 0) + change
    return [difference for at, difference in enumerate(found) if at not in gone]


class Verdict(StrEnum):
    """The verdicts on a partition's mirror (the contract's words)."""

    IDENTICAL = "identical"
    DIFFERENT = "different"
    INCOMPLETE = "incomplete"


class ComparisonRow(TypedDict):
    """One partition in `mmtool verify`.

    Attributes:
        topic: Its name on the source.
        partition: Its number.
        verdict: Whether the mirror equals the source.
        records_compared: Records of the source that were compared.
        missing: Records of the source that the target does not have.
        duplicated: Records that the target has more than once.
        reordered: Records in another order than on the source.
        mutated: Records with another key, value, header or timestamp.
        first_difference: The first record that is not equal; null without one.
        lag_records: Offsets of the source that were not mirrored when the comparison began; null if unknown.
        source: The alias of the flow's source.
        target: The alias of the flow's target.
        target_topic: The topic's name on the target.
        foreign: Records on the target that the source does not have.
        mapping: Records for which the stored offset runs give a wrong offset on the target.
        reason: One sentence; empty where the verdict says all.
        offsets: Whether mirrored records have their source's offsets on the target.
        half_mirrored: With --transactions: transactions of which a part is missing on the target.
    """

    topic: str
    partition: int
    verdict: Verdict
    records_compared: int
    missing: int
    duplicated: int
    reordered: int
    mutated: int
    first_difference: DifferenceRow | None
    lag_records: int | None
    source: str
    target: str
    target_topic: str
    foreign: int
    mapping: int
    reason: str
    offsets: OffsetKind
    half_mirrored: NotRequired[list[HalfTransactionRow]]


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One partition of the source and its findings.

    Attributes:
        source_alias, target_alias: The flow's clusters.
        place: On the source.
        target: On the target.
        findings: Of all its ranges.
        lag_records: Offsets of the source that were not mirrored when the comparison began; None where that is unknown.
        problem: Why it was not compared, or not completely; empty where it was.
        is_by_mm2: MirrorMaker 2 runs the flow.
        cure: What to do about ``problem`` or ``stop`` before the partition is compared again.
        stop: Why the flow mirrors no more records of the partition; empty where it does.
        is_external: Another system keeps the mirror.
        is_shared: The target's topic also holds records that were produced on the target: the reverse flow mirrors it
            under the same name.
        offsets: Whether mirrored records have their source's offsets on the target.
        version: By which version of a transform the records were mirrored that could not be compared; empty where that
            is not the reason.
        function: The operator's own one that changes records; empty where none does.
    """

    source_alias: str
    target_alias: str
    place: TopicPartition
    target: TopicPartition
    findings: Findings
    lag_records: int | None
    problem: str = ""
    is_by_mm2: bool = False
    cure: str = ""
    is_shared: bool = False
    stop: str = ""
    offsets: OffsetKind = OffsetKind.TRANSLATED
    is_external: bool = False
    version: str = ""
    function: str = ""

    @property
    def verdict(self) -> Verdict:
        """``incomplete`` where nothing is wrong but that records are missing from the mirror's end."""
        kinds = {kind for kind, count in self.findings.counts.items() if count}
        ends = {difference.downstream_offset for difference in self.findings.differences}
        misses_tail_alone = len(ends) == 1 and self.findings.ends_early
        if kinds - {Mismatch.MISSING} or (kinds and not misses_tail_alone):
            return Verdict.DIFFERENT
        return Verdict.INCOMPLETE if kinds or self.problem else Verdict.IDENTICAL

    @property
    def reason(self) -> str:
        """One sentence; empty where the verdict says all."""
        if self.problem:
            return self.problem
        first = self.findings.first
        if first is None and not self.findings.compared:
            return "no record to compare"
        if first is None:
            letters, gaps = self.findings.letters, self.findings.in_gaps
            topic = f"{self.target.topic}{DEAD_LETTER_SUFFIX}"
            return joined(
                f"{counted(letters, 'record')} {are(letters)} in {topic} instead" if letters else "",
                f"an operator skipped {counted(gaps, 'record')}" if gaps else "",
            )
        if self.stop and self.verdict is Verdict.INCOMPLETE:
            missing = counted(self.findings.count(Mismatch.MISSING), "record")
            return f"{self.target_alias} lacks {missing} from offset {first.upstream_offset} on: {self.stop}"
        is_shifted = self.is_external and first.kind is Mismatch.MAPPING
        said = (_SHIFTED if is_shifted else _SENTENCES[first.kind]).format(
            source=self.source_alias,
            target=self.target_alias,
            here=f"offset {first.upstream_offset} on {self.source_alias}",
            there=f"offset {first.downstream_offset} on {self.target_alias}",
        )
        return f"first difference: {said}"

    @property
    def remedy(self) -> str:
        """What to do about the first difference, or about what kept the partition from being compared."""
        first = self.findings.first
        flow = f"-c FILE -s {self.source_alias} -t {self.target_alias} --topic {self.place.topic}"
        incomplete = self.verdict is Verdict.INCOMPLETE
        if self.version:
            return _OTHER_VERSION.format(flow=flow, version=self.version)
        if self.problem or first is None or (incomplete and self.cure):
            again = f"run `mmtool verify {flow}` again"
            return then(self.cure, again) if self.cure else again
        again = _SHARED if self.is_shared and not self.is_external else _AGAIN
        template = _INCOMPLETE if incomplete else _REMEDIES.get(first.kind, again)
        if self.is_external and (incomplete or first.kind is Mismatch.MAPPING):
            template = _INCOMPLETE_EXTERNAL if incomplete else _AGAIN
        if self.is_shared and template is _REMEDIES[Mismatch.DUPLICATED]:
            template = _SHARED_DUPLICATED
        named = {
            "topic": self.place.topic,
            "mirror": self.target.topic,
            "source": self.source_alias,
            "target": self.target_alias,
            "flow": flow,
        }
        steps = (_BY_MM2 if self.is_by_mm2 else _BY_MMTOOL).format(**named)
        if self.is_external:
            steps = by_other_system(self.place.topic, self.target_alias)
        found = template.format(place=self.place, steps=steps, **named)
        return (
            _CHANGING.format(function=self.function, then=found)
            if self.function and not incomplete
            else found
        )

    def document(self) -> ComparisonRow:
        """The contract's row."""
        found, first = self.findings, self.findings.first
        return {
            "topic": self.place.topic,
            "partition": self.place.partition,
            "verdict": self.verdict,
            "records_compared": found.compared,
            "missing": found.count(Mismatch.MISSING),
            "duplicated": found.count(Mismatch.DUPLICATED),
            "reordered": found.count(Mismatch.REORDERED),
            "mutated": found.count(*MUTATED),
            "first_difference": None if first is None else first.document(),
            "lag_records": self.lag_records,
            "source": self.source_alias,
            "target": self.target_alias,
            "target_topic": self.target.topic,
            "foreign": found.count(Mismatch.FOREIGN),
            "mapping": found.count(Mismatch.MAPPING),
            "reason": self.reason,
            "offsets": self.offsets,
        }


_SENTENCES = {
    Mismatch.MISSING: "{target} does not have the record at {here} (its place is before {there})",
    Mismatch.DUPLICATED: "{target} has a record twice (one copy is at {there}, before the copy of {here})",
    Mismatch.REORDERED: "a record has another place in the order on {target} ({here}, {there})",
    Mismatch.KEY: "a record has another key ({here}, {there})",
    Mismatch.VALUE: "a record has another value ({here}, {there})",
    Mismatch.HEADERS: "a record has other headers ({here}, {there})",
    Mismatch.TIMESTAMP: "a record has another timestamp ({here}, {there})",
    Mismatch.MAPPING: "mmtool's stored offset map leads from {here} to {there}, but the copy is at another offset",
    Mismatch.FOREIGN: "{target} has a record that {source} does not have ({there}, before the copy of {here})",
}
_SHIFTED = "the mirror has other offsets than its source: the record at {here} is not at {there}"

_INCOMPLETE = (
    "start the flow if it does not run; `mmtool status -c FILE --topic {topic}` shows why {place} is not mirrored"
    " further; then run `mmtool verify {flow}` again"
)
_INCOMPLETE_EXTERNAL = (
    "let the system that keeps the mirrors (mmtool.mirror = external) catch up; then run `mmtool verify {flow}`"
    " again"
)
_OTHER_VERSION = (
    "`mmtool verify {flow} --since TIME`, with a time after the change, compares the records of now; for the earlier"
    " ones run it with a copy of FILE and of the code as they were for {version}"
)
_CHANGING = (
    "check that {function} always makes the same of a record (no clock, no random number, nothing from outside): else"
    " these are no differences; if it does, {then}"
)
_AGAIN = "replace the mirror: {steps}"
_SHARED = (
    "do not delete {mirror} on {target}: it also holds records that were produced on {target}; stop `mmtool replicate`,"
    " run `mmtool flow forget {flow} --execute`, and start `mmtool replicate` with mmtool.start = earliest: it appends"
    " the records that were produced on {source} to {mirror} again, after the earlier copies"
)
_SHARED_DUPLICATED = (
    "nothing to do if the consumers on {target} accept a record twice; otherwise let them skip the second one: do not"
    " delete {mirror} on {target}, which also holds records that were produced on {target}"
)
_REMEDIES = {
    Mismatch.DUPLICATED: "nothing to do if the consumers on {target} accept a record twice (with --since TIME, verify"
    " compares later records only); otherwise replace the mirror: {steps}",
    Mismatch.FOREIGN: "nothing to do if the producers of {topic} have moved to {target}; otherwise stop the producer"
    " that writes to {mirror} on {target}, and replace the mirror: {steps}",
    Mismatch.MAPPING: "stop `mmtool replicate`, run `mmtool flow rebuild {flow} --execute`, and start `mmtool"
    " replicate`",
}
"""By the kind of the first difference; any other kind: `_AGAIN`."""
_BY_MMTOOL = (
    "stop `mmtool replicate` and the consumers of {mirror} on {target}, delete {mirror} on {target}, run `mmtool flow"
    " forget {flow} --execute`, start `mmtool replicate` with mmtool.start = earliest, and start the consumers"
)
_BY_MM2 = (
    "stop MirrorMaker 2 and the consumers of {mirror} on {target}, delete {mirror} on {target} and MirrorMaker 2's"
    " stored offsets of {topic}, and start MirrorMaker 2 and the consumers"
)
"""How a topic is mirrored again from the source."""


_SEVERITY = (Verdict.DIFFERENT, Verdict.INCOMPLETE, Verdict.IDENTICAL)


def severity(document: Mapping[str, object]) -> int:
    """The sort key of a row that brings differences first, and what is identical last."""
    return _SEVERITY.index(Verdict(str(document["verdict"])))


def gate(rows: Sequence[ComparedRow]) -> DifferencesError | None:
    """What ends the command with 8; None where all is identical."""
    wrong = [row for row in rows if row.verdict is not Verdict.IDENTICAL]
    if not wrong:
        return None
    worst = min(wrong, key=lambda row: row.verdict is not Verdict.DIFFERENT)
    of = f"{len(wrong)} of {counted(len(rows), 'partition')} {are(len(wrong))} not identical; "
    return DifferencesError(
        f"{of if len(rows) > 1 else ''}{worst.place}: {worst.reason or worst.verdict}", remedy=worst.remedy
    )
