"""The batch wire's view of a cluster, where it is an odd one."""

import asyncio
import socket
import ssl
import struct
import time
from functools import partial
from types import SimpleNamespace

import pytest
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from kit.mirror import SOURCE_ID, TARGET_ID
from kit.resident import resident_growth
from mmtool.config import ClusterSettings
from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.kafka import patience as asking
from mmtool.kafka.clients import wire_cluster
from mmtool.kafka.errors import unreachable
from mmtool.kafka.wire import connection
from mmtool.kafka.wire.cluster import ConnectionLostError, WireCluster, remedy_after, retrying
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.connection import Connection
from mmtool.kafka.wire.metadata import BrokerAddress, MetadataRequest, PartitionLeader, TopicMetadata
from mmtool.kafka.wire.request import UnsupportedByBrokerError
from mmtool.kafka.wire.sasl import UnprovenBrokerError


@pytest.fixture
def cluster():
    return wire_cluster(ClusterSettings(alias="a", bootstrap_servers="127.0.0.1:1"), "test", role="admin")


class Answers:
    """A connection that is there, and answers as it is told to."""

    def __init__(self, send):
        self.send = send

    def close(self):
        pass

    def connected(self):
        return True


def answering(cluster, monkeypatch, *listed):
    """A cluster whose answers list these brokers, one list after the other, and that coordinates every group at 7."""
    left = list(listed)

    async def send(request):
        if "Metadata" in type(request).__name__:
            return SimpleNamespace(cluster_id="id", brokers=left.pop(0), topics=())
        return SimpleNamespace(error_code=Code.NONE, node=7, host="h", port=1)

    async def connected(*_):
        return Answers(send)

    monkeypatch.setattr(cluster, "_connect", connected)


def test_a_coordinator_is_found_when_brokers_are_listed_again(cluster, monkeypatch):
    """Who began in the moment in which none was listed would ask nobody, for ever."""
    answering(cluster, monkeypatch, [], [], [BrokerAddress(7, "h", 1)])

    async def find():
        await cluster.start()
        return await cluster.coordinator("app", seconds=5)

    assert asyncio.run(find()) == 7


def test_a_coordinator_that_came_back_at_another_address_is_asked_there(cluster, monkeypatch):
    """Under its old number, as a pod does that is started on another host."""
    answering(cluster, monkeypatch, [BrokerAddress(7, "old", 1)])
    connected = []

    async def connect(host, port):
        connected.append((host, port))
        return await before(host, port)

    before = cluster._connect
    monkeypatch.setattr(cluster, "_connect", connect)

    async def ask():
        await cluster.start()
        return await cluster.send(await cluster.coordinator("app", seconds=5), None, purpose="claims")

    asyncio.run(ask())
    assert connected[-1] == ("h", 1)


SILENT, SPEAKS = BrokerAddress(1, "silent", 1), BrokerAddress(2, "speaks", 1)


def with_a_silent_broker(cluster, monkeypatch):
    """Connects to whoever is asked for; gives the hosts that were sent something, in order."""
    asked = []

    async def send(host, _request):
        asked.append(host)
        if host == SILENT.host:
            await asyncio.Event().wait()
        return SimpleNamespace(cluster_id="id", brokers=[SILENT, SPEAKS], topics=())

    async def connected(host, _port):
        return Answers(partial(send, host))

    monkeypatch.setattr(cluster, "_connect", connected)
    monkeypatch.setattr(asking, "NEXT_SECONDS", 0.05)
    return asked


def test_a_broker_that_is_silent_holds_no_question_up_that_any_can_answer(cluster, monkeypatch):
    """And only the first of them: it is asked last from then on."""
    asked = with_a_silent_broker(cluster, monkeypatch)

    async def ask():
        await cluster.start()
        for _ in range(3):
            await asyncio.wait_for(cluster.refresh(()), 5)

    asyncio.run(ask())
    assert asked == ["127.0.0.1", "silent", "speaks", "speaks", "speaks"]


def test_a_bootstrap_server_that_is_silent_holds_no_start_up(monkeypatch):
    settings = ClusterSettings(alias="a", bootstrap_servers="silent:1,speaks:1")
    cluster = wire_cluster(settings, "test", role="admin")
    asked = with_a_silent_broker(cluster, monkeypatch)
    asyncio.run(asyncio.wait_for(cluster.start(), 5))
    assert (asked, cluster.nodes) == (["silent", "speaks"], (1, 2))


