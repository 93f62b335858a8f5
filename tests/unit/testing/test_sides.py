"""What the chaos suite takes from two clusters to be judged: all of it, or nothing is judged."""

import pytest

from kit.chaos import sides
from kit.chaos.anomalies import Kind, of_records
from kit.chaos.sides import Sides
from mmtool.errors import UnreachableError
from mmtool.lab.records import RecordMaker
from mmtool.lab.topics import Record
from mmtool.translation.types import TopicPartition

TOPIC, REMOTE = "orders", "source.orders"
AT = TopicPartition(TOPIC, 0)
MAKER = RecordMaker(100)


def written(*values):
    return [Record(0, at, 1000 + at, b"k%d" % at, value, (("h", b"1"),)) for at, value in enumerate(values)]


def made(*numbers):
    return written(*(MAKER.value(0, n) for n in numbers))


@pytest.fixture
def looked(monkeypatch):
    """What is found in a topic of one partition: records that are committed at home, aborted ones, and those there."""

    def looked(home, there, aborted=(), ends=None):
        held = {
            ("source", "read_committed"): home,
            ("source", "read_uncommitted"): [*home, *aborted],
            ("target", "read_uncommitted"): there,
        }
        found = {0: 9} if ends is None else ends
        monkeypatch.setattr(sides, "end_offsets", lambda *_, isolation: found)
        monkeypatch.setattr(sides, "read_topic", lambda at, _, isolation: held[at, isolation])
        return Sides("source", "target", {TOPIC: REMOTE}).logs()

    return looked


def kinds(logs):
    return [anomaly.kind for anomaly in of_records(logs[AT])]


def test_records_are_known_by_their_numbers_and_compared_in_all_they_have(looked):
    assert kinds(looked(made(0, 1, 2), made(0, 1, 2))) == []
    for change in ({"key": b"K"}, {"headers": ()}, {"timestamp_ms": 5}, {"value": MAKER.value(0, 1) + b" "}):
        first, second, third = made(0, 1, 2)
        other = Record(**{name: getattr(second, name) for name in Record.__slots__} | change)
        assert kinds(looked(made(0, 1, 2), [first, other, third])) == [Kind.MUTATED], change


def test_what_was_aborted_at_home_is_known_there(looked):
    assert kinds(looked(made(0, 1), made(0, 1, 7), aborted=made(7))) == [Kind.ABORTED_READ]


@pytest.mark.parametrize("value", [None, b"", b"somebody else's"])
def test_a_record_that_is_not_to_be_recognised_is_a_foreign_one_in_the_place_of_one_that_does_not_come(
    looked, value
):
    there = made(0, 1)
    there[1] = written(b"", value)[1]
    assert kinds(looked(made(0, 1), there)) == [Kind.UNSEEN, Kind.FOREIGN]


def test_of_a_source_that_does_not_say_where_it_ends_nothing_is_judged(looked):
    with pytest.raises(UnreachableError, match="nobody tells where orders ends"):
        looked([], [], ends={})
