"""Every anomaly is named where there is one, and nothing is named where there is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.chaos.anomalies import BothLogs, Committed, Kind, Seen, of_group, of_records
from mmtool.translation.types import UNKNOWN, TopicPartition

AT = TopicPartition("orders", 1)


def log(*identities, first=0, content=str):
    return [Seen(first + place, one, content(one)) for place, one in enumerate(identities)]


def found(source, target, *, aborted=(), claimed=UNKNOWN):
    return [(a.kind, a.offset) for a in of_records(BothLogs(AT, source, frozenset(aborted), target, claimed))]


@given(st.lists(st.integers(), unique=True), st.integers(0, 5))
def test_a_faithful_mirror_has_none_wherever_its_offsets_are(identities, shift):
    assert found(log(*identities), log(*identities, first=shift)) == []


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param(log("a", "c"), [(Kind.UNSEEN, 1)], id="one does not come"),
        pytest.param(log("a", "b", "b", "c"), [(Kind.DUPLICATE, 1)], id="one comes twice"),
        pytest.param(log("a", "c", "b"), [(Kind.REORDER, 1)], id="one comes behind its successor"),
        pytest.param(log("a", "b", "c", "x"), [(Kind.FOREIGN, 3)], id="one that was born elsewhere"),
        pytest.param(log("a", "b", "c", "no"), [(Kind.ABORTED_READ, 3)], id="one that was aborted"),
        pytest.param([*log("a", "b"), Seen(2, "c", "C")], [(Kind.MUTATED, 2)], id="one with other bytes"),
    ],
)
def test_each_anomaly_has_its_name_and_its_place(target, expected):
    assert found(log("a", "b", "c"), target, aborted=["no"]) == expected


def test_what_the_mirror_claims_to_have_brought_is_lost_and_the_rest_is_not_seen_yet():
    assert found(log("a", "b", "c"), log("a"), claimed=2) == [(Kind.LOST, 1), (Kind.UNSEEN, 2)]


def test_a_duplicate_far_behind_is_no_reorder():
    assert found(log("a", "b", "c"), log("a", "b", "c", "a")) == [(Kind.DUPLICATE, 0)]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param([(3, 3, 9), (5, 7, 9)], [], id="behind or level"),
        pytest.param([(4, 3, 9)], [Kind.GROUP_SKIP], id="ahead of what was read"),
        pytest.param([(4, 4, 9), (3, 4, 9)], [Kind.GROUP_REWIND], id="back"),
        pytest.param([(9, 9, 8)], [Kind.NEGATIVE_LAG], id="past the end"),
    ],
)
def test_a_group_is_never_ahead_never_back_and_never_past_the_end(seen, expected):
    assert [anomaly.kind for anomaly in of_group(AT, [Committed(*one) for one in seen])] == expected


def test_an_anomaly_says_what_and_where():
    (one,) = of_records(BothLogs(AT, log("a"), frozenset(), []))
    assert str(one) == "unseen orders-1@0"