def test_a_cluster_that_lists_no_broker_is_away(cluster, monkeypatch):
    """As one does whose only broker hung for longer than its session: its controller answers, and has fenced it."""

    async def answered():
        pass

    monkeypatch.setattr(cluster, "start", answered)
    with pytest.raises(ConnectionLostError, match="cluster a lists no broker"):
        asyncio.run(cluster.refresh(()))


def test_another_cluster_that_answers_at_the_same_name_by_now_is_none_that_is_talked_to(cluster, monkeypatch):
    """The name was given to another region when this one went away: records must not go on into that one's topics."""
    told = ["ours", "theirs", "ours"]

    async def send(_request):
        which = told.pop(0)
        return SimpleNamespace(cluster_id=which, brokers=[BrokerAddress(1, which, 1)], topics=())

    async def connected(host, _port):
        if host in {"ours", "theirs"}:
            raise OSError("no route")
        return Answers(send)

    async def scene():
        await cluster.start()
        for _ in range(2):
            with pytest.raises(ConnectionLostError) as lost:
                await cluster.refresh(())
            yield str(lost.value), cluster._brokers[1].host

    async def all_of_it():
        return [one async for one in scene()]

    monkeypatch.setattr(cluster, "_connect", connected)
    away, back = asyncio.run(all_of_it())
    moved = "the brokers at a.bootstrap.servers now report cluster id theirs instead of ours"
    assert away == (moved, "ours")
    assert back == ("connecting to broker 1 of a failed: no route", "ours")


@pytest.mark.parametrize(
    ("first", "then", "leader"),
    [
        ((SOURCE_ID, 6), (SOURCE_ID, 5), 1),
        ((SOURCE_ID, 6), (SOURCE_ID, 6), 2),
        ((SOURCE_ID, 6), (SOURCE_ID, -1), 2),
        ((SOURCE_ID, 6), (TARGET_ID, 0), 2),
        (("orders", 6), ("orders", 0), 2),
    ],
    ids=["older", "as old", "untold", "made anew", "perhaps made anew"],
)
def test_a_broker_that_slept_does_not_bring_an_older_leader_back(cluster, monkeypatch, first, then, leader):
    """It says that it leads what others have led since, and its log ends where it fell asleep."""
    told = [
        [TopicMetadata("orders", topic_id, Code.NONE, [PartitionLeader(0, Code.NONE, node, epoch)])]
        for node, (topic_id, epoch) in ((1, first), (2, then))
    ]
    brokers = [BrokerAddress(1, "h", 1), BrokerAddress(2, "h", 2)]

    async def asked(_request):
        return SimpleNamespace(cluster_id="id", brokers=brokers, topics=told.pop(0))

    monkeypatch.setattr(cluster, "ask_any", asked)
    for _ in range(2):
        asyncio.run(cluster.refresh(["orders"]))
    assert cluster.leader("orders", 0) == leader


def test_a_leader_that_did_not_answer_is_looked_up_again_by_whoever_asks_next(cluster, monkeypatch):
    """It is dead, and cannot say that another leads by now."""
    told = [[PartitionLeader(0, Code.NONE, node, node)] for node in (1, 2)]
    brokers = [BrokerAddress(1, "h", 1), BrokerAddress(2, "h", 2)]

    async def asked(_request):
        topics = [TopicMetadata("orders", SOURCE_ID, Code.NONE, told.pop(0))]
        return SimpleNamespace(cluster_id="id", brokers=brokers, topics=topics)

    async def send(node, _request, *, purpose):
        if node == 1:
            raise ConnectionLostError("connection refused")
        return node

    async def twice():
        with pytest.raises(ConnectionLostError):
            await cluster.send_to_leader("orders", 0, None)
        return await cluster.send_to_leader("orders", 0, None)

    monkeypatch.setattr(cluster, "ask_any", asked)
    monkeypatch.setattr(cluster, "send", send)
    assert asyncio.run(twice()) == 2


@pytest.mark.parametrize(
    ("refused", "said", "remedy"),
    [
        (SaslAuthenticationFailed, " refuses the credentials", "check user name and password of a"),
        (UnsupportedSaslMechanismError, " refuses the login", "set a.sasl.mechanism to a mechanism of the"),
        (IllegalSaslStateError, " refuses the login", "set a.security.protocol to PLAINTEXT or SSL"),
        (UnprovenBrokerError, "", "check which brokers a.bootstrap.servers leads to"),
    ],
)
def test_a_cluster_that_refuses_the_credentials_is_not_taken_for_one_that_is_away(
    cluster, monkeypatch, refused, said, remedy
):
    """A changed password, a mechanism that the broker does not know, no SASL there, or a broker that proves nothing."""

    async def refuses(*_address, **_options):
        raise refused("Authentication failed")

    monkeypatch.setattr("aiokafka.conn.AIOKafkaConnection.connect", refuses)
    with pytest.raises(NotAuthorisedError) as error:
        asyncio.run(cluster.start())
    assert error.value.message == f"cluster a{said}: Authentication failed"
    assert error.value.remedy.startswith(remedy)


