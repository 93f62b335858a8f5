"""Who follows an owner that died finds out where the mirror stands, on logs in memory."""

import asyncio
import random
from dataclasses import replace
from itertools import count as counted
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.mirror import SHARD, SOURCE_ID, TARGET_ID, assigned, fetched
from kit.paired_flow import PairedFlow
from kit.paired_logs import LogOnWire, PairedLog, disturb, lose_answers
from kit.pairs import HERE, THERE
from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.kafka.state.claims import Claim
from mmtool.kafka.wire import scan
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.metadata import TopicMetadata
from mmtool.plan.topics.facts import source_made_again
from mmtool.replication.driver.context import OwnedState
from mmtool.replication.ownership import claim_and_recover
from mmtool.transforms.source import SourceTransforms
from mmtool.translation.types import TopicId

UNCOMPARED = "the records that mmtool copied last from orders-0 cannot be compared with the source:"


def died(batches, *, unseen=3, stored=0, alike=False, deleted=0, at_once=False):
    """An owner has mirrored so many records in batches of that many each, and booked nothing of it.

    The source deleted the first so many before they were read. What is read ``at_once`` is sent as one batch.
    """
    flow = PairedFlow(PairedLog(side=HERE), PairedLog(side=THERE))
    flow.take()
    for count in batches:
        flow.source.born(count, alike=alike)
    flow.source.trim(deleted)
    while at_once and flow.owner.mirror.fetch_position < flow.source.end:
        flow.fetch(len(batches))
    flow.work(500)
    flow.die(landed=0, ghosts=False, stored=stored)
    for _ in range(unseen):
        flow.source.born(1, alike=alike)
        flow.target.born(1)
    return flow


def runs(flow):
    return [(run.upstream_start, run.downstream_start, run.count) for run in flow.map().runs]


def came(flow):
    """What is on the other side of this one, whatever a cleaner took."""
    return [offset for side, offset in flow.target.history.values() if side == HERE]


def test_an_owner_with_nothing_unbooked_leaves_the_leader_epoch_that_it_read():
    flow = died([3, 3], unseen=0, stored=1)
    before = flow.newest.tail
    flow.take()
    assert (before.source_leader_epoch, flow.newest.tail.source_leader_epoch) == (0, 0)
    assert flow.newest.tail.upstream_frontier == before.upstream_frontier == 6


BATCHES = st.lists(st.integers(1, 5), min_size=1, max_size=8)


@given(BATCHES, st.data())
def test_what_cleaners_took_since_from_either_log_loses_and_repeats_nothing(batches, data):
    """The last record that was mirrored is left on both sides."""
    total, flow = sum(batches), died(batches)
    for log in (flow.source, flow.target):
        log.compact(data.draw(st.sets(st.integers(0, total - 2))) if total > 1 else ())
    flow.take()
    assert (flow.halted, flow.newest.tail.upstream_frontier) == ("", total)
    flow.catch_up()
    assert came(flow) == list(range(total + 3))


@given(BATCHES, st.booleans(), st.data())
def test_what_retention_took_before_it_was_read_or_since_is_no_loss(batches, at_once, data):
    """In the middle of a batch too, and where what was left of that was joined with those behind it."""
    total = sum(batches)
    deleted = data.draw(st.integers(0, total - 1))
    flow = died(batches, unseen=2, deleted=deleted, at_once=at_once)
    flow.source.trim(data.draw(st.integers(deleted, total - bool(deleted))))
    flow.take()
    assert (flow.halted, flow.newest.tail.upstream_frontier) == ("", total)
    here, there, count = runs(flow)[0]
    assert (here - there, here + count) == (deleted, total)
    flow.catch_up()
    assert (came(flow), flow.newest.gaps) == (list(range(deleted, total + 2)), ())


def test_where_other_records_lie_in_the_place_of_those_that_were_mirrored_it_halts():
    flow = died([3, 3], unseen=0)
    flow.source = PairedLog(side=HERE)
    flow.source.born(6, key=b"another")
    flow.take()
    assert flow.halted.startswith("diverged: of 6 records that mmtool copied from source offset 0 on, ")


def test_whose_end_nobody_can_tell_halts():
    """The last records are gone from the target, and the source has holes there as well."""
    flow = died([1] * 6, unseen=4)
    flow.source.compact([4, 5])
    flow.target.compact([3, 4, 5])
    flow.take()
    assert "diverged" in flow.halted


