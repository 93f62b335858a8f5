"""Where a flow stands: pure, so every case is a table of facts."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.maps import about_of, blocks_of, position_of
from mmtool.plan.flow.mirror_maker import MirrorMakerProgress
from mmtool.plan.flow.slots import SlotsRecord
from mmtool.plan.flow.status import (
    NOBODY,
    NOT_YET,
    NOT_YET_NO_REFRESH,
    NOT_YET_NOBODY,
    SILENT_MS,
    FlowFacts,
    FlowMember,
    flow_row,
    has_silent,
    has_unmirrored,
    nobody,
    standings,
)
from mmtool.plan.records.documents import OwnerRecord, PauseRecord, State
from mmtool.plan.records.holds import Holds
from mmtool.plan.records.identity import FlowIdentity
from mmtool.plan.records.marks import FailedOverRecord
from mmtool.plan.topics.facts import BEGIN_AGAIN, TopicFacts, source_made_again
from mmtool.plan.topics.retention import Retention
from mmtool.plan.words import moment
from mmtool.translation.types import TopicId, TopicPartition

FLOW = FlowIdentity("src", "tgt", "a", "b")
OWNER = OwnerRecord("owner-2", "host-1", 4711, since_ms=1_000)
HOLDER = FlowMember("mmtool/0.1-owner-host-1-pid-4711", "/10.0.0.1", holds=True)
STANDBY = FlowMember("mmtool/0.1-owner-host-2-pid-12", "/10.0.0.2", holds=False)
NOW_MS = 1_000_000


def position(partition=0, *, at=10, end=10, state=State.CAUGHT_UP, age_ms=1_000, since=0, **others):
    told = {
        "owner": "owner-2",
        "target_topic": "a.orders",
        "records": 7,
        "mirrored_bytes": 700,
        "reason": "",
        "observed_ms": NOW_MS - age_ms,
        "behind_since_ms": since,
        "at_end_ms": NOW_MS - age_ms if state is State.CAUGHT_UP and not since else 0,
    }
    return position_of(TopicPartition("orders", partition), "id-orders", at, end, state, **told | others)


def block(partition=0, frontier=10, *, topic_id="id-orders", target_id="id-there"):
    about = about_of(
        FLOW, TopicId(topic_id), TopicPartition("orders", partition), "a.orders", TopicId(target_id)
    )
    return blocks_of(about, [(0, 0, frontier)] if frontier else [], frontier)[-1]


def facts(*positions, blocks=(), ends=(10,), members=(HOLDER,), **others):
    """A flow with one topic of as many partitions as there are ends."""
    known = FlowFacts(
        source="a",
        target="b",
        ran=True,
        topics={"orders": TopicFacts("orders", TopicId("id-orders"), len(ends))},
        remote={"orders": "a.orders"},
        ends={TopicPartition("orders", n): end for n, end in enumerate(ends) if end is not None},
        owner=OWNER,
        members=members,
        positions={(p.topic_id, p.partition): p for p in positions},
        target_ids={"a.orders": TopicId("id-there")},
        now_ms=NOW_MS,
        blocks={(b.about.topic_id, b.about.partition): b for b in blocks},
    )
    return replace(known, **others)


def only(known, oldest_ms=None):
    (standing,) = standings(known)
    return standing.with_age(oldest_ms, NOW_MS, Retention())


def test_what_the_owner_s_pumps_say_is_shown_as_it_is():
    row = only(facts(position()))
    assert (row.state, row.upstream_position, row.records, row.bytes) == (State.CAUGHT_UP, 10, 7, 700)
    assert (row.lag_records, row.lag_seconds, row.reason) == (0, 0.0, "")


def test_lag_is_against_the_source_s_end_and_not_against_what_the_pump_saw_of_it():
    row = only(facts(position(at=10, end=10), ends=[25]))
    assert (row.state, row.lag_records) == (State.RUNNING, 15)


def test_a_mirror_that_has_passed_the_end_that_was_asked_for_is_caught_up():
    row = only(facts(position(at=30, end=40, state=State.RUNNING, since=5), ends=[25]))
    assert (row.state, row.lag_records, row.lag_seconds) == (State.CAUGHT_UP, 0, 0.0)


RUNNING = {"state": State.RUNNING, "since": 0}
LAGS = {
    "the age of the oldest record that is missing": ({**RUNNING, "since": 5}, NOW_MS - 3_500, 3.5),
    "no longer than since the mirror was at the end": ({"age_ms": 2_000}, 1, 2.0),
    "not looked at: since its pump saw it": ({**RUNNING, "since": NOW_MS - 7_000}, None, 7.0),
    "of the future, seen behind": ({**RUNNING, "since": NOW_MS - 5_000}, NOW_MS + 99, 5.0),
    "of the future, seen at the end": (
        {**RUNNING, "since": 5, "at_end_ms": NOW_MS - 6_000},
        NOW_MS + 99,
        6.0,
    ),
    "all by a clock ahead of ours": ({**RUNNING, "at_end_ms": NOW_MS + 6_000}, NOW_MS + 99, None),
}


@pytest.mark.parametrize(("said", "oldest_ms", "seconds"), LAGS.values(), ids=LAGS)
def test_lag_in_seconds_is_what_timestamps_and_workers_say_together(said, oldest_ms, seconds):
    assert only(facts(position(**said), ends=[25]), oldest_ms).lag_seconds == seconds


@pytest.mark.parametrize("state", [State.RUNNING, State.HALTED, State.PAUSED])
@pytest.mark.parametrize("owner", ["owner-2", "an earlier one"])
@pytest.mark.parametrize("members", [(HOLDER,), ()])
def test_when_the_mirror_was_at_the_end_counts_whoever_saw_it(state, owner, members):
    """Under a new owner, halted or held, or without one: what an owner has seen once the next ones write down."""
    word = position(state=state, since=NOW_MS, at_end_ms=NOW_MS - 9_000, owner=owner)
    assert only(facts(word, blocks=[block()], ends=[25], members=members), oldest_ms=1).lag_seconds == 9.0


def test_what_retention_will_delete_is_told_by_when_the_mirror_was_at_the_end():
    word = position(at=5, end=10, state=State.RUNNING, since=1, at_end_ms=NOW_MS - 200_000)
    (standing,) = standings(facts(word))
    assert "in 2 minutes" in standing.with_age(None, NOW_MS, Retention(ms=330_000)).reason


def test_a_lag_that_nobody_can_date_is_unknown():
    row = only(facts(blocks=[block()], ends=[25], members=()))
    assert (row.lag_records, row.lag_seconds) == (15, None)


def test_a_flow_that_no_process_runs_is_idle_and_its_lag_is_told_from_the_books():
    row = only(facts(position(), blocks=[block(frontier=8)], ends=[25], members=()), NOW_MS - 60_000)
    assert (row.state, row.upstream_position, row.lag_records) == (State.IDLE, 8, 17)
    assert (row.reason, row.target_topic) == ("replicate is not running", "a.orders")


def test_it_is_said_who_ran_it_and_until_when():
    assert "(last owner: host-1, pid 4711, until 1970-01-01T00:16:39Z)" in nobody(
        facts(position(), members=())
    )


LETTERS = "2 records too large for the target are in a.orders.mmtool-dlq"
FOREIGN = (
    "another producer wrote into a.orders-0 on the target: 3 offsets, the last one 17; stop it, unless the topic's"
    " producers have moved to the target"
)
DENIED = "DESCRIBE on target topic a.orders is denied: grant it"
STATES = {
    "an earlier owner's position": (
        facts(position(owner="owner-1"), blocks=[block()]),
        State.STARTING,
        "its worker has not reported yet",
    ),
    "a holder that has not written itself down": (
        facts(position(), blocks=[block()], members=(replace(STANDBY, holds=True),)),
        State.STARTING,
        "replicate (host-2, pid 12) is taking the flow over",
    ),
    "silent workers": (
        facts(position(age_ms=SILENT_MS), blocks=[block()]),
        State.WAITING,
        "no report from its worker since 1970-01-01T00:16:20Z: see the log of replicate",
    ),
    "halted, and its worker has gone": (
        facts(position(state=State.HALTED, age_ms=900_000, reason="too large"), blocks=[block()], members=()),
        State.HALTED,
        "too large",
    ),
    "dead letters": (facts(position(dead_letters=2), blocks=[block()]), State.CAUGHT_UP, LETTERS),
    "dead letters, and nobody runs the flow": (
        facts(position(dead_letters=2), blocks=[block()], members=()),
        State.IDLE,
        f"{NOBODY}; {LETTERS}",
    ),
    "foreign records": (facts(position(foreign=3, foreign_end=18)), State.CAUGHT_UP, FOREIGN),
    "target topic deleted": (
        facts(blocks=[block()], target_ids={}),
        State.HALTED,
        f"target topic a.orders was deleted: {BEGIN_AGAIN}",
    ),
    "target topic recreated": (
        facts(blocks=[block()], target_ids={"a.orders": TopicId("new")}),
        State.HALTED,
        f"target topic a.orders was deleted and created again: {BEGIN_AGAIN}",
    ),
    "target topic hidden: mirrored again it would be there twice": (
        facts(blocks=[block()], target_ids={}, refused={"orders": DENIED}),
        State.HALTED,
        DENIED,
    ),
    "slots of an owner that is gone": (
        facts(blocks=[block()], members=(), slots=SlotsRecord("owner-2", 2, 1, (0,)), shards=1),
        State.IDLE,
        NOBODY,
    ),
}


@pytest.mark.parametrize(("known", "state", "reason"), STATES.values(), ids=STATES)
def test_a_partition_s_state_has_its_reason(known, state, reason):
    row = only(known)
    assert (row.state, row.reason) == (state, reason)


def test_what_an_earlier_owner_mirrored_is_not_counted():
    assert only(facts(position(owner="owner-1"), blocks=[block()])).records == 0


def test_through_a_rebalance_the_owner_keeps_the_flow():
    """The group's coordinator names no holder then."""
    moving = (replace(HOLDER, holds=False), STANDBY)
    known = facts(position(), members=moving)
    assert (only(known).state, known.standbys) == (State.CAUGHT_UP, 1)