def test_brokers_that_are_too_old_end_the_start_and_every_request_with_what_to_upgrade(cluster, monkeypatch):
    async def send(request):
        request.prepare({MetadataRequest.API_KEY: (0, 6)})

    async def connected(*_):
        return Answers(send)

    monkeypatch.setattr(cluster, "_connect", connected)
    cluster._brokers = {1: BrokerAddress(1, "h", 1)}
    for asked in (cluster.start, cluster.ask_any(MetadataRequest(()))):
        with pytest.raises(UnsupportedByBrokerError) as error:
            asyncio.run(asked() if callable(asked) else asked)
        assert "a broker of a is too old: its Metadata API goes up to" in error.value.message
        assert "upgrade the brokers of a: mmtool needs Kafka 2.1 or later" in error.value.remedy


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (socket.gaierror(-2, "Name or service not known"), "check the host names in a.bootstrap.servers"),
        (ssl.SSLCertVerificationError("self-signed"), "check a.security.protocol and a.ssl.*"),
        (KafkaConnectionError("closed"), "the broker closed the connection: check a.security.protocol"),
        (ConnectionResetError(), "the broker closed the connection: check a.security.protocol"),
        (ConnectionRefusedError(), "check a.bootstrap.servers, and that the brokers of a run"),
        (TimeoutError(), "check a.bootstrap.servers, and that the brokers of a run"),
    ],
    ids=["name", "certificate", "closed", "reset", "refused", "silent"],
)
def test_each_cause_of_a_cluster_that_does_not_answer_has_its_remedy(cluster, monkeypatch, error, remedy):
    async def fails(*_address, **_options):
        raise error

    monkeypatch.setattr("aiokafka.conn.AIOKafkaConnection.connect", fails)
    with pytest.raises(UnreachableError, match="cluster a does not answer at") as raised:
        asyncio.run(cluster.start())
    assert raised.value.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (Code.NOT_ENOUGH_REPLICAS, "start the brokers of a that are down"),
        (Code.KAFKA_STORAGE_ERROR, "a log directory of a broker of a is offline"),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, "check whether the topic was deleted or recreated on a"),
    ],
)
def test_an_error_that_stays_has_the_remedy_for_its_cause(code, remedy):
    async def attempt():
        return code, None

    with pytest.raises(UnreachableError, match=f"writing failed: {code.name}") as raised:
        asyncio.run(retrying(attempt, what="writing", alias="a", seconds=0))
    assert raised.value.remedy.startswith(remedy)


def test_a_broker_that_refuses_the_credentials_while_others_take_them_is_asked_again(cluster, monkeypatch):
    """Whom it asks about passwords is away for a moment: what runs does not end of that."""
    answering(cluster, monkeypatch, [BrokerAddress(7, "127.0.0.1", 1)])

    async def refuses(*_address, **_options):
        raise SaslAuthenticationFailed("not now")

    async def ask():
        await cluster.start()
        monkeypatch.undo()
        monkeypatch.setattr("aiokafka.conn.AIOKafkaConnection.connect", refuses)
        await cluster.send(7, None)

    with pytest.raises(ConnectionLostError, match=r"broker 7: .* refuses the credentials: .*not now") as lost:
        asyncio.run(ask())
    for remedy in (remedy_after(lost.value, "otherwise"), unreachable("a", "asking", lost.value).remedy):
        assert remedy.startswith("check user name and password of a")


def test_a_client_of_tokens_that_is_another_is_another_user_of_an_open_connection():
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
    old, new = (SimpleNamespace(user=f"OAUTHBEARER as client {name}") for name in ("a", "b"))
    options = {**login, "bootstrap_servers": ["127.0.0.1:1"], "sasl_oauth_token_provider": old}
    cluster = WireCluster(options, alias="a", client_id="id")
    before = cluster._options
    cluster.renew_credentials({**options, "sasl_oauth_token_provider": new})
    assert (before["sasl_oauth_token_provider"], cluster._options["sasl_oauth_token_provider"]) == (old, new)


@pytest.mark.parametrize("host", ["a..example", f"{'a' * 64}.example"])
def test_a_name_that_can_be_none_is_a_cluster_that_does_not_answer(host):
    settings = ClusterSettings(alias="a", bootstrap_servers=f"{host}:1")
    with pytest.raises(UnreachableError, match=f"cluster a does not answer at {host}:1"):
        asyncio.run(wire_cluster(settings, "test", role="admin").start())


