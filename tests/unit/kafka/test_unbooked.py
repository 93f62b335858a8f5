"""What a leader remembers of a writer tells how its log differs from what is booked."""

import pytest

from mmtool.kafka.state.flow_state import unbooked_of
from mmtool.kafka.wire.transactions import ProducerState
from mmtool.translation.blocks import WriterState
from mmtool.translation.types import UNKNOWN

LAST = (1 << 31) - 1


def remembers(epoch, last_sequence, producer_id=7):
    return ProducerState(producer_id, epoch, last_sequence, 0, -1, -1)


@pytest.mark.parametrize(
    ("writer", "states", "left"),
    [
        (WriterState(7, 3, 50), [remembers(3, 49)], 0),
        (WriterState(7, 3, 50), [remembers(3, 59), remembers(9, 1, 8)], 10),
        (WriterState(7, 3, 50), [remembers(3, 39)], -10),
        (WriterState(7, 3, 50), [remembers(2, 99)], -50),
        (WriterState(7, 3, 0), [remembers(2, 99)], 0),
        (WriterState(7, 3, LAST), [remembers(3, 1)], 3),
        (WriterState(7, 3, 2), [remembers(3, LAST)], -2),
        (WriterState(7, 3, 50), [remembers(4, 0)], UNKNOWN),
        (WriterState(7, 3, 50), [remembers(3, 49, 8)], UNKNOWN),
    ],
    ids=[
        "all is booked",
        "more is there than is booked",
        "less is there than is booked",
        "nothing is there of this claim",
        "nothing was written under this claim",
        "numbers that wrapped",
        "numbers that wrapped, and less is there",
        "somebody fenced it",
        "it is forgotten",
    ],
)
def test_a_leader_s_memory_tells_how_many_records_are_not_booked_or_gone(writer, states, left):
    assert unbooked_of(writer, states) == left