@pytest.mark.parametrize(
    ("members", "reason"), [((), "replicate is not running"), ((HOLDER,), "replicate starts this partition")]
)
def test_a_partition_that_was_never_mirrored_has_a_row(members, reason):
    row = only(facts(members=members))
    assert (row.state, row.upstream_position, row.lag_records) == (State.NEVER_RAN, None, None)
    assert reason in row.reason


def test_what_its_pump_said_a_moment_ago_does_not_hide_that_a_target_topic_is_gone():
    known = facts(position(at=5, end=10, state=State.RUNNING, since=1), blocks=[block()], target_ids={})
    assert has_silent(known)
    assert only(known).state is State.HALTED


def test_a_source_topic_that_was_created_again_is_halted_unless_it_begins_again():
    known = facts(blocks=[block(topic_id="id-of-before")])
    assert only(known).reason == source_made_again("orders")
    assert only(replace(known, begins_again=True)).state is State.NEVER_RAN


@pytest.mark.parametrize("begins_again", [False, True])
def test_a_source_topic_that_was_given_an_id_is_halted_and_rebuilt(begins_again):
    """Its cluster was upgraded from before 2.8: what is mirrored already must not come once more."""
    row = only(replace(facts(blocks=[block(topic_id="orders")]), begins_again=begins_again))
    assert (row.state, "mmtool flow rebuild" in row.reason) == (State.HALTED, True)