def test_a_batch_that_was_mirrored_in_pieces_and_booked_in_part_is_compared_from_its_middle_on():
    """What of it lies before the frontier counts for none of those that are looked for."""
    flow = PairedFlow(PairedLog(side=HERE), PairedLog(side=THERE))
    flow.take()
    flow.source.born(400)  # larger than the target takes at once
    while not flow.owner.mirror.frontier:
        flow.work(1)
    flow.keep(flow.owner.mirror.take_blocks())
    assert 0 < flow.newest.tail.upstream_frontier < 400
    for _ in range(5):
        flow.source.born(1)
    flow.work(500)
    flow.die(landed=0, ghosts=False, stored=0)
    flow.take()
    assert (flow.halted, flow.newest.tail.upstream_frontier) == ("", 405)
    flow.catch_up()
    assert came(flow) == list(range(405))


def test_what_retention_took_behind_that_is_a_loss_that_is_told_by_whoever_mirrors_on():
    """How far the mirror was nobody can tell any more: its last records were among those that are gone."""
    flow = died([3, 3], unseen=4)
    flow.source.trim(8)
    flow.take()
    assert (flow.halted, flow.newest.tail.upstream_frontier) == ("", 0)
    flow.catch_up()
    assert came(flow) == [*range(6), 8, 9]


@pytest.mark.parametrize("since", range(4), ids=str)
def test_of_records_alike_in_a_batch_that_is_cut_nobody_can_tell_which_were_mirrored(since):
    flow = died([5], unseen=0, alike=True, deleted=1)
    flow.source.trim(1 + since)
    flow.take()
    assert "last 4 records of source.orders-0 on target: more than one place" in flow.halted


def test_nor_where_what_was_left_of_it_was_joined_with_those_behind_it():
    """As if it had been there whole, and the last ones were not mirrored: they would come once more."""
    flow = died([5, 2, 2], unseen=0, alike=True, deleted=2, at_once=True)
    flow.take()
    assert "more than one place in orders-0 on source fits" in flow.halted


@pytest.mark.parametrize(
    ("batches", "start"),
    [([3, 3], 3), ([3, 3], 5), ([3, 3], 6), ([2, 3, 5], 6), ([2, 3, 5], 7), ([2, 3, 5], 9)],
)
def test_where_all_records_are_alike_those_that_retention_left_are_not_taken_for_those_that_it_took(
    batches, start
):
    """As many are left as were mirrored, also of a batch that it cut, and would pass for those and never come."""
    flow = died(batches, unseen=14, alike=True)
    flow.source.trim(start)
    flow.take()
    assert flow.newest.tail.upstream_frontier == 0
    assert f"source offsets of the last {sum(batches)} records of " in flow.halted
    assert f"deleted its records below offset {start}" in flow.halted
    assert ("flow rebuild" in flow.halted, "mmtool verify" in flow.halted) == (True, False)


@pytest.mark.parametrize("start", [0, 2])
def test_where_all_records_are_alike_and_none_of_them_is_gone_there_are_as_many(start):
    """A batch is given whole as long as any of it is left."""
    flow = died([3, 3], unseen=8, alike=True)
    flow.source.trim(start)
    flow.catch_up()
    assert (flow.halted, len(came(flow)), runs(flow)[0]) == ("", 14, (0, 0, 6))


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("start", [3, 6])
def test_what_the_target_deleted_before_it_was_booked_halts_however_alike_what_is_left(start, alike):
    """Of records alike those that are left would pass for the first ones, and the others would come once more."""
    flow = died([3, 3], unseen=2, alike=alike)
    flow.target.trim(start)
    flow.take()
    assert flow.halted.startswith(f"the target deleted offsets 0 to {start - 1} of source.orders-0 before")


def test_a_marker_that_retention_took_behind_the_books_halts_nothing():
    flow = PairedFlow(PairedLog(side=HERE), PairedLog(side=THERE))
    flow.take()
    flow.source.abort(2)
    flow.source.born(4)
    flow.work(500)
    flow.die(landed=0, ghosts=False, stored=0)
    flow.source.trim(3)
    flow.take()
    assert (flow.halted, runs(flow)) == ("", [(3, 0, 4)])


