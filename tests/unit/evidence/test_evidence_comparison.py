"""A comparison's page says how much was compared, and what differs."""

from datetime import UTC, datetime

import pytest

from mmtool.evidence.comparison import ComparisonRun, comparison_evidence
from mmtool.evidence.document import Tone
from mmtool.insight.verify.verdicts import ComparedRow, Difference, Findings, Mismatch
from mmtool.insight.verify.verification import Options, Verification
from mmtool.plan.records.identity import FlowIdentity
from mmtool.translation.types import ClusterId, TopicPartition

RUN = ComparisonRun("ann@host-1", 1_000, 5_500, [(2_000, "east->west: comparing 2 partitions")])
FLOW = FlowIdentity(ClusterId("east-id"), ClusterId("west-id"), "east", "west")


def row(number, *kinds, lag=0, problem=""):
    found = Findings(compared=100)
    for kind in kinds:
        found.add(Difference(kind, 5, 5))
    place = TopicPartition("orders", number)
    return ComparedRow("east", "west", place, TopicPartition("east.orders", number), found, lag, problem)


def told(*rows, options=Options()):  # noqa: B008 - it is frozen
    return comparison_evidence(Verification([FLOW], list(rows)), options, RUN)


def facts(evidence):
    return {fact.key: fact.value for fact in (*evidence.summary, *evidence.figures)}


def test_figures_are_the_sums_of_the_rows():
    found = facts(told(row(0), row(1, Mismatch.VALUE, Mismatch.FOREIGN, lag=7)))
    assert (found["partitions"], found["identical"], found["different"]) == (2, 1, 1)
    assert (found["records_compared"], found["mutated"], found["foreign"], found["lag_records"]) == (
        200,
        1,
        1,
        7,
    )
    assert (found["seconds"], found["by"], found["source_id"]) == (4.5, "ann@host-1", "east-id")


def test_a_lag_that_is_not_known_makes_no_sum():
    assert facts(told(row(0, lag=None), row(1)))["lag_records"] is None


@pytest.mark.parametrize(
    ("rows", "word", "tone"),
    [
        ([row(0)], "identical", Tone.GOOD),
        ([row(0), row(1, Mismatch.KEY), row(2, problem="no leader")], "different", Tone.BAD),
        ([row(0), row(1, problem="no leader")], "incomplete", Tone.OPEN),
    ],
)
def test_the_verdict_is_that_of_the_worst_partition(rows, word, tone):
    verdict = told(*rows).verdict
    assert (verdict.word, verdict.tone) == (word, tone)


@pytest.mark.parametrize(
    ("options", "key", "words"),
    [
        (Options(sample=0.05), "sample", "5%, in ranges chosen at random"),
        (Options(since="last"), "since", "the point up to which the last run found both sides the same"),
        (
            Options(since=datetime(2026, 1, 31, tzinfo=UTC)),
            "since",
            "records from 2026-01-31T00:00:00+00:00 on",
        ),
    ],
)
def test_a_part_of_the_records_is_never_called_the_whole(options, key, words):
    evidence = told(row(0), options=options)
    assert facts(evidence)[key] == words
    assert evidence.verdict.sentence == "no difference in 1 partition in the part that was compared"


def test_the_timeline_has_what_was_said_on_the_way():
    events = [(moment.at_ms, moment.event) for moment in told(row(0)).timeline]
    assert events == [
        (1_000, "comparison began"),
        (2_000, "east->west: comparing 2 partitions"),
        (5_500, "comparison ended"),
    ]
