"""The evidence page of a comparison: a verdict for each partition, and how many records were compared."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mmtool.evidence.document import Evidence, Fact, Moment, PageKind, PageVerdict, Tone
from mmtool.output.values import plain_row
from mmtool.plan.words import are, counted, few, moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mmtool.insight.verify.verification import Options, Verification

_NAMED = 10
_SUMS = (
    ("records_compared", "records compared"),
    ("missing", "missing: on the source and not on the target"),
    ("duplicated", "duplicated: more than once on the target"),
    ("reordered", "reordered: in another order than on the source"),
    ("mutated", "mutated: with another key, value, header or timestamp"),
    ("foreign", "foreign: on the target and not on the source"),
    ("mapping", "mapping: mmtool's stored offset map leads to another record"),
    ("lag_records", "lag: source offsets after the compared range"),
)


@dataclass(frozen=True, slots=True)
class ComparisonRun:
    """The operator, times and messages of a comparison.

    Attributes:
        by: ``user@host``.
        began_ms, ended_ms: Since 1970.
        said: The messages during the run: time in ms, sentence.
    """

    by: str
    began_ms: int
    ended_ms: int
    said: Sequence[tuple[int, str]] = ()


def comparison_evidence(
    found: Verification, options: Options, run: ComparisonRun, environment: Sequence[Fact] = ()
) -> Evidence:
    """The evidence of a comparison, for its page.

    Args:
        found: The comparison's result.
        options: The options of `mmtool verify`.
        run: The operator and the times of the comparison.
        environment: Host and versions.
    """
    rows = [plain_row(row) for row in found.documents()]
    flows = [f"{flow.source_alias}->{flow.target_alias}" for flow in found.flows]
    return Evidence(
        PageKind.VERIFY,
        f"Comparison of source and target {few(flows)}",
        _verdict(rows, options),
        tuple(_summary(found, options, run, flows)),
        tuple(_figures(rows, found, run)),
        (
            Moment(run.began_ms, run.by, "comparison began"),
            *(Moment(at_ms, run.by, sentence) for at_ms, sentence in run.said),
            Moment(run.ended_ms, run.by, "comparison ended", counted(len(rows), "partition")),
        ),
        rows,
        tuple(found.warnings),
        environment,
    )


def _verdict(rows: Sequence[Mapping[str, Any]], options: Options) -> PageVerdict:
    verdicts = Counter(row["verdict"] for row in rows)
    part = "" if options.is_whole else " in the part that was compared"
    if verdicts["different"]:
        wrong = verdicts["different"] + verdicts["incomplete"]
        return PageVerdict("different", Tone.BAD, f"{_of_all(wrong, rows)} not identical")
    if unfinished := verdicts["incomplete"]:
        return PageVerdict(
            "incomplete",
            Tone.OPEN,
            f"{_of_all(unfinished, rows)} not completely compared, or not completely on the target yet",
        )
    return PageVerdict("identical", Tone.GOOD, f"no difference in {counted(len(rows), 'partition')}{part}")


def _of_all(number: int, rows: Sequence[object]) -> str:
    """The subject and verb of a sentence about a number of the compared partitions."""
    if len(rows) == 1:
        return "the partition is"
    return f"{number} of {counted(len(rows), 'partition')} {are(number)}"


def _summary(
    found: Verification, options: Options, run: ComparisonRun, flows: Sequence[str]
) -> Iterator[Fact]:
    yield Fact("flows", "flows", few(flows, _NAMED))
    yield Fact("topics", "topics", few(options.topics, _NAMED) or "all topics of the flow")
    yield Fact("since", "compared from", options.since_words)
    yield Fact("sample", "compared records", options.sample_words)
    yield Fact(
        "transactions",
        "transactions that are only partly on the target",
        "checked" if options.transactions else "not checked",
    )
    yield Fact("by", "done by", run.by)
    yield Fact("began_at", "began", moment(run.began_ms))
    yield Fact("ended_at", "ended", moment(run.ended_ms))
    for flow in found.flows:
        yield Fact("source_id", f"cluster id of {flow.source_alias}", flow.source_id)
        yield Fact("target_id", f"cluster id of {flow.target_alias}", flow.target_id)


def _figures(rows: Sequence[Mapping[str, Any]], found: Verification, run: ComparisonRun) -> Iterator[Fact]:
    verdicts = Counter(row["verdict"] for row in rows)
    yield Fact("partitions", "partitions", len(rows))
    for word in ("identical", "different", "incomplete"):
        yield Fact(word, f"partitions {word}", verdicts[word])
    for key, name in _SUMS:
        yield Fact(key, name, _sum([row[key] for row in rows]))
    if found.halves:
        halves = sum(map(len, found.halves.values()))
        yield Fact("half_mirrored", "transactions that are only partly on the target", halves)
    yield Fact("seconds", "duration", round((run.ended_ms - run.began_ms) / 1000, 1), "s")


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None