@pytest.mark.parametrize(("lost", "cut_at"), [(1, 11), (2, 10), (5, 7)])
def test_a_target_log_that_was_cut_halts_and_names_the_place_however_many_markers_came_behind(lost, cut_at):
    """Each owner who looks writes a marker: some owners later the log is as long as it was."""
    flow = died([1] * 12, unseen=0, stored=1)
    assert flow.newest.tail.target_verified_end == 12
    flow.target.lose(lost)
    for _ in range(7):
        flow.halted = ""
        flow.take()
        assert flow.halted.startswith(f"the target's log was cut at offset {cut_at}, as by an unclean")
        assert f"offsets {cut_at} to 11 of source.orders-0 are gone" in flow.halted


def test_a_target_log_that_was_cut_and_written_by_others_since_halts_as_well():
    flow = died([1] * 12, unseen=0, stored=1)
    flow.target.lose(2)
    flow.target.born(5)
    flow.take()
    assert "cut at offset 10" in flow.halted


@pytest.mark.parametrize("since", [0, 2])
def test_what_others_wrote_before_the_first_record_came_does_not_tell_that_the_target_was_cut(since):
    flow = PairedFlow(PairedLog(side=HERE), PairedLog(side=THERE))
    flow.target.born(3)
    flow.stored.clear()
    flow.keep([assigned(downstream=3).block])
    flow.take()
    if since:
        flow.target.born(since)
    flow.source.born(2)
    flow.work(50)
    flow.die(landed=0, ghosts=False, stored=0)
    flow.take()
    assert (flow.halted, runs(flow)) == ("", [(0, 3 + since, 2)])


def test_where_a_cleaner_took_the_last_booked_record_nothing_was_cut():
    flow = died([1] * 12, unseen=0, stored=1)
    flow.target.born(3)
    flow.target.compact([11])
    flow.take()
    assert flow.halted == ""


def test_a_letter_that_an_owner_posted_right_before_it_died_is_no_difference_between_both_logs():
    """The source holds a record that the target has beside the topic: what is behind it went once that was booked."""
    flow = PairedFlow(PairedLog(side=HERE), PairedLog(side=THERE))
    flow.take()
    flow.owner.mirror._with_letters = True
    flow.source.born(2)
    flow.source.born(1, key=random.Random(7).randbytes(8192))
    flow.source.born(2)
    flow.work(50)
    flow.owner.mirror.posted(flow.owner.mirror.letter)
    flow.work(50)
    flow.die(landed=0, ghosts=False, stored=0)
    flow.take()
    assert (flow.halted, flow.newest.tail.upstream_frontier, came(flow)) == ("", 2, [0, 1])


def test_what_others_wrote_behind_the_books_is_told_of_before_they_pass_it(monkeypatch):
    """In two pieces, between which a record of ours was found; of the fence's own marker nothing is said."""
    flow = PairedFlow(PairedLog(side=HERE), PairedLog(side=THERE))
    flow.take()
    flow.target.born(2)
    flow.source.born(1)
    flow.work(50)
    flow.die(landed=0, ghosts=False, stored=0)
    flow.target.born(1)
    flow.target.born(2)
    flow.target.mark(flow.producer_id, flow.epoch)
    scene = Scene(flow, monkeypatch)
    assert scene.resume() == ({}, 1)
    assert scene.order == [{(SOURCE_ID, 0): [range(2), range(3, 6)]}, [7]]


# --- trouble that passes ----------------------------------------------------------------------------------


def test_a_source_whose_broker_died_with_the_owner_halts_nothing():
    flow = died([3, 3], unseen=2)
    lose_answers(flow.source, 1)
    with pytest.raises(ConnectionLostError):
        flow.take()
    assert flow.halted == ""
    flow.catch_up()
    assert came(flow) == list(range(8))


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_leader_that_does_not_tell_all_of_its_log_yet_is_asked_again(side):
    flow = died([3, 3], unseen=2)
    disturb(getattr(flow, side), 2, lambda: fetched(end=0))
    flow.catch_up()
    assert (flow.halted, came(flow)) == ("", list(range(8)))


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_log_whose_leader_cannot_be_found_is_no_log_that_ends(side, monkeypatch):
    """Nothing would seem to be mirrored that is not booked, and all of it be sent again."""
    monkeypatch.setattr(scan, "_PAUSE_SECONDS", 0)
    flow = died([3, 3], unseen=2)
    disturb(getattr(flow, side), 60, lambda: fetched(end=0)._replace(error_code=Code.NOT_LEADER_OR_FOLLOWER))
    with pytest.raises(ConnectionLostError):
        flow.take()
    flow.catch_up()
    assert (flow.halted, came(flow)) == ("", list(range(8)))


