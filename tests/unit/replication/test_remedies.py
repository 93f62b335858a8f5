"""What an operator reads to do about halted and refused partitions, and how often halted ones are tried again."""

import asyncio
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.maps import ORDERS, blocks_of
from mmtool.errors import RefusedError, UnreachableError
from mmtool.kafka.batches import BatchError
from mmtool.kafka.batches.header import CorruptBatchError, LargeBatchError
from mmtool.kafka.state.control_view import ControlView
from mmtool.plan.flow.moves import Action
from mmtool.plan.records.documents import OwnerRecord, RefusedRecord
from mmtool.plan.records.identity import FlowIdentity
from mmtool.plan.topics.facts import BEGIN_AGAIN, HaltReason, missing_right, source_made_again
from mmtool.plan.words import retried
from mmtool.replication.driver.context import OwnedState
from mmtool.replication.driver.round import FIRST_RETRY_SECONDS, HaltRetry
from mmtool.replication.flow_state.flow_moves import _refuse_other, refusal_of
from mmtool.replication.ownership import internal_topics
from mmtool.replication.ownership.internal_topics import Refusals
from mmtool.replication.pump.batch_prep import why
from mmtool.replication.pump.log_changes import target_cut
from mmtool.translation.types import ClusterId, DownstreamOffset, TopicPartition

FLOW = "-c FILE -s east -t west"
PARTITION = SimpleNamespace(place=TopicPartition("orders", 3), target_topic="east.orders", flow_options=FLOW)
LEADER = "make another replica the leader of the source partition; if every replica has the same bytes, skip the batch:"


@pytest.mark.parametrize(
    ("error", "offset", "more"),
    [
        (CorruptBatchError("the checksum is wrong", 812), "812", ""),
        (BatchError("the checksum is wrong"), "OFFSET", "; OFFSET is the first offset after the batch"),
    ],
    ids=["its end is known", "its end is unknown"],
)
def test_a_damaged_batch_is_skipped_with_a_command_that_is_whole(error, offset, more):
    said = why(error, PARTITION)
    assert said.startswith(f"the checksum is wrong: {LEADER} stop `mmtool replicate`, write")
    assert f"`orders,3,{offset}` to a file offsets.csv, run `mmtool flow seek {FLOW} --csv" in said
    assert f"start `mmtool replicate` again{more}" in said


def test_a_batch_that_is_only_too_large_to_decode_is_copied_under_a_higher_limit():
    """Its bytes are intact on every replica: another leader has the same."""
    said = why(LargeBatchError(4, "9 records", "5", 13), PARTITION)
    assert said.startswith("the batch at offset 4 has 9 records; mmtool decodes at most 5 of one batch")
    assert "larger than max.message.bytes of east.orders on the target, raise that limit" in said
    assert "leader" not in said
    assert "write the line `orders,3,13` to a file" in said


def refused(*reasons):
    return [
        SimpleNamespace(
            action=Action.REFUSE,
            reason=reason,
            facts=SimpleNamespace(source=TopicPartition("orders", number)),
        )
        for number, reason in enumerate(reasons)
    ]


def test_a_refused_move_says_what_its_reason_means():
    error = refusal_of(refused("beyond_source_end", "beyond_source_end", "partition_missing"), FLOW)
    assert error.code == "refused"
    first, second = error.message.split("; ")
    assert first.startswith("2 partitions cannot be moved, for example orders-0: beyond_source_end (")
    assert second.startswith("1 partition cannot be moved, for example orders-2: partition_missing (")
    assert "`mmtool flow forget -c FILE -s east -t west --topic TOPIC --execute` deletes" in error.remedy
    assert refusal_of(refused("beyond_source_end"), FLOW).code == "beyond_source_end"


@pytest.mark.parametrize(
    ("remedy", "said"),
    [
        ("", "east is gone"),
        ("run the same command again", "east is gone"),
        ("check the brokers, then run the same command again", "east is gone; check the brokers"),
        ("grant READ; then run the same command again", "east is gone; grant READ"),
    ],
)
def test_what_mmtool_retries_by_itself_asks_for_no_second_run(remedy, said):
    assert retried(UnreachableError("east is gone", remedy=remedy)) == said
    assert retried(KeyError()) == "KeyError"


PLACE = (ORDERS.topic_id, 0)
IDENTITY = FlowIdentity(ClusterId("east-id"), ClusterId("west-id"), "east", "west")
PLAIN = HaltReason("a batch of the target is of another producer")


def refused_over(standing):
    move = SimpleNamespace(action=Action.SKIP, facts=SimpleNamespace(source=TopicPartition("orders", 0)))
    run = SimpleNamespace(standing=standing, flow=SimpleNamespace(identity=IDENTITY))
    with pytest.raises(RefusedError) as caught:
        _refuse_other({PLACE: move}, {PLACE: move}, run)
    return caught.value


def halted(reason):
    standing = OwnedState({}, {PLACE: blocks_of(ORDERS, [], 0)[-1]})
    standing.halt(PLACE, reason)
    return standing


REASONS = {
    "its own cure": (HaltReason("target topic west.orders was deleted", BEGIN_AGAIN), BEGIN_AGAIN),
    "target cut": (
        target_cut(ORDERS, DownstreamOffset(3), DownstreamOffset(9), IDENTITY.options),
        "flow rebuild",
    ),
    "source recreated": (source_made_again("orders"), "mmtool.on.topic.recreated = restart"),
    "no cure": (PLAIN, "mmtool flow rebuild -c FILE -s east -t west --topic orders.payments --execute"),
}


