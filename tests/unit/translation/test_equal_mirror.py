"""Mirrors that another system keeps: equal offsets as a map, and what proves that the records are the source's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.plan.groups.facts import Commit
from mmtool.plan.groups.offsets import Direction, PartitionFacts, Rules, answer_of
from mmtool.plan.records.marks import VerifiedRecord
from mmtool.translation.answers import Bounded, Exact, Reason, Refused, Skipping, SourceLog, TargetLog
from mmtool.translation.blocks import MirroredPartition
from mmtool.translation.equal_mirror import equal_map, proves
from mmtool.translation.lockstep import Seen
from mmtool.translation.types import UNKNOWN, DownstreamOffset, TopicPartition

ABOUT = MirroredPartition("S", "T", "source-id", 0, "orders", "east.orders", "target-id")
FORWARD = Rules(Direction.FORWARD)


@st.composite
def logs(draw):
    """The records of a log with holes, each with a content and a time."""
    offsets = sorted(draw(st.sets(st.integers(0, 30), min_size=1, max_size=12)))
    times = st.one_of(st.integers(0, 3), st.just(UNKNOWN))
    return [Seen(at, draw(st.binary(min_size=1, max_size=2)), draw(times)) for at in offsets]


@given(logs())
def test_the_same_records_at_the_same_offsets_prove_an_offset_whatever_holes_both_logs_have(log):
    untimed = [one._replace(timestamp_ms=UNKNOWN) for one in log]
    assert (proves(log, list(log)), proves(log, untimed)) == (True, True)


@given(logs(), st.integers(1, 3), st.data())
def test_a_shift_a_missing_record_and_another_content_or_time_prove_nothing(log, shift, data):
    at = data.draw(st.integers(0, len(log) - 1))
    other = log[at]._replace(digest=log[at].digest + b"x")
    later = log[at]._replace(
        timestamp_ms=log[at].timestamp_ms + 1 if log[at].timestamp_ms is not UNKNOWN else 0
    )
    mirrors = [
        [one._replace(offset=one.offset + shift) for one in log],
        [*log[:at], *log[at + 1 :]],
        [*log[:at], other, *log[at + 1 :]],
        *([[*log[:at], later, *log[at + 1 :]]] if log[at].timestamp_ms is not UNKNOWN else []),
    ]
    assert not any(proves(log, mirror) or proves(mirror, log) for mirror in mirrors)


def test_nothing_is_proven_without_a_record():
    assert not proves([], [])


def facts(end, start=0, verified=range(0), **more):
    return PartitionFacts(
        TopicPartition("orders", 0),
        TopicPartition("east.orders", 0),
        equal_map(ABOUT, DownstreamOffset(end)),
        SourceLog(start, end + 50),
        TargetLog(start, end),
        verified=verified,
        **more,
    )


@given(st.integers(0, 20), st.integers(0, 30), st.integers(0, 25), st.sets(st.integers(0, 30)))
def test_an_offset_is_exact_only_where_it_was_verified_or_compared(start, length, commit, compared):
    end, verified = start + length, range(start + 1, start + length // 2)
    known = facts(end, start, verified, compared=compared)
    answer, _ = answer_of(known, Commit(commit), FORWARD)
    anyway, _ = answer_of(replace(known, accepts_unverified=True), Commit(commit), FORWARD)
    if commit > end:
        expected = accepted = Refused(Reason.BEYOND_MIRROR)
    elif commit < start:
        expected = accepted = Refused(Reason.TARGET_LOG_START_PASSED)
    elif commit in verified or commit in compared:
        expected = accepted = Exact(commit)
    else:
        expected, accepted = Refused(Reason.MIRROR_NOT_VERIFIED), Bounded(commit, UNKNOWN)
    assert (answer, anyway) == (expected, accepted)


def test_at_the_end_of_two_logs_without_a_record_there_is_nothing_to_verify():
    empty = replace(facts(7, 7), source_log=SourceLog(7, 7))
    assert answer_of(empty, Commit(7), FORWARD)[0] == Exact(7)
    assert answer_of(facts(7, 7), Commit(7), FORWARD)[0] == Refused(Reason.MIRROR_NOT_VERIFIED)


def test_an_accepted_offset_still_says_what_is_skipped():
    known = facts(9, 5, accepts_unverified=True)
    assert answer_of(known, Commit(3), Rules(allow_skip=True))[0] == Skipping(5, 2)


VERIFIED = VerifiedRecord("orders", "source-id", "target-id", 0, 90, 90, "me", 1, start=10)


@pytest.mark.parametrize(
    ("record", "target", "offsets"),
    [
        (VERIFIED, "target-id", range(10, 91)),
        (VERIFIED, "recreated", range(0)),
        (replace(VERIFIED, downstream=91), "target-id", range(0)),
        (replace(VERIFIED, start=90), "target-id", range(0)),
        (replace(VERIFIED, start=None), "target-id", range(0)),
    ],
    ids=["both topics", "another target topic", "shifted", "nothing compared", "of an older mmtool"],
)
def test_a_stored_verify_counts_for_its_two_topics_and_the_offsets_it_has_compared(record, target, offsets):
    assert VerifiedRecord.decode(record.encode()).offsets(target) == offsets