def test_a_source_topic_that_was_made_again_meanwhile_can_never_be_compared_and_halts():
    flow = died([3, 3])
    flow.source_id = TopicId("another")
    lose_answers(flow.source, 1)
    flow.take()
    assert flow.halted == f"{UNCOMPARED} {source_made_again('orders')}"


def test_a_source_whose_log_is_corrupt_there_halts_its_partition_and_no_other():
    flow = died([3, 3])
    disturb(flow.source, 1, lambda: fetched(end=0)._replace(error_code=Code.CORRUPT_MESSAGE))
    flow.take()
    assert flow.halted.startswith(UNCOMPARED)
    assert "orders-0 of source: CORRUPT_MESSAGE: make another replica the leader" in flow.halted


def test_a_partition_that_its_topic_has_no_more_since_it_was_made_again_halts_at_once(monkeypatch):
    """No leader is waited for that never comes."""
    flow = died([3, 3])
    flow.source_id = TopicId("another")
    monkeypatch.setattr(LogOnWire, "leader", lambda wire, *_: None if wire.alias == "source" else 0)
    flow.take()
    assert flow.halted == f"{UNCOMPARED} {source_made_again('orders')}"


def test_a_right_on_the_source_topic_that_was_taken_away_is_named(monkeypatch):
    async def denied(wire, topics):
        return {
            topic: TopicMetadata(topic, wire.identity, Code.TOPIC_AUTHORIZATION_FAILED, [])
            for topic in topics
        }

    def check(_wire, code, what):
        if code == Code.TOPIC_AUTHORIZATION_FAILED:
            raise NotAuthorisedError(f"denied: {what}")

    flow = died([3, 3])
    monkeypatch.setattr(LogOnWire, "leader", lambda wire, *_: None if wire.alias == "source" else 0)
    monkeypatch.setattr(LogOnWire, "refresh", denied)
    monkeypatch.setattr(LogOnWire, "check_denied", check)
    with pytest.raises(NotAuthorisedError, match="denied: DESCRIBE on topic orders"):
        flow.take()


class Scene:
    """An owner in doubt of one shard, between two logs."""

    def __init__(self, flow, monkeypatch):
        source, target = (
            LogOnWire(flow.source, "source", SOURCE_ID),
            LogOnWire(flow.target, "target", TARGET_ID),
        )
        settings = SimpleNamespace(
            reads_committed=True, tells_origins=False, offsets="translated", keeps_offsets=lambda _: False
        )
        self.flow = SimpleNamespace(
            source=source,
            target=target,
            settings=settings,
            identity=None,
            shows_register=False,
            transforms=SourceTransforms(lambda _: None),
        )
        self.block, self.ours = flow.newest, {flow.producer_id}
        self.standing = OwnedState({SHARD.shard: SHARD}, {(SOURCE_ID, 0): self.block})
        self.order = []
        monkeypatch.setattr(claim_and_recover, "store_owned", self.stored)
        monkeypatch.setattr(claim_and_recover, "told_of_others", self.told)

    async def told(self, _flow, _blocks, others):
        self.order.append(others)
        return {}

    async def stored(self, _flow, _standing, _shard, blocks):
        self.order.append([block.tail.target_verified_end for block in blocks])

    @property
    def closes(self):
        """Whether a clean end closes the shard."""
        return self.standing.clear(1) == [SHARD]

    def resume(self):
        claims = {SHARD.shard: Claim(SHARD.producer_id, SHARD.epoch)}
        asyncio.run(
            claim_and_recover.resume_all(self.flow, self.standing, claims, self.ours, [SHARD.shard], 1, {})
        )
        return self.standing.halted, self.standing.blocks[SOURCE_ID, 0].tail.upstream_frontier


def test_into_a_shard_with_a_partition_that_diverged_the_next_owner_looks_again(monkeypatch):
    flow = died([3, 3], unseen=0)
    flow.source = PairedLog(side=HERE)
    flow.source.born(6, key=b"another")
    scene = Scene(flow, monkeypatch)
    assert (list(scene.resume()[0]), scene.closes) == ([(SOURCE_ID, 0)], False)