def test_what_retention_takes_of_a_topic_that_has_failed_over_is_no_loss_of_the_mirror():
    """Its place here is left, and the range would grow for ever."""
    mark = FailedOverRecord("orders", failed_over=True, operation_id="op-1", by="ann@b", since_ms=1)
    holds, starts = Holds().with_word(mark), {TopicPartition("orders", 0): 15}
    at = position(at=10, end=30, state=State.RUNNING)
    mirrored = [facts(blocks=[block()], starts=starts), facts(at, starts=starts)]
    held = [replace(mirrored[0], holds=holds), facts(holds.shown(at), holds=holds, starts=starts)]
    said = "the source deleted offsets 10 to 14"
    assert [said in only(known).reason for known in (*mirrored, *held)] == [True, True, False, False]
    assert {only(known).state for known in held} == {State.FAILED_OVER}


def test_a_partition_that_was_added_is_not_called_created_again():
    rows = [
        standing.row
        for standing in standings(facts(blocks=[block(), block(1, topic_id="old")], ends=[10, 5]))
    ]
    assert [row.state for row in rows] == [State.STARTING, State.NEVER_RAN]


def test_an_end_that_nobody_told_is_the_pump_s_or_unknown():
    assert only(facts(position(at=8, end=9), ends=[None])).lag_records == 1
    assert only(facts(blocks=[block()], ends=[None])).lag_records is None


