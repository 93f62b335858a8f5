"""An offset map as a program uses it: whole columns, of many partitions at once."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.pairs import HERE, THERE, pairs
from kit.runs import ModelMirror, Slot, mirrors
from mmtool.translation import Answers, Exact, OffsetMap, Reason, Refused, TopicPartition
from mmtool.translation.blocks import MirrorStart
from mmtool.translation.offset_map import MappedPartition
from mmtool.translation.translate import translate, translate_in_pair
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

ORDERS = [TopicPartition("orders", n) for n in range(2)]
SHARED, NEVER = TopicPartition("shared", 0), TopicPartition("never", 0)
ELSEWHERE = [TopicPartition("orders", 7), TopicPartition("unheard", 0)]


@st.composite
def lives(draw):
    """Two partitions with one producer side, one with both, one that was never mirrored."""
    ours, pair = [draw(mirrors()) for _ in ORDERS], draw(pairs())
    known = {
        place: MappedPartition(mirror.partition_map(), mirror.target_log(), mirror.source_log())
        for place, mirror in zip(ORDERS, ours, strict=True)
    }
    known[SHARED] = MappedPartition(pair.map(HERE), pair.target_log(), pair.source_log(), pair.map(THERE))
    known[NEVER] = Refused(Reason.NEVER_RAN)
    return known


def scalar(known, place, offset):
    """The answer of the functions that a failover is planned with."""
    mirror = known.get(place)
    if offset < 0:
        return Refused(Reason.NO_COMMIT)
    if mirror is None:
        return Refused(Reason.BEYOND_SOURCE_END if place.topic == "orders" else Reason.NOT_MIRRORED)
    if isinstance(mirror, Refused):
        return mirror
    bounds = {"target": mirror.target, "source": mirror.source}
    if mirror.back is None:
        return translate(mirror.map, offset, **bounds)
    return translate_in_pair(mirror.map, mirror.back, offset, **bounds)


@given(lives(), st.randoms(use_true_random=False))
def test_in_any_order_of_partitions_every_offset_is_translated_as_a_commit_is(known, random):
    rows = [(place, offset) for place in [*known, *ELSEWHERE] for offset in range(-2, 70)]
    random.shuffle(rows)
    answers = OffsetMap(known).translate_many(
        [place.topic for place, _ in rows], [place.partition for place, _ in rows], [at for _, at in rows]
    )
    assert list(answers) == [scalar(known, *row) for row in rows]


@given(lives())
def test_the_columns_say_what_the_answers_say(known):
    rows = [(place, offset) for place in [*known, *ELSEWHERE] for offset in range(70)]
    topics, partitions, offsets = zip(*((*place, offset) for place, offset in rows), strict=True)
    answers = OffsetMap(known).translate_many(topics, partitions, offsets)
    assert rows_of(answers) == [row_of(answer) for answer in answers]


def rows_of(answers: Answers):
    columns = (answers.downstream_offset, answers.exactness, answers.reread_max, answers.reason)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def row_of(answer):
    if isinstance(answer, Refused):
        return None, "refused", None, answer.reason.value
    if isinstance(answer, Exact):
        return answer.offset, "exact", 0, None
    return answer.offset, "bounded", answer.reread_max, None


@given(lives())
def test_a_pickled_map_translates_as_before(known):
    columns = ["orders"] * 70, [1] * 70, range(70)
    made = OffsetMap(known)
    copied = pickle.loads(pickle.dumps(made))  # noqa: S301 - our own bytes
    assert list(copied.translate_many(*columns)) == list(made.translate_many(*columns))
    assert copied.partitions == made.partitions


@pytest.fixture
def small():
    """Ten records of ``orders``, which are 100 to 109 on the target."""
    mirror = ModelMirror([Slot.RECORD] * 10, MirrorStart(UpstreamOffset(0), DownstreamOffset(100)))
    mirror.ship(10)
    return OffsetMap(
        {ORDERS[0]: MappedPartition(mirror.partition_map(), mirror.target_log(), mirror.source_log())}
    )


def test_a_masked_offset_has_no_translation_and_a_reason(small):
    column = np.ma.masked_array([4, 4], [False, True])
    answers = small.translate_many(["orders", "orders"], [0, 0], column)
    assert rows_of(answers) == [(104, "exact", 0, None), (None, "refused", None, "no_commit")]


def test_columns_may_be_empty(small):
    assert list(small.translate_many([], [], [])) == []


@pytest.mark.parametrize("narrow", [np.int8, np.int32, np.uint32])
def test_offsets_may_be_integers_of_any_width(small, narrow):
    assert list(small.translate_many(["orders"], [0], np.array([4], narrow))) == [Exact(104)]


@pytest.mark.parametrize("column", [[4.0], ["4"], np.array([4], np.uint64), [None]])
def test_what_is_no_integer_of_64_bits_is_not_taken_for_an_offset(small, column):
    with pytest.raises(TypeError, match=r"^offsets must be integers of at most 64 bits, not "):
        small.translate_many(["orders"], [0], column)


@pytest.mark.parametrize(
    "columns", [(["orders"], [0, 0], [4]), (["orders"], [0], []), (["orders"], [[0]], [4])]
)
def test_columns_of_different_lengths_are_refused(small, columns):
    with pytest.raises(ValueError, match=r"^three columns of one length are needed: topics has 1 elements"):
        small.translate_many(*columns)


def test_a_map_shows_its_size_and_says_what_mirrors_what(small):
    assert (repr(small), small.partitions) == ("OffsetMap(1 partitions, 1 runs)", (ORDERS[0],))
    assert small.target_topics == {"orders.payments": "east.orders.payments"}
