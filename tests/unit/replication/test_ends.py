"""The ends of logs of partitions at rest: whoever leads them by now, and of the very topic that is mirrored."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from kit.batches import data
from kit.mirror import TARGET_ID, FakeLog, fetched, mirror_of, settle
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.metadata import ListedOffset
from mmtool.plan.records.documents import State
from mmtool.replication.pump.ends import TargetEnds


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