def test_a_flow_without_state_has_one_row():
    row = flow_row(facts(ran=False, members=()))
    assert (row.state, row.topic, row.reason) == (State.NEVER_RAN, None, "replicate never ran this flow")
    assert flow_row(facts(ran=False)).state is State.STARTING
    assert flow_row(facts()) is None


def test_a_flow_that_waits_for_its_topics_names_them():
    faults = "topic mmtool-journal.internal on b is missing; mmtool.create.topics = false"
    row = flow_row(facts(ran=False, members=(), topic_faults=faults))
    said = f"replicate never ran this flow: {faults}; run the commands that `mmtool acls --topics -c FILE` prints, as"
    assert (row.state, row.reason) == (State.NEVER_RAN, f"{said} a user who may create topics")


def test_the_books_are_asked_only_where_a_pump_is_silent():
    assert has_silent(facts(position(), ends=[1])) is False
    assert has_silent(facts(position(), ends=[1, 1])) is True


def test_a_member_that_is_no_owner_of_ours_is_named_as_the_broker_names_it():
    assert str(FlowMember("other", "/10.0.0.9", holds=True)) == "other on 10.0.0.9"


offsets = st.integers(0, 50)
positions = st.builds(
    position,
    st.integers(0, 2),
    at=offsets,
    end=offsets,
    state=st.sampled_from(State),
    age_ms=st.integers(0, 2 * SILENT_MS),
    since=st.sampled_from([0, NOW_MS - 5_000]),
    owner=st.sampled_from(["owner-1", "owner-2"]),
)
flows = st.builds(
    lambda ps, bs, ends, members: facts(*ps, blocks=bs, ends=ends, members=members),
    st.lists(positions, max_size=4),
    st.lists(st.builds(block, st.integers(0, 2), offsets), max_size=3),
    st.lists(st.none() | offsets, min_size=1, max_size=3),
    st.sampled_from([(), (HOLDER,), (STANDBY,), (HOLDER, STANDBY), (replace(HOLDER, holds=False),)]),
)


@given(flows)
def test_every_partition_has_exactly_one_row(known):
    places = [TopicPartition("orders", n) for n in range(known.topics["orders"].partitions)]
    assert [standing.place for standing in standings(known)] == places


@given(flows)
def test_only_the_fresh_word_of_the_present_owner_is_shown_as_live(known):
    for standing in standings(known):
        if standing.row.state in (State.RUNNING, State.CAUGHT_UP):
            said = known.positions["id-orders", standing.row.partition]
            assert known.announced
            assert (said.owner, said.observed_ms > NOW_MS - SILENT_MS) == (OWNER.owner, True)


@given(flows, st.none() | st.integers(0, NOW_MS + 10))
def test_no_lag_in_records_is_no_lag_in_seconds_and_none_is_negative(known, oldest_ms):
    for standing in standings(known):
        row = standing.with_age(oldest_ms, NOW_MS, Retention())
        assert row.lag_records is None or row.lag_records >= 0
        assert row.lag_seconds is None or row.lag_seconds >= 0
        assert row.lag_records != 0 or row.lag_seconds == 0
        end = known.ends.get(standing.place)
        if end is not None and row.upstream_position is not None:
            assert row.lag_records == max(end - row.upstream_position, 0)


