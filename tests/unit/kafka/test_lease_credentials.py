"""Credentials that change while a lease is held: the member stays, and a new one joins only for a new certificate."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import ClassVar

import confluent_kafka
import pytest

from mmtool.config import ClusterSettings
from mmtool.config.credentials import PasswordLogin, Pem, Security
from mmtool.kafka.groups import lease as module
from mmtool.kafka.groups.lease import GroupLease

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
