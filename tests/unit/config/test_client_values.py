"""What Java's clients take loads, and real librdkafka clients are made of it; what Java refuses is refused."""

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from mmtool.config.clientkeys import CLIENT_KEYS, client_keys, librdkafka_value
from mmtool.kafka.clients import admin_client, librdkafka_config, new_client

INT, LONG = 2**31 - 1, 2**63 - 1


def extremes(key):
    """Values at both ends of what Java's clients take, and one in between."""
    match key.kind:
        case "int" | "long":
            greatest = INT if key.kind == "int" else LONG
            bounds = (*map(int, key.words), *(-greatest - 1, greatest)[len(key.words) :])
            inside = [value for value in (-1, 0, 1, 500) if bounds[0] <= value <= bounds[1]]
            return [str(value) for value in (*bounds, *inside)]
        case "boolean":
            return ["true", "FALSE"]
        case "word":
            return list(key.words)
    return ["latest" if key.name == "auto.offset.reset" else "text"]


CASES = [(role, name) for role in ("consumer", "producer", "admin") for name in sorted(client_keys(role))]


def configs(flow):
    """What mmtool's librdkafka clients of both clusters are given, by what they are."""
    for cluster in (flow.source, flow.target):
        yield AdminClient, cluster, librdkafka_config(cluster, role="admin")
        yield Consumer, cluster, librdkafka_config(cluster, role="consumer") | {"group.id": "g"}


HEAD = """\
clusters = A, B
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:1
A->B.enabled = true
"""


@pytest.mark.parametrize(("role", "name"), CASES)
def test_librdkafka_takes_what_is_made_of_every_key_at_its_ends(role, name, load):
    plain = list(configs(load(head=HEAD).flows[0]))
    for value in extremes(CLIENT_KEYS[name]):
        flow = load(f"A.{role}.{name} = {value}\nA->B.source.{role}.{name} = {value}\n", head=HEAD).flows[0]
        for (client, cluster, config), (_, _, without) in zip(configs(flow), plain, strict=True):
            if config != without:  # what does not reach librdkafka needs no client to prove it
                built = new_client(client, config, cluster)
                if client is Consumer:
                    built.close()


def test_the_admin_client_is_built_with_the_extremes(load):
    names = [name for name in sorted(client_keys("admin")) if librdkafka_value(name, "1") is not None]
    lines = "".join(f"A.admin.{name} = {extremes(CLIENT_KEYS[name])[0]}\n" for name in names)
    cluster = load(lines, head=HEAD).clusters["A"]
    assert admin_client(cluster).client is not None


def test_a_first_wait_above_the_longest_one_is_kept_as_by_java(load):
    cluster = load(
        "A.admin.reconnect.backoff.ms = 20000\nA.consumer.reconnect.backoff.max.ms = 0\n"
    ).clusters["A"]
    admin, consumer = librdkafka_config(cluster, role="admin"), librdkafka_config(cluster, role="consumer")
    assert (admin["reconnect.backoff.ms"], admin["reconnect.backoff.max.ms"]) == ("20000", "20000")
    assert consumer["reconnect.backoff.max.ms"] == "100"
    new_client(AdminClient, admin, cluster)
    new_client(AdminClient, consumer, cluster)


@pytest.mark.parametrize("name", ["receive.buffer.bytes", "send.buffer.bytes", "connections.max.idle.ms"])
def test_minus_one_means_the_same_to_librdkafka_and_needs_no_word(name, load):
    assert load(f"A.admin.{name} = -1\n").warnings == ()
    assert librdkafka_value(name, "-1").value == "0"


@pytest.mark.parametrize(
    "lines",
    [
        "A.consumer.fetch.max.bytes = 2147483647\nB.producer.acks = all\nB.producer.compression.type = zstd\n",
        "A.consumer.max.poll.interval.ms = 30000\nA.consumer.session.timeout.ms = 600000\n",
        "A.consumer.fetch.min.bytes = 0\nA.consumer.max.partition.fetch.bytes = 2147483647\n",
        "A.consumer.client.rack = r1\nB.producer.receive.buffer.bytes = -1\n",
        "A->B.source.cluster.receive.buffer.bytes = -1\nA->B.producer.override.acks = 1\n",
    ],
)
def test_settings_that_never_reach_the_data_are_named_in_one_line_with_the_reason(lines, load):
    (said,) = load(lines).warnings
    assert "without effect" in said
    assert "copies whole record batches" in said
    assert all(line.partition(" ")[0] in said for line in lines.splitlines())