SAME_LOG = 400_000
"""How old the first record is that the source still has, of a log that it has deleted from."""


@pytest.mark.parametrize(
    ("age_ms", "keeps", "said"),
    [
        (100_000, Retention(ms=300_000), ""),
        (150_000, Retention(ms=300_000), "in 2 minutes, retention.ms"),
        (241_000, Retention(ms=300_000), "in 59 seconds, retention.ms"),
        (400_000, Retention(ms=300_000), "any moment, retention.ms"),
        (400_000, Retention(), ""),
        (199_000, Retention(bytes=1 << 20), ""),
        (200_000, Retention(bytes=1 << 20), "in 3 minutes, retention.bytes"),
        (400_000, Retention(bytes=1 << 20), "any moment, retention.bytes"),
        (250_000, Retention(ms=300_000, bytes=1 << 20), "in 50 seconds, retention.ms"),
    ],
    ids=str,
)
def test_what_the_source_is_about_to_delete_unmirrored_is_told_before_it_happens(age_ms, keeps, said):
    (standing,) = standings(facts(position(at=5, end=10, since=1, reason="slow")))
    row = standing.with_age(NOW_MS - age_ms, NOW_MS, keeps, NOW_MS - SAME_LOG)
    found = re.fullmatch(
        r"slow; (?:from (\S+) on, (in .*),|at (any moment)) the source may delete records that are not mirrored yet"
        r" \((.*)\): raise \S+ on the source, at least until the lag is 0",
        row.reason,
    )
    if found is None:
        assert (row.reason, said) == ("slow", "")
        return
    assert f"{found[2] or found[3]}, {found[4]}" == said
    if found[1]:
        span = keeps.ms if found[4] == "retention.ms" else SAME_LOG
        assert found[1] == moment(NOW_MS - age_ms + span)


def test_by_size_nothing_is_deleted_from_a_log_that_has_never_been_full():
    (standing,) = standings(facts(position(at=5, end=10, since=1)))
    assert standing.with_age(NOW_MS - 400_000, NOW_MS, Retention(bytes=1 << 20)).reason == ""


def test_what_is_paused_says_so_whoever_runs_the_flow_or_nobody():
    """Also where the last word of a pump is an earlier owner's, and where nothing was mirrored yet."""
    mark = PauseRecord("id-orders", "orders", paused=True, by="ann@east", since_ms=1, reason="disk")
    holds = Holds().with_word(mark)
    old = position(owner="owner-1")
    for members in ((HOLDER,), ()):
        known = facts(old, blocks=[block()], ends=(15, 15), members=members, holds=holds)
        rows = [standing.row for standing in standings(known)]
        assert [(row.state, "ann@east" in row.reason) for row in rows] == [(State.PAUSED, True)] * 2
        assert rows[0].lag_records == 5


FAILED_OVER = Holds().with_word(
    FailedOverRecord("orders", failed_over=True, operation_id="fo-7", by="ann@east", since_ms=1)
)


@pytest.mark.parametrize("members", [(HOLDER,), ()], ids=["owned", "nobody"])
def test_what_has_failed_over_says_so_whoever_runs_the_flow_or_nobody(members):
    """Also where a pump wrote another state last, where nothing was mirrored yet, and of a halted partition."""
    halted = FAILED_OVER.shown(position(1, state=State.HALTED, reason="diverged", age_ms=SILENT_MS + 1))
    old = position(owner="owner-1")
    known = facts(
        old, halted, blocks=[block(), block(1)], ends=(15, 15, 15), members=members, holds=FAILED_OVER
    )
    rows = [standing.row for standing in standings(known)]
    assert {(row.state, "ann@east" in row.reason, "fo-7" in row.reason) for row in rows} == {
        (State.FAILED_OVER, True, True)
    }
    assert [row.lag_records for row in rows] == [5, 5, None]


