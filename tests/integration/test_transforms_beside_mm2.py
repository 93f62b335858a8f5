"""MirrorMaker 2's transforms that drop records or headers: the real one and mmtool make the same of every record."""

import time

import pytest
from confluent_kafka import Producer

from kit.processes import run_mmtool
from kit.real_mirror_maker import MirrorMaker
from mmtool.lab.topics import create_topic, end_offsets, read_topic, topics_of

pytestmark = [pytest.mark.kafka, pytest.mark.java]

OF = "org.apache.kafka.connect.transforms"
CHAIN = {
    "transforms": "internal, tombs, marked, lighter, both",
    "transforms.internal.type": f"{OF}.Filter",
    "transforms.internal.predicate": "private",
    "transforms.tombs.type": f"{OF}.Filter",
    "transforms.tombs.predicate": "tomb",
    "transforms.marked.type": f"{OF}.Filter",
    "transforms.marked.predicate": "mark",
    "transforms.lighter.type": f"{OF}.DropHeaders",
    "transforms.lighter.headers": "trace, span",
    "transforms.both.type": f"{OF}.DropHeaders",
    "transforms.both.headers": "keep",
    "transforms.both.predicate": "private",
    "transforms.both.negate": "true",
    "predicates": "private, tomb, mark",
    "predicates.private.type": f"{OF}.predicates.TopicNameMatches",
    "predicates.private.pattern": "source\\\\.filtered-.*-private",
    "predicates.tomb.type": f"{OF}.predicates.RecordIsTombstone",
    "predicates.mark.type": f"{OF}.predicates.HasHeaderKey",
    "predicates.mark.name": "skip",
}
HEADERS = (
    [],
    [("trace", b"1"), ("other", None), ("trace", b"2")],
    [("skip", None)],
    [("span", b""), ("keep", b"x"), ("ünï", "é".encode())],
    [("Skip", b"1"), ("keep", b"1"), ("keep", b"2")],
)


def fill(bootstrap, topic):
    """Records with every combination of key, value and headers."""
    create_topic(bootstrap, topic, 2)
    producer = Producer({"bootstrap.servers": bootstrap})
    values = (b"value", b"", None)
    for number in range(60):
        headers = HEADERS[number % len(HEADERS)]
        key = None if number % 7 == 0 else b"%d" % number
        producer.produce(
            topic,
            values[number % 3],
            key,
            partition=number % 2,
            headers=headers,
            timestamp=1_700_000_000_000 + number,
        )
    assert producer.flush(30) == 0


def contents(bootstrap, topic):
    if topic not in topics_of(bootstrap):
        return []
    return [(r.partition, r.timestamp_ms, r.key, r.value, r.headers) for r in read_topic(bootstrap, topic)]


def test_the_real_mirror_maker_and_mmtool_leave_the_same_of_every_record(bench, tmp_path, topic_name):
    """MirrorMaker 2 mirrors to topics of another policy name, so that both write to one target."""
    stem = topic_name("filtered")
    topics = [f"{stem}-open", f"{stem}-private"]
    source, target = (bench.fleet[side].bootstrap for side in ("source", "target"))
    for topic in topics:
        fill(source, topic)
    chain = {f"source->target.{key}": value for key, value in CHAIN.items()}
    text = bench.text(f"{stem}-.*", **chain, **{"emit.checkpoints.enabled": "false"})
    path = tmp_path / "mm2.properties"
    path.write_text(text)
    answer = run_mmtool(tmp_path / "run", "replicate", "-c", str(path), "--until-caught-up", "-o", "json")
    assert answer.code == 0, answer.stderr
    ours = {topic: contents(target, f"source.{topic}") for topic in topics}
    assert 0 < len(ours[topics[0]]) < 60
    assert ours[topics[1]] == []
    verified = run_mmtool(tmp_path / "verify", "verify", "-c", str(path), "-o", "json")
    assert verified.code == 0, verified.stderr
    # the same file for the real one, towards topics with another separator
    theirs = (
        text.replace("source\\\\.filtered", "source-mm2-filtered") + "replication.policy.separator = -mm2-\n"
    )
    with MirrorMaker(theirs, tmp_path / "mm2") as mm2:
        mm2.wait_until(
            lambda: len(contents(target, f"source-mm2-{topics[0]}")) >= len(ours[topics[0]]), "its records"
        )
        time.sleep(3)  # for a record too many
        found = {topic: contents(target, f"source-mm2-{topic}") for topic in topics}
    assert found == ours
    assert sum(end_offsets(source, topics[0]).values()) == 60


def test_verify_compares_what_mirror_maker_left_and_a_take_over_continues_behind_it(
    bench, tmp_path, topic_name
):
    """MirrorMaker 2 runs the flow first; mmtool takes it over, and both parts are what the filters leave."""
    topic = topic_name("taken")
    source, target = (bench.fleet[side].bootstrap for side in ("source", "target"))
    fill(source, topic)
    chain = {f"source->target.{key}": value for key, value in CHAIN.items()}
    path = tmp_path / "mm2.properties"
    path.write_text(
        bench.text(
            topic,
            **chain,
            **{"target.offset.flush.interval.ms": "1000", "offset.lag.max": "0", "tasks.max": "4"},
        )
    )

    def run(*words):
        folder = tmp_path / str(time.monotonic_ns())
        return run_mmtool(folder, *words, "-c", str(path), "-o", "json")

    with MirrorMaker(path.read_text(), tmp_path / "mm2") as mm2:
        mm2.wait_until(lambda: len(contents(target, f"source.{topic}")) == 32, "its records")
        mm2.wait_until(lambda: run("verify").code == 0, "a sync of each partition, and equal records")
    producer = Producer({"bootstrap.servers": source})
    for number in range(6):
        producer.produce(topic, [b"more", None][number % 2], b"%d" % number, partition=number % 2)
    assert producer.flush(30) == 0
    taken = run("replicate", "--take-over", "--until-caught-up")
    assert taken.code == 0, taken.stderr
    assert "twice" not in taken.stderr
    left = contents(target, f"source.{topic}")
    assert len(left) == len(set(left[:])) == 32 + 3
    assert run("verify").code == 0
