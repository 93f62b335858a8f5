"""Whoever writes to a journal has the lock, also after having slept; and the credentials of a lease that is held."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import ClassVar

import confluent_kafka
import pytest

from mmtool.config import ClusterSettings
from mmtool.config.credentials import PasswordLogin, Pem, Security
from mmtool.errors import OwnedElsewhereError, UnreachableError
from mmtool.kafka.groups import lease as module
from mmtool.kafka.groups import lease as operation_lock_of
from mmtool.kafka.groups.lease import GroupLease, OperationLock, _client_id
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
        (FlowMember("host-2-pid-7", "10.0.0.8", holds=True), 15, "is running: host-2-pid-7 on 10.0.0.8"),
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


SECONDS = 5.0


def cluster(word="old", certificate="old"):
    security = Security(
        protocol="SASL_SSL",
        sasl=PasswordLogin(mechanism="PLAIN", username="me", password=word),
        ca=Pem(origin="trust.pem", text=certificate),
    )
    return ClusterSettings(alias="a", bootstrap_servers="h:1", security=security)


class Member:
    """A consumer that is given the lease at once."""

    made: ClassVar[list[Member]] = []

    def __init__(self, config):
        self.certificate, self.passwords, self.closed = config["ssl.ca.pem"], [], False
        Member.made.append(self)

    def subscribe(self, _, on_assign, on_lost, **__):
        self.assign, self.lost = on_assign, on_lost
        self.is_told = False

    def poll(self, _):
        if not self.is_told:
            self.is_told = True
            self.assign(self, ["c-0"])
        time.sleep(0.001)

    def set_sasl_credentials(self, user, password):
        self.passwords.append((user, password))

    def close(self):
        self.closed = True

    def pause(self, _):
        pass

    incremental_assign = incremental_unassign = pause


@pytest.fixture
def held(monkeypatch):
    """A lease that is held; what it reported; its members."""
    monkeypatch.setattr(confluent_kafka, "Consumer", Member)
    monkeypatch.setattr(module, "_POLL_SECONDS", 0.001)
    Member.made, told = [], []
    lease = GroupLease(cluster(), "g", "c", "me", told.append)
    lease.start()
    until(lambda: told)
    yield SimpleNamespace(lease=lease, told=told, members=Member.made)
    lease.leave()


def until(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_new_password_is_given_to_the_member_that_holds_the_lease(held):
    held.lease.renew_credentials(cluster(word="new"))
    until(lambda: held.members[0].passwords)
    assert (held.members[0].passwords, len(held.members), held.told) == ([("me", "new")], 1, [True])


def test_a_new_certificate_waits_until_the_lease_is_not_held(held):
    held.lease.renew_credentials(cluster(certificate="new"))
    until(lambda: held.members[0].passwords)
    assert (len(held.members), held.told) == (1, [True])
    held.members[0].lost(held.members[0], ["c-0"])
    until(lambda: len(held.told) == 3)
    assert [(member.certificate, member.closed) for member in held.members] == [("old", True), ("new", False)]
    assert held.told == [True, False, True]


@pytest.mark.parametrize(
    ("code", "denied"),
    [
        (confluent_kafka.KafkaError.GROUP_AUTHORIZATION_FAILED, "group g"),
        (confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED, "topic c"),
    ],
)
def test_a_member_that_is_denied_names_what_is_denied(code, denied):
    lease = GroupLease(cluster(), "g", "c", "me", lambda _: None)
    lease._check(confluent_kafka.KafkaError(code))
    assert lease.failure.message.startswith(f"cluster a denies READ on {denied}: ")