def test_a_failed_over_topic_that_is_gone_or_another_one_by_now_says_that_as_well():
    gone = facts(blocks=[block(target_id="id-before")], holds=FAILED_OVER)
    again = facts(blocks=[block(topic_id="id-before")], holds=FAILED_OVER)
    (row,), (other,) = ([standing.row for standing in standings(known)] for known in (gone, again))
    assert (row.state, other.state) == (State.FAILED_OVER, State.FAILED_OVER)
    assert "target topic a.orders was deleted and created again" in row.reason


def test_a_flow_that_mirror_maker_runs_shows_its_topics_once_they_have_failed_over():
    known = facts(members=(), ran=False, owner=None, holds=FAILED_OVER)
    assert (flow_row(known), only(known).state) == (None, State.FAILED_OVER)
    assert flow_row(replace(known, holds=Holds())).state == State.NEVER_RAN


def test_what_mirror_maker_mirrors_beside_mmtool_is_told_by_it_and_the_rest_by_stored_state():
    by_mm2 = MirrorMakerProgress({TopicPartition("orders", n): 7 for n in range(2)})
    known = facts(blocks=[block()], ends=(10, 10, 10), members=(), mirror_maker=by_mm2)
    assert has_unmirrored(known)
    rows = [standing.row for standing in standings(known)]
    assert [row.state for row in rows] == [State.IDLE, State.RUNNING, State.NEVER_RAN]
    assert [row.lag_records for row in rows] == [0, 3, None]
    assert not has_unmirrored(facts(blocks=[block()], members=()))


def test_offset_runs_that_are_gone_are_not_told_as_never_mirrored():
    told = facts(position(age_ms=SILENT_MS + 1))
    (standing,) = standings(told)
    assert standing.row.state == State.HALTED
    assert "run `mmtool flow rebuild -c FILE -s a -t b --execute`" in standing.row.reason
    for other in (
        replace(told, positions={}),  # forgotten, or never begun
        replace(told, target_ids={}),  # with its topic: then it may begin again
        facts(position(age_ms=SILENT_MS + 1, at=0)),
    ):
        (standing,) = standings(other)
        assert standing.row.state == State.NEVER_RAN


def test_a_flow_that_lost_its_control_topic_is_not_told_as_one_that_never_ran():
    row = flow_row(replace(facts(blocks=[block()]), ran=False))
    assert row.state == State.HALTED
    assert row.reason.startswith("the flow's control topic on b (mmtool-control.a.internal) was deleted")
    assert flow_row(replace(facts(), ran=False)).state == State.STARTING


@pytest.mark.parametrize("state", [State.STARTING, State.RUNNING, State.CAUGHT_UP])
@pytest.mark.parametrize("age_ms", [0, SILENT_MS * 2])
def test_a_partition_whose_task_has_no_spark_slot_waits_and_says_so(state, age_ms):
    slots = SlotsRecord("owner-2", wanted=2, held=1, waiting=(0,))
    row = only(
        facts(position(state=state, age_ms=age_ms), blocks=[block()], ends=[25], slots=slots, shards=1)
    )
    assert (row.state, row.lag_records) == (State.WAITING, 15)
    assert row.reason == "Spark has 1 of 2 slots; this partition waits for a slot: check Spark's executors"


@pytest.mark.parametrize("state", [State.HALTED, State.PAUSED, State.FAILED_OVER])
def test_a_partition_that_is_not_mirrored_anyway_waits_for_no_slot(state):
    slots = SlotsRecord("owner-2", wanted=2, held=1, waiting=(0,))
    assert only(facts(position(state=state), slots=slots, shards=1)).state == state


def test_a_new_partition_waits_for_a_restart_where_topics_are_not_refreshed():
    known = facts()
    assert only(known).reason == NOT_YET
    assert only(replace(known, refreshes=False)).reason == NOT_YET_NO_REFRESH
    assert only(replace(known, refreshes=False, members=())).reason == NOT_YET_NOBODY