@pytest.mark.parametrize("kind", REASONS)
def test_it_was_refused_for_the_halt_and_the_remedy_is_the_halts(kind):
    reason, cure = REASONS[kind]
    error = refused_over(halted(reason))
    cause = getattr(reason, "cause", reason)
    assert error.message == f"orders-0 was not moved: it is halted: {cause}"
    assert cure in error.remedy
    assert ("flow rebuild" in error.remedy) == ("rebuild" in cure)
    assert error.code == "halted"


def test_a_partition_whose_source_has_no_leader_is_moved_when_it_has_one():
    standing = halted(HaltReason("orders-0 has no leader"))
    standing.later.add(PLACE)
    assert refused_over(standing).remedy == "run the same command again when the source partition can be read"


def test_a_reason_reads_as_one_sentence_and_keeps_cause_and_cure():
    reason = HaltReason("it was deleted", "create it")
    assert (reason, reason.cause, reason.cure) == ("it was deleted: create it", "it was deleted", "create it")
    assert HaltReason("it was deleted") == "it was deleted"


@pytest.mark.parametrize(
    ("reason", "lacks"), [(missing_right("READ on topic a"), True), (HaltReason("cut", "grant it"), False)]
)
def test_a_missing_right_is_known_again_in_a_reason_that_a_worker_has_written(reason, lacks):
    stored = HaltReason.stored(str(reason))
    assert (stored, stored.lacks_right, reason.lacks_right) == (reason, lacks, lacks)


DENIED = missing_right("WRITE on target topic a")
REFUSED = HaltReason("the target refuses the batch at source offset 7")


@pytest.mark.parametrize(
    ("reasons", "seconds", "when"),
    [
        ([DENIED], 100, [15, 30, 45, 60, 75, 90]),
        ([REFUSED], 300, [15, 45, 105, 225]),
        ([DENIED, REFUSED], 70, [15, 30, 45, 60]),
        ([], 1000, []),
    ],
    ids=["a missing right", "anything else, less and less often", "both", "nothing"],
)
def test_a_missing_right_is_tried_every_fifteen_seconds_and_kept_waiting_by_nothing(reasons, seconds, when):
    again = HaltRetry()
    assert [now for now in range(seconds) if again.due(frozenset(reasons), float(now))] == when


def test_what_is_new_is_tried_soon_and_what_is_halted_again_is_not_new():
    again = HaltRetry()
    assert not again.due({REFUSED}, 0)
    assert again.due({REFUSED}, 15)
    assert not again.due(set(), 16)
    assert not again.due({REFUSED}, 20)
    assert not again.due({REFUSED, DENIED}, 21)
    assert again.due({REFUSED, DENIED}, 36)


def test_a_right_that_is_missing_again_is_tried_as_soon_as_the_first_time():
    again = HaltRetry()
    for now in range(700):
        again.due({REFUSED, DENIED} if now < 30 else {REFUSED}, now)
    due = [now for now in range(700, 800) if again.due({REFUSED, DENIED}, now)]
    assert due[0] - 700 <= FIRST_RETRY_SECONDS
    assert [later - earlier for earlier, later in pairwise(due)] == [15] * (len(due) - 1)


@given(st.lists(st.sets(st.sampled_from([DENIED, REFUSED, HaltReason("gone")])), max_size=200))
def test_tries_are_never_closer_than_fifteen_seconds(halted):
    again = HaltRetry()
    due = [now for now, reasons in enumerate(halted) if again.due(frozenset(reasons), float(now))]
    assert all(later - earlier >= FIRST_RETRY_SECONDS for earlier, later in pairwise(due))


DENIED_TOPICS = {"orders": "CREATE is denied", "bills": "CREATE is denied"}


@pytest.fixture
def target(monkeypatch):
    """A control topic that owner ``me`` has taken after ``before``; ``writes`` counts who came there to write."""
    view = ControlView()
    for word in (RefusedRecord("before", "orders", "it could not be created"), OwnerRecord("me", "h", 1, 1)):
        view.apply(word.key, word.encode(), view.end)
    made = SimpleNamespace(view=view, writes=0, away=False)

    async def write(_flow, _topic, documents, *, tombstones):
        made.writes += 1
        if made.away:
            raise UnreachableError("west does not answer")
        records = [(word.key, word.encode()) for word in documents] + [(key, None) for key in tombstones]
        for key, value in records:
            view.apply(key, value, view.end)

    monkeypatch.setattr(internal_topics, "write_documents", write)
    made.words = Refusals(SimpleNamespace(identity=SimpleNamespace(control_topic="control")), "me")
    made.words.start(view)
    return made


def tell(target, reasons):
    asyncio.run(target.words.tell(reasons))
    return target.view.refused


def test_what_is_refused_is_on_record_until_it_is_not_any_more(target):
    assert tell(target, DENIED_TOPICS) == DENIED_TOPICS
    assert tell(target, {"bills": "CREATE is denied"}) == {"bills": "CREATE is denied"}
    assert (tell(target, {}), target.view.refusals) == ({}, {})


def test_of_what_the_source_has_no_more_the_word_says_so_until_it_is_refused_for_something_else(target):
    asyncio.run(target.words.tell(DENIED_TOPICS, {"bills"}))
    assert target.view.refused_beside({"orders", "bills"}) == {"orders": "CREATE is denied"}
    assert tell(target, DENIED_TOPICS) == target.view.refused_beside({"orders", "bills"}) == DENIED_TOPICS


def test_what_is_on_record_is_not_written_again(target):
    for _ in range(3):
        tell(target, DENIED_TOPICS)
    assert target.writes == 1


def test_a_target_that_is_away_is_told_at_the_next_look_and_keeps_nothing_waiting(target):
    target.away = True
    assert tell(target, DENIED_TOPICS) == {}
    target.away = False
    assert tell(target, DENIED_TOPICS) == DENIED_TOPICS
