"""A real Kafka Streams application, exactly once and with state, moves away and back with every count right."""

import asyncio
import json
import os
import re
from collections import Counter

import pytest

from kit.load import Load, produce
from kit.lookups import groups_of
from kit.mirror_flow import Owner
from kit.processes import run_mmtool
from kit.streams_app import counting_by_key
from mmtool.config import load_settings
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, end_offsets, read_topic
from mmtool.plan.groups.facts import Commit, GroupKind
from mmtool.translation.types import TopicPartition

pytestmark = pytest.mark.kafka

IDENTITY = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}
KEYS, EACH = 5, 40
PATIENCE_SECONDS = 60


async def mirror(settings):
    owner = await Owner.take(settings)
    await owner.catch_up()
    await owner.close()


class Words:
    """An application that counts words, and where it runs."""

    protocol = "classic"

    def __init__(self, bench, folder, name="words"):
        self.bench, self.folder = bench, folder
        self.name = f"{name}-{os.getpid()}"
        self.input, self.output = f"{self.name}-in", f"{self.name}-out"
        self.changelog, self.written = f"{self.name}-counts-changelog", 0
        self.mirrored = f"{self.input}|{self.name}-.*-(changelog|repartition)"
        back = {"target->source.enabled": "true", "target->source.topics": self.mirrored}
        self.properties = bench.properties(self.mirrored, **IDENTITY, **back)
        for side in ("source", "target"):
            create_topic(self.at(side), self.output, 1)
        create_topic(self.at("source"), self.input, 1)

    def at(self, side):
        return self.bench.fleet[side].bootstrap

    def write(self, side):
        load = Load(
            self.input, KEYS * EACH, 1, 100, keys="cyclic", key_count=KEYS, first_sequence=self.written
        )
        produce(self.at(side), load)
        self.written += KEYS * EACH

    def run(self, side, while_running=lambda: None):
        """Until it has counted what was written last; it has left the group afterwards."""
        counted = len(read_topic(self.at(side), self.output)) + KEYS * EACH
        with counting_by_key(
            self.at(side),
            self.name,
            (self.input, self.output),
            self.folder / f"{side}-{self.written}",
            self.protocol,
        ):
            wait_until(
                lambda: len(read_topic(self.at(side), self.output)) >= counted, "the counts", PATIENCE_SECONDS
            )
            while_running()
        groups = groups_of(self.at(side))
        wait_until(lambda: groups.describe([self.name])[self.name].idle, "an idle group", PATIENCE_SECONDS)

    def ask_while_it_runs(self):
        self.running = run_mmtool(self.folder / "running", *self.line("planned"))

    def failover(self, folder, mode):
        return run_mmtool(folder / mode, *self.line(mode), "--execute", "--yes")

    def line(self, mode):
        flow = ("-s", "source", "-t", "target", "-c", str(self.properties))
        return ("failover", mode, *flow, "-g", self.name, "-o", "json")

    def counts(self, side):
        """The last count of each key."""
        return {record.key: int(record.value) for record in read_topic(self.at(side), self.output)}

    def expected(self, side):
        """How often each key is there, of the topic that the application reads."""
        return Counter(record.key for record in read_topic(self.at(side), self.input))


@pytest.fixture(scope="module")
def words(bench, tmp_path_factory):
    """It has counted all of its input, which is mirrored; of its changelog nothing is."""
    made = Words(bench, tmp_path_factory.mktemp("words"))
    made.write("source")
    asyncio.run(mirror(load_settings(made.properties, os.environ).one("source", "target")))
    made.run("source", while_running=made.ask_while_it_runs)
    return made


def test_while_it_runs_it_is_told_that_its_members_stay_after_a_clean_close(words):
    assert words.running.code == 3, words.running
    assert f"group {words.name} is active on source" in words.running.stderr
    assert "Kafka Streams members stay until session.timeout.ms" in words.running.stderr


def test_without_its_changelog_it_is_refused_and_moved_only_when_that_is_allowed(mmtool, words, bench):
    line = ("failover", "planned", "-c", bench.properties(words.input, **IDENTITY), "-g", words.name)
    answer = mmtool(*line, "--execute", "--yes", "-o", "json")
    (error,) = json.loads(answer.stdout)["errors"]
    assert (answer.code, error["code"]) == (3, "state_not_mirrored"), answer
    assert f"{words.changelog} (topics: not matched by {words.input})" in error["message"]
    assert mmtool(*line, "--without-state").code == 0


