"""Clients are kept for the next caller of the same cluster and login; no two callers, or processes, have one reader."""

from __future__ import annotations

import os
import threading
import time

import pytest
from confluent_kafka import KafkaError

from mmtool.config import ClusterSettings
from mmtool.config.credentials import PasswordLogin, Security
from mmtool.kafka import clients
from mmtool.kafka.clients import admin_client, lent_reader


class Client:
    """As much of the library's clients as is used; ``errors`` are reported at the next poll."""

    def __init__(self, config):
        self.config, self.errors, self.calls = config, [], []

    def consume(self, _count, _seconds):
        for error in self.errors:
            self.config["error_cb"](error)
        return []

    def poll(self, seconds):
        self.consume(0, seconds)

    def unassign(self):
        self.calls.append("unassign")

    def close(self):
        self.calls.append("close")


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(clients, "_shelves", {})
    for library_class in ("Consumer", "AdminClient"):
        monkeypatch.setattr(clients, library_class, Client)


def west(word="old"):
    """A cluster's settings, as each reading of the properties file makes them."""
    login = PasswordLogin(mechanism="PLAIN", username="me", password=word)
    security = Security(protocol="SASL_PLAINTEXT", sasl=login)
    return ClusterSettings(alias="west", bootstrap_servers="h:1", security=security)


def lend(*, committed=False, word="old"):
    with lent_reader(west(word), committed=committed) as reader:
        return reader


def test_a_reader_is_lent_again_without_its_partitions():
    first, second = lend(), lend()
    assert (first is second, first.calls) == (True, ["unassign"] * 2)


def test_readers_that_read_other_records_are_others():
    assert lend() is not lend(committed=True)


def test_two_callers_never_have_one_reader():
    with lent_reader(west()) as one, lent_reader(west()) as other:
        assert one is not other
    assert {lend(), lend()} <= {one, other}


def test_a_reader_that_failed_is_closed():
    with pytest.raises(ZeroDivisionError), lent_reader(west()) as failed:
        raise ZeroDivisionError
    assert (failed.calls, lend() is failed) == (["close"], False)


def test_a_reader_that_heard_an_error_while_it_was_idle_is_not_lent():
    first = lend()
    first.errors.append("all brokers are down")
    assert lend() is not first


def test_a_reader_that_was_idle_for_long_is_not_lent(monkeypatch):
    first, now = lend(), time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 31)
    assert lend() is not first


def test_all_threads_share_one_admin_client():
    found = []
    threads = [threading.Thread(target=lambda: found.append(admin_client(west()).client)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), len(set(found))) == (8, 1)


def test_a_renewed_login_drops_every_client_with_the_old_one():
    with lent_reader(west()) as on_loan:
        admin, reader = admin_client(west()).client, lend()
        assert admin_client(west("new")).client is not admin
        renewed = lend(word="new")
    assert renewed not in {reader, on_loan}
    assert lend(word="new") is renewed  # not the one that was on loan meanwhile
    assert renewed.config["sasl.password"] == "new"


def test_a_forked_process_has_clients_of_its_own():
    admin, reader = admin_client(west()).client, lend()
    child = os.fork()
    if child == 0:
        shared = admin_client(west()).client is admin or lend() is reader
        os._exit(int(shared))
    assert os.waitpid(child, 0)[1] == 0
    assert (admin_client(west()).client, lend()) == (admin, reader)


def test_a_process_forked_while_clients_are_looked_up_does_not_wait_for_them():
    with clients._lock:
        child = os.fork()
        if child == 0:
            admin_client(west())
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_an_admin_client_that_has_lost_every_broker_is_replaced():
    first = admin_client(west())
    assert admin_client(west()) is first
    first.client.errors.append(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert admin_client(west()) is not first