@pytest.mark.parametrize("side", ["source", "target"])
def test_into_one_with_a_topic_that_is_gone_nobody_has_to_look_again(side, monkeypatch):
    """Else each start would leave a marker in the mirrors of all others of that shard."""
    scene = Scene(died([3, 3]), monkeypatch)
    wire = getattr(scene.flow, side)
    setattr(scene.flow, side, replace(wire, identity=TopicId("another")))
    if side == "source":
        monkeypatch.setattr(LogOnWire, "leader", lambda wire, *_: None if wire.alias == "source" else 0)
    assert (list(scene.resume()[0]), scene.closes) == ([(SOURCE_ID, 0)], True)


@pytest.mark.long
def test_a_broker_of_the_target_that_has_not_heard_of_a_young_mirror_does_not_make_it_one_that_is_gone(
    monkeypatch,
):
    """Its shard would be closed although nobody had looked: the next owner would send what is there once more."""
    scene, looks = Scene(died([3, 3]), monkeypatch), counted(1)
    has_heard, there = [], LogOnWire.refresh

    async def refresh(wire, topics):
        if wire.alias == "target" and next(looks) > 2:
            has_heard.append(wire)
        return await there(wire, topics if has_heard or wire.alias == "source" else ())

    monkeypatch.setattr(LogOnWire, "refresh", refresh)
    monkeypatch.setattr(LogOnWire, "leader", lambda *_: 0 if has_heard else None)
    monkeypatch.setattr(LogOnWire, "topic_id", lambda wire, _: wire.identity if has_heard else None)
    assert scene.resume() == ({}, 6)


@pytest.mark.parametrize("side", ["source", "target"])
def test_whoever_takes_over_waits_for_the_leader_that_is_being_elected(side, monkeypatch):
    """It has fenced by then: to begin anew would leave another marker in every mirror."""
    flow = died([3, 3], unseen=2)
    scene = Scene(flow, monkeypatch)
    lose_answers(getattr(flow, side), 3)
    assert scene.resume() == ({}, 6)


def test_a_leader_of_the_target_that_does_not_come_back_in_a_minute_is_said_and_halts_nothing(monkeypatch):
    flow = died([3, 3])
    scene = Scene(flow, monkeypatch)
    lose_answers(flow.target, 1 << 30)
    monkeypatch.setattr(claim_and_recover, "_LEADER_SECONDS", 0.0)
    with pytest.raises(UnreachableError, match=r"source\.orders-0 failed: broker 1 does not answer$"):
        scene.resume()
    assert scene.standing.halted == {}


def test_a_partition_whose_source_leader_stays_away_is_put_off_and_the_others_do_not_wait(monkeypatch):
    """Its shard stays open, and it goes on as soon as the flow is taken again."""
    flow = died([3, 3])
    scene = Scene(flow, monkeypatch)
    read = flow.source.fetch
    lose_answers(flow.source, 1 << 30)
    monkeypatch.setattr(claim_and_recover, "_SOURCE_SECONDS", 0.0)
    place = (SOURCE_ID, 0)
    halted, frontier = scene.resume()
    why = f"broker 1 does not answer: {claim_and_recover.COMPARED_LATER}"
    assert (halted, frontier, scene.closes) == ({place: why}, 0, False)
    assert [about.upstream for about in scene.standing.awaited] == [scene.block.about.upstream]
    assert scene.standing.way_on(place, scene.flow.identity).endswith("the source partition can be read")

    flow.source.fetch = read
    scene.standing = OwnedState({SHARD.shard: SHARD}, {place: scene.block})
    assert scene.resume() == ({}, 6)
    assert scene.standing.awaited == []


def test_while_the_whole_source_is_away_nothing_is_put_off(monkeypatch):
    """Then the flow waits for its cluster, as it does at every other time."""
    flow = died([3, 3])
    scene = Scene(flow, monkeypatch)
    lose_answers(flow.source, 1 << 30)
    for limit in ("_SOURCE_SECONDS", "_LEADER_SECONDS"):
        monkeypatch.setattr(claim_and_recover, limit, 0.0)

    looks, there = counted(1), LogOnWire.refresh

    async def refresh(wire, topics):
        if wire.alias == "target":
            return await there(wire, topics)
        if next(looks) > 1:  # it was there when the flow was claimed
            raise ConnectionLostError("no broker of source answers")
        return {}

    monkeypatch.setattr(LogOnWire, "refresh", refresh)
    with pytest.raises(UnreachableError, match="no broker of source answers"):
        scene.resume()
    assert scene.standing.halted == {}