def test_after_a_planned_failover_every_count_goes_on(words, tmp_path):
    """The input was there at the start of the drain, and nothing of the changelog."""
    assert end_offsets(words.at("target"), words.changelog) == {}
    answer = words.failover(tmp_path, "planned")
    assert (answer.code, answer.rows[0]["state"]) == (0, "completed"), answer.stderr
    words.write("target")
    words.run("target")
    assert words.counts("target") == words.expected("target")


def test_after_the_failback_every_count_goes_on(words, tmp_path):
    answer = words.failover(tmp_path, "failback")
    assert (answer.code, answer.rows[0]["state"]) == (0, "completed"), answer.stderr
    words.write("source")
    words.run("source")
    assert words.counts("source") == words.expected("source")


def test_an_application_that_has_changed_to_the_streams_protocol_moves_and_comes_home(
    mmtool, bench, tmp_path
):
    """Offset sync has made a consumer group of it on the target, as it was one when it was mirrored."""
    app = Words(bench, tmp_path, "streams")
    app.write("source")
    app.run("source")
    asyncio.run(mirror(load_settings(app.properties, os.environ).one("source", "target")))
    flow = ("-s", "source", "-t", "target", "-c", app.properties, "-g", app.name)
    assert mmtool("groups", "sync", "--once", *flow).code == 0
    app.protocol = "streams"
    app.write("source")
    app.run("source")
    for mode, there in (("planned", "target"), ("failback", "source")):
        answer = app.failover(tmp_path, mode)
        assert (answer.code, answer.rows[0]["state"]) == (0, "completed"), answer.stderr
        assert answer.rows[0]["groups"][0]["kind"] == "streams"
        app.write(there)
        app.run(there)
        assert app.counts(there) == app.expected(there)
        assert groups_of(app.at(there)).listing().kind(app.name) is GroupKind.STREAMS


def test_the_topics_of_foreign_key_joins_are_state_and_a_name_alone_is_no_application(
    mmtool, bench, tmp_path
):
    """The application's other topics are mirrored, by the pattern that was recommended before."""
    source, app, plain = bench.fleet["source"].bootstrap, f"joins-{os.getpid()}", f"plain-{os.getpid()}"
    topics = [f"{app}-in", f"{app}-out", f"{plain}-customers-changelog"]
    for topic in topics:
        create_topic(source, topic, 1)
    load = Load(topics[0], KEYS * EACH, 1, 100, keys="cyclic", key_count=KEYS)
    produce(source, load)
    with counting_by_key(source, app, (topics[0], topics[1]), tmp_path / "app", "classic", "join"):
        wait_until(lambda: len(read_topic(source, topics[1])) >= KEYS * EACH, "the counts", PATIENCE_SECONDS)
    groups = groups_of(source)
    wait_until(lambda: groups.describe([app])[app].idle, "an idle group", PATIENCE_SECONDS)
    place = TopicPartition(topics[0], 0)
    assert groups.alter(plain, {place: Commit(9)}) == {}

    narrow = bench.properties(f"{app}-in|{app}-.*-(changelog|repartition)", **IDENTITY)
    answer = mmtool("failover", "planned", "-c", narrow, "-g", app, "-o", "json")
    (error,) = json.loads(answer.stdout)["errors"]
    assert (answer.code, error["code"]) == (3, "state_not_mirrored"), answer
    rows = answer.rows[0]["groups"][0]["partitions"]
    lost = {row["topic"] for row in rows if row["reason"] in ("state_not_mirrored", "not_mirrored")}
    kinds = [
        r"-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-\d+-topic",
        r"-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-\d+-topic",
        "-by-count-subscription-registration-topic",
        "-by-count-subscription-response-topic",
    ]
    assert len(lost) == len(kinds)
    assert all(any(re.fullmatch(f"{app}{kind}", topic) for topic in lost) for kind in kinds)

    pattern = re.search(r"mirror (\S+) and", error["remedy"]).group(1)
    whole = bench.properties(f"{app}-in|{pattern}", **IDENTITY)
    assert mmtool("failover", "planned", "-c", whole, "-g", app, "-o", "json").code == 0
    answer = mmtool("failover", "planned", "-c", whole, "-g", plain, "-o", "json")
    assert answer.code == 0, answer
