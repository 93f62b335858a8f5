"""A flow that nothing is wrong with gets a clean bill; each problem that is planted on real clusters is found."""

import threading
import time
from itertools import pairwise
from types import SimpleNamespace

import pytest
from confluent_kafka import TopicPartition

from kit.consumers import consume, consumer_of
from kit.lab_admin import alter_topic, delete_records, grow_topic
from kit.leftovers import hang_transaction, join_as_worker
from kit.load import Load, Transactions, produce
from kit.lookups import groups_of
from kit.mirror_flow import mirror
from kit.processes import run_mmtool
from kit.streams_app import counting_by_key
from mmtool.doctor.checks import CHECKS
from mmtool.kafka.admin.cluster_details import KafkaClusterDetails
from mmtool.kafka.logs.samples import HoleQuestion, sample_holes
from mmtool.lab.fleet import Fleet
from mmtool.lab.topics import create_topic, end_offsets, read_topic, topics_of
from mmtool.translation.types import TopicPartition as Place

pytestmark = pytest.mark.kafka

RECORDS = 40
MODULES = ("retention", "topics", "groups", "transactions", "mirror_maker")
WORDS = {check.name for check in CHECKS if check.examine.__module__.rpartition(".")[2] in MODULES} - {
    "topics"
}
"""The checks of these modules but the one of flows that create no topics."""
DAY_MS = 86_400_000
MIRRORED = ("lost", "late", "short", "deleting", "stones", "fewer", "more", "fine")
LONG = "ill-" + "x" * 244
"""Legal on the source; with the alias of the source before it, it has more than 249 characters."""


def everything(bench):
    """All that clusters hold and a doctor could have changed; brokers create Kafka's own topics when they are asked."""
    sides = [bench.fleet[side].bootstrap for side in ("source", "target")]
    ends = {(side, topic): end_offsets(side, topic) for side in sides for topic in topics_of(side)}
    held = {place: of for place, of in ends.items() if not place[1].startswith("__") or any(of.values())}
    return held, [groups_of(side).listing() for side in sides]