@pytest.mark.parametrize(("user", "password"), [("me", "new"), ("another", "old")])
def test_an_open_connection_takes_a_new_password_and_no_other_user(monkeypatch, user, password):
    """A broker refuses another user on it; new connections take both."""
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_username": "me"}
    options = {**login, "bootstrap_servers": ["127.0.0.1:1"], "sasl_plain_password": "old"}
    cluster, given = WireCluster(options, alias="a", client_id="id"), []

    async def opened(_host, _port, options, *_):
        given.append(options)
        return Answers(None)

    async def scene():
        await cluster._connect("127.0.0.1", 1)
        cluster.renew_credentials({**options, "sasl_plain_username": user, "sasl_plain_password": "new"})
        await cluster._connect("127.0.0.1", 1)

    monkeypatch.setattr("mmtool.kafka.wire.cluster.open_connection", opened)
    asyncio.run(scene())
    then, now = ((found["sasl_plain_username"], found["sasl_plain_password"]) for found in given)
    assert (then, now) == (("me", password), (user, "new"))


@pytest.fixture
def addresses(monkeypatch):
    """Of the host ``two``: at ``silent`` nobody ever answers. Returns those that were tried, in order."""
    tried = []

    async def resolved(_loop, _host, port, **_):
        return [(2, 1, 6, "", (address, port)) for address in ("silent", "live")]

    async def opened(address, *_):
        tried.append(address)
        await asyncio.sleep(60 if address == "silent" else 0)
        return Answers(None)

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", resolved)
    monkeypatch.setattr(connection, "_open_at", opened)
    monkeypatch.setattr(connection, "_tried_at", {})
    return tried


def test_a_silent_address_of_a_host_is_followed_by_the_next_one_which_comes_first_from_then_on(
    cluster, addresses, monkeypatch
):
    monkeypatch.setattr(asking, "NEXT_SECONDS", 0.05)

    async def connect_twice():
        await cluster._connect("two", 1)
        await cluster._connect("two", 1)

    asyncio.run(connect_twice())
    assert addresses == ["silent", "live", "live"]


def test_a_host_that_is_silent_is_told_with_the_addresses_that_were_tried(cluster, addresses, monkeypatch):
    monkeypatch.setattr("mmtool.kafka.wire.cluster._CONNECT_SECONDS", 0.05)
    cluster._bootstrap = ["two:1"]
    with pytest.raises(UnreachableError, match=r"no answer in time; addresses tried: silent$"):
        asyncio.run(cluster.start())


VERSIONS = {MetadataRequest.API_KEY: (7, 7)}
SECONDS = 5.0


class Socket:
    """A transport that answers the first request with these bytes, behind a correlation id."""

    def __init__(self, number, body):
        self.answer = struct.pack(">i", number) + body

    def set_protocol(self, protocol):
        self.protocol = protocol

    def set_write_buffer_limits(self, **_limits):
        pass

    def write(self, _data):
        if self.answer:
            framed, self.answer = struct.pack(">i", len(self.answer)) + self.answer, b""
            self.protocol.get_buffer(-1)[: len(framed)] = framed
            asyncio.get_running_loop().call_soon(self.protocol.buffer_updated, len(framed))

    def close(self):
        pass


def connected(socket):
    stream = SimpleNamespace(transport=socket)
    task = SimpleNamespace(cancel=lambda: None)
    opened = SimpleNamespace(_versions=VERSIONS, _writer=stream, _reader=None, _read_task=task)
    return Connection(opened, "me", SECONDS, clock=time.monotonic)


@pytest.mark.parametrize(("number", "body"), [(1, b""), (7, b""), (1, b"\x00" * 7)])
def test_an_answer_that_cannot_be_read_fails_its_own_request_at_once_as_well(number, body):
    """It is cut, or is of another request; the next request is of the same connection."""

    async def scene():
        connection = connected(Socket(number, body))
        asked = (connection.send(MetadataRequest(())) for _ in range(2))
        return await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), SECONDS / 2)

    assert [type(ended) for ended in asyncio.run(scene())] == [ConnectionError] * 2


def test_a_response_that_claims_a_gigabyte_takes_no_memory_before_it_comes():
    connection = connected(Socket(1, b""))
    with resident_growth() as growth:
        connection.get_buffer(-1)[:8] = struct.pack(">ii", 1 << 30, 1)
        connection.buffer_updated(8)
    assert growth.most < 8 << 20
    assert len(connection.get_buffer(-1)) == (1 << 30) - 4
