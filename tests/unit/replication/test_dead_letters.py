"""What the pump does with a record that the target takes in no batch."""

import asyncio
import random
from contextlib import suppress
from types import SimpleNamespace

import pytest

from kit.batches import PlainRecord, batch_of
from kit.mirror import SOURCE_ID, assigned, fetched, mirror_of
from mmtool.errors import RefusedError, UnreachableError
from mmtool.kafka.batches import decode, view_of
from mmtool.plan.records.documents import State
from mmtool.plan.records.identity import FlowIdentity
from mmtool.replication.pump.pump import DeadLetters
from mmtool.translation.types import ClusterId

IDENTITY = FlowIdentity(ClusterId("east-id"), ClusterId("west-id"), "east", "west")
NOISE = random.Random(7).randbytes(500)  # which no codec can shrink
PLACE = (
    (b"mmtool.source.cluster", b"east-id"),
    (b"mmtool.source.topic", b"orders"),
    (b"mmtool.source.topic.id", SOURCE_ID.encode()),
    (b"mmtool.source.partition", b"0"),
    (b"mmtool.source.offset", b"0"),
)


class Box:
    """A `LetterPort` that answers as it is told."""

    def __init__(self, *answers):
        self.answers, self.posted = list(answers), []

    def post(self, letter):
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        self.posted.append(letter)


@pytest.fixture
def mirror():
    """One that waits for its first record to be posted; another one is behind it."""
    found = mirror_of(assigned(max_batch_bytes=200), with_letters=True)
    big = PlainRecord(0, 77, b"k", NOISE, ((b"h", b"1"), (b"h", None)))
    found.offer(fetched(batch_of([big, PlainRecord(1, 78)], codec="lz4").write(), end=2), now_ms=1)
    return found


def run(mirror, box, until, books=lambda: None):
    freed, woken = [], []
    flow = SimpleNamespace(identity=IDENTITY)
    letters = DeadLetters(flow, [mirror], freed.append, woken.append, books, lambda _: box)

    async def go():
        running = asyncio.create_task(letters.run())
        for _ in range(500):
            if until(woken):
                break
            await asyncio.sleep(0.01)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    asyncio.run(go())
    return freed, woken


def test_it_goes_beside_the_topic_once_and_the_mirror_goes_on(mirror):
    box, held = Box(), mirror.held_bytes

    def goes_on(woken):
        if mirror.letter is None and mirror.take_blocks():
            mirror.stored()
        return woken

    freed, woken = run(mirror, box, goes_on)
    assert (len(box.posted), mirror.frontier, mirror.sendable, woken) == (1, 1, True, [mirror])
    assert freed == [held - mirror.held_bytes]
    assert mirror.dead_letters == 1


def test_the_books_are_asked_for_at_once_so_that_many_letters_do_not_wait_a_second_each(mirror):
    def books():
        mirror.take_blocks()
        mirror.stored()
        asked.append(mirror.frontier)

    asked, turns = [], []
    _, woken = run(mirror, Box(), lambda woken: woken and (turns.append(1) or len(turns) > 50), books)
    assert (woken, asked) == ([mirror], [1])


def test_nothing_behind_it_is_sent_before_the_books_have_passed_it(mirror):
    _, woken = run(mirror, Box(), lambda _: mirror.letter is None)
    assert (mirror.frontier, mirror.sendable, woken) == (1, False, [])
    mirror.stored()  # of what was taken before
    assert not mirror.sendable
    mirror.take_blocks()
    assert not mirror.sendable
    mirror.stored()
    assert mirror.sendable


def test_the_letter_is_the_record_as_it_was_and_tells_its_place(mirror):
    box = Box()
    run(mirror, box, lambda _: mirror.letter is None)
    (record,) = decode(view_of(box.posted[0].written().payload))
    assert (record.timestamp, record.key, record.value) == (77, b"k", NOISE)
    assert record.headers == ((b"h", b"1"), (b"h", None), *PLACE)


def test_while_the_target_is_away_it_is_tried_again_and_nothing_passes_it(mirror):
    box = Box(UnreachableError("west does not answer"), UnreachableError("west-0 has no leader"))
    run(mirror, box, lambda _: not box.answers)
    assert (mirror.frontier, mirror.state == State.HALTED) == (0, False)
    run(mirror, box, lambda _: mirror.letter is None)
    assert len(box.posted) == 1


def test_a_partition_that_halts_while_it_is_written_stays_before_it(mirror):
    class Slow(Box):
        def post(self, letter):
            mirror.halt("topic orders was deleted on the source")
            super().post(letter)

    box = Slow()
    run(mirror, box, lambda _: box.posted)
    assert (mirror.frontier, mirror.held_bytes, mirror.dead_letters) == (0, 0, 0)
    assert mirror.reason == "topic orders was deleted on the source"


def test_where_it_cannot_be_kept_the_partition_halts_and_frees_what_it_held(mirror):
    held = mirror.held_bytes
    freed, _ = run(mirror, Box(RefusedError("no CREATE")), lambda _: mirror.state == State.HALTED)
    assert (mirror.frontier, mirror.held_bytes, freed) == (0, 0, [held])
    assert mirror.reason.endswith("offset 0 cannot be written to the dead-letter topic: no CREATE")