def unwell(answer):
    rows = [row for row in answer.rows if row["check"] in WORDS]
    assert {row["check"] for row in rows} == WORDS, answer
    return [row for row in rows if row["severity"] != "ok"]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Clusters of their own: what is planted here would trouble other tests."""
    with Fleet.of(tmp_path_factory.mktemp("doctor"), "source", "target") as clusters:
        yield clusters


@pytest.fixture(scope="module")
def fit(bench):
    """A plain, a transactional and a compacted topic; a group that has read a part of each."""
    source = bench.fleet["source"].bootstrap
    create_topic(source, "fit-orders", 2)
    create_topic(source, "fit-payments", 1)
    create_topic(source, "fit-profiles", 1, **{"cleanup.policy": "compact"})
    produce(source, Load("fit-orders", RECORDS, 2, 100))
    produce(source, Load("fit-payments", RECORDS, 1, 100, transactions=Transactions("fit-writer", 10, 3)))
    produce(source, Load("fit-profiles", RECORDS, 1, 100, keys="cyclic", key_count=5))
    for topic in ("fit-orders", "fit-payments", "fit-profiles"):
        consume(source, "fit-app", [topic], at_most=RECORDS // 2)
    return bench.properties("fit-.*", **{"source->target.groups": "fit-.*"})


def test_a_flow_that_never_ran_is_well(mmtool, fit):
    answer = mmtool("doctor", "-c", fit, "-o", "json")
    assert unwell(answer) == [], answer


def test_a_flow_that_has_mirrored_all_is_well_and_nothing_was_written(mmtool, bench, fit):
    mirror(bench.flow(fit))
    before = everything(bench)
    answer = mmtool("doctor", "-c", fit, "-o", "json")
    assert unwell(answer) == [], answer
    assert everything(bench) == before


def test_a_flow_with_the_sources_offsets_is_told_of_a_target_topic_with_records_and_of_no_other(
    mmtool, bench, fit
):
    """A flow with translated offsets has no such row."""
    source, target = (bench.fleet[side].bootstrap for side in ("source", "target"))
    for name in ("kept-new", "kept-used"):
        create_topic(source, name, 2)
        create_topic(target, f"source.{name}", 2)
    produce(target, Load("source.kept-used", RECORDS, 2, 100))
    kept = bench.properties("kept-.*", **{"mmtool.offsets": "same"})
    (found,), translated = (
        [row for row in mmtool("doctor", "-c", path, "-o", "json").rows if row["check"] == "same_offsets"]
        for path in (kept, fit)
    )
    assert (found["severity"], found["subject"]) == ("problem", "source.kept-used")
    assert "partition: they halt with offsets_differ" in found["message"]
    assert translated == []


def test_a_sample_of_a_log_counts_the_offsets_without_a_record(bench, fit):
    flow, place, source = bench.flow(fit), Place("fit-payments", 0), bench.fleet["source"].bootstrap
    records = read_topic(source, place.topic, isolation="read_committed")
    behind = records[-1].offset + 1
    question = HoleQuestion(0, end_offsets(source, place.topic)[0], read_committed=True)
    sample = KafkaClusterDetails(flow.source, 10).samples({place: question}, sample_holes)[place]
    holes = sum(
        one.offset + 1 < other.offset for one, other in pairwise([SimpleNamespace(offset=-1), *records])
    )
    assert (sample.offsets, sample.missing) == (behind, behind - len(records))
    assert (sample.missing > 0, holes <= sample.holes <= sample.missing) == (True, True)


class Patient:
    """A flow with a problem of each kind."""

    def __init__(self, bench, folder):
        self.bench, self.folder = bench, folder
        self.source, self.target = (bench.fleet[side].bootstrap for side in ("source", "target"))
        self.properties = self.file("ill-.*")

    def file(self, topics, **more):
        groups = {"source->target.groups": "ill-.*, connect-ill.*", "source->target.groups.exclude": "none"}
        return self.bench.properties(topics, **groups, **more)

    def load(self, topic, **how):
        produce(self.source, Load(topic, RECORDS, 1, 100, **how))

    def mirror_some(self):
        """What the flow has mirrored before anything went wrong."""
        compact = {"cleanup.policy": "compact"}
        for name in MIRRORED:
            create_topic(self.source, f"ill-{name}", 1, **compact if name in ("deleting", "stones") else {})
            self.load(f"ill-{name}", keys="cyclic")
        mirror(self.bench.flow(self.properties))

    def break_topics(self):
        self.load("ill-lost")
        delete_records(self.source, "ill-lost", RECORDS + 5)
        alter_topic(self.source, "ill-late", retention_ms=str(10 * DAY_MS))
        alter_topic(self.target, "source.ill-late", retention_ms=str(10 * DAY_MS))
        self.load("ill-late", first_timestamp_ms=int(time.time() * 1000 - 9.5 * DAY_MS))
        alter_topic(self.target, "source.ill-short", retention_ms=str(DAY_MS))
        alter_topic(self.target, "source.ill-deleting", cleanup_policy="delete")
        alter_topic(self.source, "ill-stones", delete_retention_ms="1000")
        self.load("ill-stones", keys="cyclic")
        grow_topic(self.source, "ill-fewer", 3)
        grow_topic(self.target, "source.ill-more", 2)

    def break_names(self):
        for name in (LONG, "ill-alike", "ill-taken", "_schemas"):
            create_topic(self.source, name, 1)
        create_topic(self.target, "source_ill-alike", 1)
        create_topic(self.target, "source.ill-taken", 1)
        produce(self.target, Load("source.ill-taken", RECORDS, 1, 100))
        create_topic(self.source, "target.source.ill-again", 1)

    def break_groups(self):
        consume(self.source, "connect-ill-sink", ["ill-fine"], at_most=3)
        join_as_worker(self.source, "ill-connect")
        for topic in ("ill-counts", "ill-words"):
            create_topic(self.source, topic, 1)
        self.load("ill-words", keys="cyclic")
        for protocol in ("classic", "streams"):
            app = f"ill-app-{protocol}"
            with counting_by_key(self.source, app, ("ill-words", "ill-counts"), self.folder / app, protocol):
                time.sleep(2)

    def rows(self, mmtool, properties=None):
        answer = mmtool("doctor", "-c", properties or self.properties, "-o", "json")
        assert answer.code == 4, answer
        return {(row["check"], row["subject"]): row for row in answer.rows if row["severity"] != "ok"}


class AssigningReader:
    """A client that uses ``assign()`` and commits each second until the context ends."""

    def __init__(self, bootstrap, group, topic):
        self._bootstrap, self._group, self._topic = bootstrap, group, topic
        self._stop, self._thread = threading.Event(), threading.Thread(target=self._run)

    def _run(self):
        consumer, read = consumer_of(self._bootstrap, self._group), 0
        consumer.assign([TopicPartition(self._topic, 0, 0)])
        while not self._stop.wait(1.0):
            read += 1
            consumer.commit(offsets=[TopicPartition(self._topic, 0, read)], asynchronous=False)
        consumer.close()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


@pytest.fixture(scope="module")
def patient(bench, tmp_path_factory):
    made = Patient(bench, tmp_path_factory.mktemp("patient"))
    made.mirror_some()
    made.break_topics()
    made.break_names()
    made.break_groups()
    made.producer_id = hang_transaction(made.source, "ill-fine")
    return made


@pytest.fixture(scope="module")
def found(patient):
    """All that doctor finds of the flow, asked once."""
    with AssigningReader(patient.source, "ill-assigned", "ill-fine"):
        time.sleep(3)
        answer = run_mmtool(patient.folder / "doctor", "doctor", "-c", str(patient.properties), "-o", "json")
    assert answer.code == 4, answer
    return {(row["check"], row["subject"]): row for row in answer.rows if row["severity"] != "ok"}


PLANTED = {
    ("retention", "ill-lost"): ("source", "problem", "deleted offsets 40 to 44"),
    ("retention", "ill-late"): ("source", "problem", "not mirrored yet (retention.ms keeps them for 10 days"),
    ("retention", "source.ill-short"): ("target", "warning", "retention.ms = 1 day (source: 7 days)"),
    ("compaction", "source.ill-deleting"): ("target", "problem", "compact on source and delete on target"),
    ("compaction", "ill-stones"): ("source", "problem", "keeps tombstones for 1 second"),
    ("partitions", "source.ill-more"): (
        "target",
        "warning",
        "on target has 2 partitions, and ill-more on source has 1",
    ),
    ("names", LONG): ("target", "problem", "longer than Kafka's limit of 249"),
    ("names", "ill-alike"): ("target", "problem", "it collides with source_ill-alike"),
    ("names", "source.ill-taken"): (
        "target",
        "problem",
        "holds 40 offsets, and no flow is known to have written",
    ),
    ("loop", "target.source.ill-again"): ("source", "problem", "source->target->source"),
    ("assign_group", "ill-assigned"): ("source", "warning", "on source and has no members"),
    ("streams_group", "ill-app-classic"): ("source", "problem", "mirrored as source.ill-app-classic-counts"),
    ("connect_group", "connect-ill-sink"): ("source", "warning", "sink connector"),
    ("connect_group", "ill-connect"): ("source", "warning", "Kafka Connect workers"),
    ("schema_registry", "_schemas"): ("source", "warning", "_schemas is not mirrored to target"),
    ("hanging_transaction", "ill-fine-0"): (
        "source",
        "problem",
        "the transaction hangs, and no producer ends it",
    ),
}


@pytest.mark.parametrize(
    ("place", "expected"), PLANTED.items(), ids=["-".join(place)[:40] for place in PLANTED]
)
def test_a_planted_problem_is_found(found, place, expected):
    cluster, severity, words = expected
    row = found.get(place)
    assert row is not None, sorted(found)
    assert (row["cluster"], row["severity"]) == (cluster, severity), row
    assert words in row["message"], row
    assert row["remedy"], row


def test_nothing_else_is_found(found):
    streams = {("streams_group", "ill-app-streams")}
    assert found.keys() - PLANTED.keys() - streams == set()


def test_a_flow_that_matches_nothing_is_told_so(mmtool, patient):
    answer = mmtool("doctor", "-c", patient.file("no-such-topic"), "-o", "json")
    rows = {row["check"]: row for row in answer.rows}
    assert rows["names"]["severity"] == "warning"
    assert "matches no topic of source" in rows["names"]["message"]
