"""The leaders and ends of logs: what a source is asked whether it still holds, and where logs at rest end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.batches import PlainRecord, batch_of, data, marker
from kit.mirror import TARGET_ID, FakeLog, assigned, fetched, mirror_of, mirrored, settle
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.fetch import Diverging
from mmtool.kafka.wire.metadata import ListedOffset
from mmtool.plan.records.documents import State
from mmtool.replication.pump.log_changes import LeaderEpochs
from mmtool.replication.pump.log_watch import TargetEnds
from mmtool.translation.recorder import MapRecorder
from mmtool.translation.types import UNKNOWN, UpstreamOffset


def of_epoch(epoch, offset, count=1):
    records = [PlainRecord(at, 1000 + at, b"k%d" % at, b"v%d" % at) for at in range(offset, offset + count)]
    return replace(batch_of(records), leader_epoch=epoch).write()


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 1)), max_size=30), st.data())
def test_a_the_epoch_of_a_position_is_that_of_the_batch_right_below_it(batches, drawn):
    """Also in the middle of one: what is too large for the target goes in pieces."""
    epochs, below, at, epoch = LeaderEpochs(UpstreamOffset(0), UNKNOWN), {0: UNKNOWN}, 0, 3
    for length, step in batches:
        start, at, epoch = at, at + length, epoch + step
        epochs.coming([(UpstreamOffset(start), epoch)])
        epochs.read_to(UpstreamOffset(at))
        below.update(dict.fromkeys(range(start + 1, at + 1), epoch))
    assert epochs.last == below[at]
    for position in sorted(drawn.draw(st.sets(st.sampled_from(sorted(below))))):
        assert epochs.at(UpstreamOffset(position)) == below[position]


def stored(mirror):
    return mirror.take_blocks()[-1].tail


def test_the_epoch_is_stored_with_the_frontier_and_a_restart_asks_by_it():
    mirror, _ = mirrored(fetched(of_epoch(4, 0, 2), of_epoch(6, 2, 3), end=5))
    block = mirror.take_blocks()[-1]
    assert (block.tail.upstream_frontier, block.tail.source_leader_epoch) == (5, 6)
    assert mirror_of(assigned(block=block, stored=True)).read_epoch == 6


def test_a_batch_that_went_in_pieces_is_of_its_own_epoch_after_its_first_piece():
    """Else the source, asked about the one before, would call a log cut that is whole."""
    mirror, log = mirror_of(assigned(max_batch_bytes=100)), FakeLog()
    mirror.offer(fetched(of_epoch(4, 0, 1), of_epoch(6, 1, 20), end=21), now_ms=1)
    for _ in range(2):
        sent = mirror.next_to_send()
        mirror.answered(sent, log.append(bytes(sent.batch.payload)))
    tail = stored(mirror)
    assert 1 < tail.upstream_frontier < 21
    assert tail.source_leader_epoch == 6


def test_what_was_read_and_not_acknowledged_is_of_no_stored_epoch():
    mirror, _ = mirrored(fetched(of_epoch(4, 0, 2), end=5))
    mirror.offer(fetched(of_epoch(6, 2, 3), end=5), now_ms=1)
    assert (stored(mirror).source_leader_epoch, mirror.read_epoch) == (4, 6)


def test_the_epoch_of_a_marker_counts_though_nothing_of_it_is_mirrored():
    """Else a leader that wrote nothing but markers would look like a log that was cut."""
    mirror, _ = mirrored(fetched(of_epoch(4, 0, 2), end=2))
    mirror.offer(fetched(marker(2, 9, 0), end=3), now_ms=1)
    tail = stored(mirror)
    assert (tail.upstream_frontier, tail.source_leader_epoch) == (3, 0)


def test_behind_records_that_were_deleted_unread_no_epoch_is_known():
    mirror, _ = mirrored(fetched(of_epoch(4, 0, 2), end=9))
    mirror.skip_to(UpstreamOffset(7))
    assert (stored(mirror).source_leader_epoch, mirror.read_epoch) == (UNKNOWN, UNKNOWN)


def test_a_seek_forgets_the_epoch():
    mirror, _ = mirrored(fetched(of_epoch(4, 0, 2), end=9))
    recorder = MapRecorder.resume(mirror.take_blocks()[-1])
    recorder.skip_to(UpstreamOffset(7))
    assert recorder.tail.source_leader_epoch is UNKNOWN


@pytest.mark.parametrize(
    ("end", "what", "next_"),
    [
        (
            1,
            "offsets 1 to 1 were mirrored and are gone from the source;",
            "`mmtool flow seek -c FILE --csv offsets.csv --execute`, then start `mmtool replicate` again",
        ),
        (2, "no mirrored record is gone from the source,", "continues by itself from offset 2"),
        (4, "no mirrored record is gone from the source,", "continues by itself from offset 2"),
    ],
)
def test_a_source_that_was_cut_halts_its_mirror_and_says_what_is_gone(end, what, next_):
    mirror, _ = mirrored(fetched(of_epoch(4, 0, 2), end=2))
    mirror.offer(fetched(data(2, 5), end=7), now_ms=1)
    held = mirror.held_bytes
    freed = mirror.offer(fetched(end=0)._replace(diverging=Diverging(3, end)), now_ms=2)
    assert (mirror.state, freed, mirror.held_bytes) == (State.HALTED, -held, 0)
    assert mirror.reason.startswith(f"the source's log was cut at offset {end}, as by an unclean")
    assert what in mirror.reason
    assert mirror.reason.endswith(next_)


def test_another_epoch_from_an_unknown_place_on_is_not_said_to_be_a_cut_at_one():
    mirror, _ = mirrored(fetched(of_epoch(4, 0, 2), end=2))
    mirror.offer(fetched(end=0)._replace(diverging=Diverging(3, 9)), now_ms=2)
    assert mirror.reason.startswith("the source's log below offset 2 no longer holds the records")


def test_before_a_batch_that_cannot_move_the_epoch_is_that_of_the_last_good_one():
    """Else the source would be asked, after a restart, about a position that its epoch never reached."""
    mirror, log = mirror_of(assigned(max_batch_bytes=200)), FakeLog()
    big = replace(batch_of([PlainRecord(3, value=b"x" * 500)]), leader_epoch=7).write()
    mirror.offer(fetched(of_epoch(4, 0, 2), of_epoch(6, 2), big, end=4), now_ms=1)
    settle(mirror, log)
    tail = stored(mirror)
    assert (mirror.state, tail.upstream_frontier, tail.source_leader_epoch) == (State.HALTED, 3, 6)


@dataclass
class Leaders:
    """A target of two brokers, of which the first one leads until metadata is asked for.

    Attributes:
        end: What is answered.
        dead: Brokers that do not answer.
        becomes: The topic's id once metadata is asked for.
    """

    end: int
    dead: set = field(default_factory=set)
    becomes: str = TARGET_ID
    found: str = TARGET_ID
    node: int = 1

    def leader(self, *_):
        return self.node

    def topic_id(self, _):
        return self.found

    async def refresh(self, _):
        self.node, self.found = 2, self.becomes

    async def send(self, node, request, **_):
        if node in self.dead:
            raise ConnectionLostError("away")
        return {place: ListedOffset(Code.NONE, self.end) for place in request.timestamps}


def at_rest(records=3):
    mirror = mirror_of()
    mirror.offer(fetched(data(0, records), end=records), now_ms=1)
    settle(mirror, FakeLog())
    return mirror


def looks(cluster, mirror, times=1):
    """What it frees by that."""
    freed = []

    async def look():
        ends = TargetEnds(cluster, [mirror], 0.0, freed.append)
        for _ in range(times):
            await ends.look()
            await asyncio.sleep(0.01)  # one partition is looked at every 2 ms at the most

    asyncio.run(look())
    return sum(freed)


def test_a_log_that_ends_before_what_is_booked_was_cut():
    mirror = at_rest()
    looks(Leaders(end=1), mirror)
    assert (mirror.state, mirror.reason[:40]) == (State.HALTED, "the target's log was cut at offset 1, as")


def test_what_is_held_of_such_a_log_while_nobody_leads_it_makes_room_for_others():
    """After an unclean election that may be all that the pump may hold."""
    mirror = at_rest()
    held = mirror.offer(fetched(data(3, 3), end=6), now_ms=2)
    assert looks(Leaders(end=1), mirror) == held > 0
    assert (mirror.state, mirror.held_bytes) == (State.HALTED, 0)


def test_another_topic_of_that_name_is_not_taken_for_a_log_that_was_cut():
    """Whoever looks at topics says what became of it."""
    mirror = at_rest()
    looks(Leaders(end=0, becomes="id-of-another"), mirror)
    assert mirror.state is not State.HALTED


def test_when_its_leader_is_gone_the_one_that_leads_now_is_asked_at_the_next_look():
    mirror = at_rest()
    looks(Leaders(end=2, dead={1}), mirror)
    assert mirror.state is not State.HALTED
    looks(Leaders(end=2, dead={1}), mirror, times=2)
    assert mirror.state is State.HALTED
