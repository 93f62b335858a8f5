"""Clients are kept for the next caller of the same cluster and login; no two processes have one."""

import asyncio
import os
import threading

import pytest
from confluent_kafka import KafkaError

from mmtool.config import ClusterSettings
from mmtool.config.credentials import PasswordLogin, Security
from mmtool.kafka import clients
from mmtool.kafka.clients import admin_client
from mmtool.kafka.wire.blocking_client import run_beside


class Client:
    """As much of the library's clients as is used; ``errors`` are reported at the next poll."""

    def __init__(self, config):
        self.config, self.errors = config, []

    def poll(self, _seconds):
        for error in self.errors:
            self.config["error_cb"](error)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(clients, "_shelves", {})
    monkeypatch.setattr(clients, "AdminClient", Client)


def west(word="old"):
    """A cluster's settings, as each load of the properties file makes them."""
    login = PasswordLogin(mechanism="PLAIN", username="me", password=word)
    security = Security(protocol="SASL_PLAINTEXT", sasl=login)
    return ClusterSettings(alias="west", bootstrap_servers="h:1", security=security)


def test_all_threads_share_one_admin_client():
    found = []
    threads = [threading.Thread(target=lambda: found.append(admin_client(west()).client)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), len(set(found))) == (8, 1)


def test_a_renewed_login_drops_the_client_with_the_old_one():
    admin = admin_client(west()).client
    renewed = admin_client(west("new")).client
    assert renewed is not admin
    assert renewed.config["sasl.password"] == "new"


def test_a_forked_process_has_clients_of_its_own():
    admin = admin_client(west()).client
    child = os.fork()
    if child == 0:
        os._exit(int(admin_client(west()).client is admin))
    assert os.waitpid(child, 0)[1] == 0
    assert admin_client(west()).client is admin


def test_a_forked_process_asks_brokers_on_a_loop_of_its_own():
    assert run_beside(asyncio.sleep(0, "parent")) == "parent"
    child = os.fork()
    if child == 0:
        os._exit(int(run_beside(asyncio.sleep(0, "child")) != "child"))
    assert os.waitpid(child, 0)[1] == 0


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
