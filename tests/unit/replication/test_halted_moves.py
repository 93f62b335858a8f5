"""A seek over a halted partition: it is said that it was refused, why the partition is halted, and one remedy."""

from types import SimpleNamespace

import pytest

from kit.maps import ORDERS, blocks_of
from mmtool.errors import RefusedError
from mmtool.plan.flow.moves import Action
from mmtool.plan.records.identity import FlowIdentity
from mmtool.plan.topics.facts import BEGIN_AGAIN, HaltReason, source_made_again
from mmtool.replication.flow_state.flow_moves import _refuse_other
from mmtool.replication.ownership.owned_state import OwnedState
from mmtool.replication.pump.truncation import target_cut
from mmtool.translation.types import ClusterId, DownstreamOffset, TopicPartition

PLACE = (ORDERS.topic_id, 0)
IDENTITY = FlowIdentity(ClusterId("east-id"), ClusterId("west-id"), "east", "west")
PLAIN = "a batch of the target is of another producer"


def refused(standing):
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
    error = refused(halted(reason))
    cause = getattr(reason, "cause", reason)
    assert error.message == f"orders-0 was not moved: it is halted: {cause}"
    assert cure in error.remedy
    assert ("flow rebuild" in error.remedy) == ("rebuild" in cure)
    assert error.code == "halted"


def test_a_partition_whose_source_has_no_leader_is_moved_when_it_has_one():
    standing = halted("orders-0 has no leader")
    standing.later.add(PLACE)
    assert refused(standing).remedy == "run the same command again when the source partition can be read"


def test_a_reason_reads_as_one_sentence_and_keeps_cause_and_cure():
    reason = HaltReason("it was deleted", "create it")
    assert (reason, reason.cause, reason.cure) == ("it was deleted: create it", "it was deleted", "create it")
    assert HaltReason("it was deleted") == "it was deleted"
