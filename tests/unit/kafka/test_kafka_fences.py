"""Who mmtool is for a cluster's authorizer, as far as the configuration tells; and brokers that are away."""

import asyncio

import pytest

from kit.fences import PASSWORD
from mmtool.config import ClusterSettings
from mmtool.config.credentials import PasswordLogin, Pem, Security
from mmtool.kafka.admin import fences
from mmtool.kafka.admin.fences import KafkaFences, own_principals
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.metadata import MetadataAnswer, MetadataRequest
from mmtool.kafka.wire.transactions import (
    DescribedProducers,
    DescribedTransaction,
    DescribeProducersRequest,
    ListedTransaction,
    ListedTransactions,
    ListTransactionsRequest,
    ProducerState,
)
from mmtool.plan.failover.acl_rules import ANY_HOST, LITERAL, Binding
from mmtool.translation.types import TopicPartition

PLAIN = Security(
    protocol="SASL_SSL", sasl=PasswordLogin(mechanism="SCRAM-SHA-512", username="mm", password=PASSWORD)
)
CERTIFICATE = Security(protocol="SSL", certificate=Pem(origin="me.pem", text="-"))


@pytest.mark.parametrize(
    ("security", "roles", "own"),
    [
        (PLAIN, {}, ({"User:mm"}, True)),
        (Security(), {}, ({"User:ANONYMOUS"}, True)),
        (Security(protocol="SSL"), {}, ({"User:ANONYMOUS"}, True)),
        (CERTIFICATE, {}, (set(), False)),
        (PLAIN.model_copy(update={"certificate": CERTIFICATE.certificate}), {}, ({"User:mm"}, True)),
        (PLAIN, {"admin": CERTIFICATE}, ({"User:mm"}, False)),
        (Security(), {"consumer": PLAIN}, ({"User:ANONYMOUS", "User:mm"}, True)),
    ],
    ids=["sasl", "plaintext", "tls", "certificate", "sasl over mtls", "an admin's own", "a consumer's own"],
)
def test_who_mmtool_is_follows_from_how_it_connects(security, roles, own):
    settings = ClusterSettings(alias="east", bootstrap_servers="h:1", security=security, role_security=roles)
    assert own_principals(settings) == own


def test_a_cluster_is_called_by_its_alias():
    assert KafkaFences(ClusterSettings(alias="east", bootstrap_servers="h:1"), 1.0).alias == "east"


PLACE = TopicPartition("orders", 0)


async def dies():
    raise ConnectionLostError("connection refused")


async def hangs():
    await asyncio.sleep(60)


class Brokers:
    """Two; the first leads ``orders`` and coordinates its transaction, the other one is away."""

    nodes = (1, 2)

    def __init__(self, away):
        self.away = away

    async def refresh(self, *_):
        return {}

    def leader(self, *_):
        return 1

    async def send(self, node, request):
        if node == 2:
            await self.away()
        if isinstance(request, DescribeProducersRequest):
            return {PLACE: DescribedProducers(Code.NONE, [ProducerState(9, 0, 4, 1, 0, 17)])}
        if isinstance(request, ListTransactionsRequest):
            return ListedTransactions(Code.NONE, [ListedTransaction("pay", 9, "Ongoing")])
        return {"pay": DescribedTransaction(Code.NONE, 9, 60_000, 5)}


@pytest.mark.parametrize("away", [dies, hangs])
def test_a_broker_that_is_away_keeps_no_transaction_of_others_from_being_waited_for(away, monkeypatch):
    """It leads nothing that is asked about: all that it could tell of are names."""
    monkeypatch.setattr(fences, "_ANSWER_SECONDS", 0.05)
    port = KafkaFences(ClusterSettings(alias="east", bootstrap_servers="h:1"), 0.2)
    monkeypatch.setattr(port._wire, "_cluster", Brokers(away))
    monkeypatch.setattr(port._wire, "_started", True)
    (found,) = port.open_transactions([PLACE])
    assert (found.open_from, found.transactional_id) == (17, "pay")


class Controller(Brokers):
    """Takes each rule but that of ``odd``."""

    nodes = (1,)

    def __init__(self):
        self.sent = []

    async def send(self, _node, request, **_purpose):
        if isinstance(request, MetadataRequest):
            return MetadataAnswer("id", [], [])
        self.sent += [one.principal for one in request.bindings]
        return [Code.INVALID_RECORD if one.principal == "odd" else Code.NONE for one in request.bindings]


def test_a_copied_rule_that_the_broker_refuses_or_mmtool_does_not_know_is_named(monkeypatch):
    port = KafkaFences(ClusterSettings(alias="east", bootstrap_servers="h:1"), 0.2)
    monkeypatch.setattr(port._wire, "_cluster", controller := Controller())
    monkeypatch.setattr(port._wire, "_started", True)
    ann, odd, new = (
        Binding("orders", LITERAL, who, ANY_HOST, operation, "ALLOW")
        for who, operation in (("ann", "READ"), ("odd", "READ"), ("new", "16"))
    )
    failed = port.add([ann, odd, new])
    assert (controller.sent, failed.keys()) == (["ann", "odd"], {odd, new})
    assert (failed[odd].name, "does not know" in failed[new].sentence) == ("INVALID_RECORD", True)
