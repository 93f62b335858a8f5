"""A broker's name with two addresses of which one is silent: every client of mmtool reaches the other one in time."""

import asyncio
import subprocess
import sys

import pytest
from confluent_kafka import KafkaException

from kit.black_hole import SilentAddress
from kit.link import Link
from mmtool.config import ClusterSettings
from mmtool.errors import UnreachableError
from mmtool.kafka import clients
from mmtool.kafka.clients import wire_cluster
from mmtool.kafka.wire import cluster as wire
from mmtool.kafka.wire import connection
from mmtool.lab.ports import PortReservation

pytestmark = pytest.mark.kafka

SILENT, LIVE, NAME = "127.0.0.2", "127.0.0.1", "two.test"
SECONDS = 8.0
TRIES = 6
"""librdkafka begins with any address: that it begins with the live one each time is unlikely."""

_ADMIN = """
import sys
from confluent_kafka.admin import AdminClient
from mmtool.config import ClusterSettings
from mmtool.kafka.clients import librdkafka_config, new_client
cluster = ClusterSettings(alias="lab", bootstrap_servers=sys.argv[1])
for _ in range(int(sys.argv[2])):
    client = new_client(AdminClient, librdkafka_config(cluster, role="admin"), cluster)
    assert client.list_topics(timeout=float(sys.argv[3])).brokers
"""


@pytest.fixture
def port(fleet):
    """Of a broker at the live address, and of the silent one."""
    found = int(fleet["target"].bootstrap.rpartition(":")[2])
    with SilentAddress(SILENT, found):
        yield found


@pytest.fixture
def resolving(monkeypatch):
    """Makes the name resolve to these addresses, in their order."""

    def to(*addresses):
        async def resolved(_loop, host, port, **_):
            return [(2, 1, 6, "", (at, port)) for at in (addresses if host == NAME else (host,))]

        monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", resolved)

    monkeypatch.setattr(connection, "_tried_at", {})
    return to


def clusters(port, count):
    settings = ClusterSettings(alias="lab", bootstrap_servers=f"{NAME}:{port}")
    return [wire_cluster(settings, "test", role="admin") for _ in range(count)]


def test_the_second_address_answers_and_the_next_connection_begins_with_it(port, resolving):
    resolving(SILENT, LIVE)

    async def started():
        took = []
        for cluster in clusters(port, 2):
            began = asyncio.get_running_loop().time()
            await cluster.start()
            took.append(asyncio.get_running_loop().time() - began)
            await cluster.close()
        return took

    first, second = asyncio.run(started())
    assert (first < SECONDS, second < first) == (True, True)


def test_a_name_of_which_no_address_answers_is_told_with_its_addresses(port, resolving, monkeypatch):
    monkeypatch.setattr(wire, "_CONNECT_SECONDS", 3.0)
    resolving(SILENT, "127.0.0.3")
    with SilentAddress("127.0.0.3", port), pytest.raises(UnreachableError) as error:
        asyncio.run(clusters(port, 1)[0].start())
    assert error.value.message.endswith("no answer in time; addresses tried: 127.0.0.2, 127.0.0.3")


def test_librdkafka_comes_to_the_second_address_within_the_time_of_a_request(port, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text(f"{SILENT} {NAME}\n{LIVE} {NAME} localhost\n", encoding="utf-8")
    inside = 'mount --bind "$0" /etc/hosts && exec "$@"'
    asked = [sys.executable, "-c", _ADMIN, f"{NAME}:{port}", str(TRIES), str(SECONDS)]
    own_mounts = ["unshare", "--map-root-user", "--mount", "sh", "-c", inside, str(hosts)]
    ran = subprocess.run([*own_mounts, *asked], capture_output=True, text=True, check=False, timeout=120)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_an_admin_client_goes_back_to_the_bootstrap_servers_of_a_cluster_that_was_rebuilt(fleet):
    """Its brokers have other addresses, and the one that the client knew is gone."""
    ports = {side: int(fleet[side].bootstrap.rpartition(":")[2]) for side in ("source", "target")}
    reserved = PortReservation()
    entrance = reserved.take()
    reserved.release()
    cluster = ClusterSettings(alias="lab", bootstrap_servers=f"{LIVE}:{entrance}")

    def known():
        metadata = clients.admin_client(cluster).client.list_topics(timeout=SECONDS)
        return [broker.port for broker in metadata.brokers.values()]

    with Link(entrance, ports["source"]):
        assert known() == [ports["source"]]
    fleet["source"].stop_broker(0)
    try:
        with pytest.raises(KafkaException):
            known()
        with Link(entrance, ports["target"]):
            assert known() == [ports["target"]]
    finally:
        fleet["source"].start_broker(0)
