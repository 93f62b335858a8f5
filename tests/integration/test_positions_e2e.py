"""``translate-offsets --positions`` on real clusters: what programs keep outside Kafka goes on record for record."""

import json
import time

import pytest

from kit.connect_worker import ConnectWorker
from kit.kafka_tools import consumer_groups
from kit.load import Load, Transactions, produce
from kit.lookups import committed
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, read_topic

pytestmark = [pytest.mark.kafka]

PARTITIONS = 3
READ = (50, 0, 60)
"""How many records a program has read of each partition."""


class Moved:
    """A topic with aborted records and markers, so that no offset is the same on both clusters, and its positions."""

    def __init__(self, bench):
        self.topic, self.bench = f"positions-{time.monotonic_ns()}", bench
        self.source, self.target = (bench.fleet[side].bootstrap for side in ("source", "target"))
        create_topic(self.source, self.topic, PARTITIONS)
        produce(
            self.source, Load(self.topic, 300, PARTITIONS, 100, transactions=Transactions(self.topic, 10, 3))
        )
        self.properties = bench.properties(self.topic)
        assert bench.catch_up(self.properties).code == 0
        self.remote = bench.flow(self.properties).remote_topic(self.topic)
        self.here, self.there = (
            self.values(at, name) for at, name in ((self.source, self.topic), (self.target, self.remote))
        )

    @staticmethod
    def values(bootstrap, topic):
        """Offset by value, for each partition."""
        records = read_topic(bootstrap, topic)
        return [
            {one.value: one.offset for one in records if one.partition == partition}
            for partition in range(PARTITIONS)
        ]

    def csv(self, path, topic, sides, header=""):
        """A file with the positions of a program that has read so many records of each partition."""
        offsets = (list(side.values())[number] for side, number in zip(sides, READ, strict=True))
        path.write_text(header + "".join(f"{topic},{n},{offset}\n" for n, offset in enumerate(offsets)))
        return path

    def unread(self, sides):
        """Each partition's offset of the first unread record, by the records that the source has."""
        first = (list(here)[number] for here, number in zip(self.here, READ, strict=True))
        return {n: side[value] for n, (side, value) in enumerate(zip(sides, first, strict=True))}


@pytest.fixture(scope="module")
def moved(bench):
    return Moved(bench)


@pytest.fixture
def translate(mmtool, moved, tmp_path):
    def run(*words, topic=None, sides=None, properties=None, header=""):
        file = moved.csv(tmp_path / "positions.csv", topic or moved.topic, sides or moved.here, header)
        config = properties or moved.properties
        return mmtool("translate-offsets", "-c", config, "--positions", file, *words)

    return run


@pytest.fixture
def without_source(moved, tmp_path):
    """The same flow, with an address of the source where nothing listens."""
    path = tmp_path / "without-source.properties"
    lines = moved.properties.read_text().splitlines()
    path.write_text(
        "\n".join(
            "source.bootstrap.servers = 127.0.0.1:9" if line.startswith("source.bootstrap.servers") else line
            for line in lines
        )
    )
    return path


def offsets_of(answer, key):
    assert answer.code == 0, answer.stderr
    assert {row["exactness"] for row in answer.rows} == {"exact"}
    return {row["partition"]: row[key] for row in answer.rows}


def test_positions_are_translated_to_the_first_unread_record_in_both_directions(moved, translate):
    header = "topic,partition,offset\n"
    assert offsets_of(translate("-o", "json", header=header), "downstream_offset") == moved.unread(
        moved.there
    )
    back = translate("--reverse", "-o", "json", topic=moved.remote, sides=moved.there)
    assert offsets_of(back, "upstream_offset") == moved.unread(moved.here)


def test_without_the_source_the_same_offsets_come_from_the_target_alone(moved, translate, without_source):
    how = {"properties": without_source}
    forward = translate("-o", "json", "--timeout", "5s", **how)
    assert offsets_of(forward, "downstream_offset") == moved.unread(moved.there)
    assert "the offsets are translated by what target has stored" in forward.stderr
    back = translate(
        "--reverse", "-o", "json", "--timeout", "5s", topic=moved.remote, sides=moved.there, **how
    )
    assert offsets_of(back, "upstream_offset") == moved.unread(moved.here)


def test_without_the_source_only_what_needs_it_is_refused(mmtool, moved, without_source, tmp_path):
    file = tmp_path / "some.csv"
    file.write_text(
        f"{moved.topic},0,0\n{moved.topic},0{PARTITIONS},0\n{moved.topic},1,99999\nelsewhere,0,0\n"
    )
    ended = mmtool(
        "translate-offsets", "-c", without_source, "--positions", file, "--timeout", "5s", "-o", "json"
    )
    reasons = ["", "source_unreachable", "beyond_mirror", "not_mirrored"]
    assert (ended.code, [row["reason"] for row in ended.rows]) == (3, reasons)


def test_kafkas_tool_takes_the_file_of_as_kafka(moved, translate, tmp_path):
    file = tmp_path / "reset.csv"
    file.write_text(translate("--as", "kafka").stdout)
    group = f"{moved.topic}-reset"
    consumer_groups(
        moved.target, *("--reset-offsets", "--from-file", str(file), "--group", group, "--execute")
    )
    expected = {(moved.remote, n): offset for n, offset in moved.unread(moved.there).items()}
    assert committed(moved.target, group) == expected


def test_a_stopped_sink_connector_goes_on_at_the_offsets_of_as_connect(moved, translate, tmp_path):
    with ConnectWorker(moved.target, tmp_path) as connect:
        config = {"connector.class": "PrintedSink", "topics": moved.remote, "tasks.max": "1"}
        wanted = {"name": "sink", "initial_state": "STOPPED", "config": config}
        connect.ask("POST", "/connectors", wanted)
        connect.ask("PATCH", "/connectors/sink/offsets", translate("--as", "connect").stdout)
        connect.ask("PUT", "/connectors/sink/resume")
        unread = sorted(
            (moved.remote, n, offset, value.decode())
            for n, (side, start) in enumerate(
                zip(moved.there, moved.unread(moved.there).values(), strict=True)
            )
            for value, offset in side.items()
            if offset >= start
        )
        wait_until(lambda: len(connect.sunk()) >= len(unread), f"all records in {connect.log}", 60)
        assert sorted(connect.sunk()) == unread


def test_the_json_of_as_spark_names_every_partition_of_the_mirror(moved, translate, mmtool, tmp_path):
    unread = {str(n): offset for n, offset in moved.unread(moved.there).items()}
    assert json.loads(translate("--as", "spark").stdout) == {moved.remote: unread}
    file = tmp_path / "one.csv"
    file.write_text(f"{moved.topic},1,0\n")
    ended = mmtool("translate-offsets", "-c", moved.properties, "--positions", file, "--as", "spark")
    assert json.loads(ended.stdout) == {moved.remote: {"0": -2, "1": 0, "2": -2}}
    file.write_text(f"{moved.topic},0,0\n{moved.topic},1,99999\n{moved.topic},2,0\n")
    refused = mmtool("translate-offsets", "-c", moved.properties, "--positions", file, "--as", "spark")
    assert (refused.code, refused.stdout) == (3, "")
