"""What a failback says where the flow cannot be moved past the replayed records: its caller names the command."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mmtool.errors import OwnedElsewhereError, RefusedError, UnreachableError
from mmtool.plan.flow.moves import Action
from mmtool.plan.words import then
from mmtool.replication.flow_state import flow_moves
from mmtool.replication.flow_state.flow_moves import FlowPassing
from mmtool.translation.types import TopicPartition

ORDERS = TopicPartition("orders", 0)
RESUME = "run `mmtool failover resume op-1`"


@pytest.fixture
def remedy(monkeypatch):
    """The remedy of a failed move, as a caller that continues with a resume has it."""

    def of(error=None, action=Action.SKIP):
        def execute(_found, _say, *, is_held, again):
            assert is_held
            raise UnreachableError("west did not answer", remedy=again) if error is None else error

        move = SimpleNamespace(action=action, facts=SimpleNamespace(source=ORDERS))
        found = SimpleNamespace(refusal=None, moves={ORDERS: move})
        monkeypatch.setattr(flow_moves, "_left", lambda _flow, to: to)
        monkeypatch.setattr(flow_moves, "rehearse_seek", lambda _flow, _to: found)
        monkeypatch.setattr(flow_moves, "execute", execute)
        identity = SimpleNamespace(options="-c FILE -s east -t west", target_alias="west")
        flow = SimpleNamespace(narrowed_to=lambda _topics: None, identity=identity)
        with pytest.raises((OwnedElsewhereError, RefusedError, UnreachableError)) as caught:
            FlowPassing(print).pass_over(flow, {ORDERS: 7})
        return then(caught.value.remedy, RESUME)

    return of


def test_a_cluster_that_does_not_answer_leaves_the_resume_alone_to_be_run(remedy):
    assert remedy() == RESUME


def test_a_process_that_took_the_flow_is_stopped_before_the_resume(remedy):
    assert remedy(OwnedElsewhereError("taken", remedy="run this command again")) == (
        f"stop the process that owns the flow (`mmtool status -c FILE` names it); then {RESUME}"
    )


def test_a_flow_whose_state_does_not_match_is_rebuilt_before_the_resume(remedy):
    assert remedy(action=Action.FORGET) == (
        f"run `mmtool flow rebuild -c FILE -s east -t west --topic orders --execute`; then {RESUME}"
    )
