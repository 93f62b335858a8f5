"""Whoever writes to a journal has the lock, also after having slept."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mmtool.config import ClusterSettings
from mmtool.errors import OwnedElsewhereError, UnreachableError
from mmtool.kafka.groups import lease as operation_lock_of
from mmtool.kafka.groups.lease import OperationLock, _client_id
from mmtool.plan.flow.status import FlowMember


@pytest.fixture
def lock():
    """It was given to us, and nothing else has been heard since."""
    made = OperationLock(ClusterSettings(alias="west", bootstrap_servers="nowhere:1"), "east", lambda: None)
    made._changed(held=True)
    return made


def says(monkeypatch, holder):
    def holder_now(*_):
        if isinstance(holder, Exception):
            raise holder
        return holder

    monkeypatch.setattr(operation_lock_of, "holder_now", holder_now)


def test_a_lock_that_somebody_else_has_by_now_is_not_ours(lock, monkeypatch):
    """Frozen for a minute between two steps: its session is over, and its own thread has not been told yet."""
    says(monkeypatch, FlowMember("mmtool/1-operator-host-2-pid-7", "10.0.0.8", holds=True))
    with pytest.raises(OwnedElsewhereError, match="has started: mmtool/1-operator-host-2-pid-7"):
        lock.hold()


@pytest.mark.parametrize(
    "holder",
    [
        FlowMember(_client_id(), "10.0.0.7", holds=True),
        None,
        UnreachableError("the coordinator of the group moves"),
    ],
    ids=["ours", "of nobody, while members come", "not told"],
)
def test_a_lock_of_which_nothing_else_is_told_is_ours(lock, monkeypatch, holder):
    says(monkeypatch, holder)
    lock.hold()


class Waits:
    """A lock that never comes; each look for it takes the seconds that it may."""

    now = 1000.0

    def wait(self, seconds):
        self.now += seconds
        return False


@pytest.mark.parametrize(
    ("holder", "seconds", "said"),
    [
        (
            FlowMember("host-2-pid-7", "10.0.0.8", holds=True),
            15,
            "east->west is running: host-2-pid-7 on 10.0.0.8",
        ),
        (None, 60, "mmtool.failover.east on west and was assigned no partition within 60 s"),
    ],
    ids=["of somebody", "of nobody"],
)
def test_an_operation_waits_for_its_lock_as_long_as_a_newcomer_to_a_flow_does(
    lock, monkeypatch, holder, seconds, said
):
    says(monkeypatch, holder)
    lock._held = waits = Waits()
    monkeypatch.setattr(operation_lock_of, "time", SimpleNamespace(monotonic=lambda: waits.now))
    with pytest.raises((OwnedElsewhereError, UnreachableError), match=said):
        lock.hold()
    assert seconds <= waits.now - Waits.now < seconds + 2
