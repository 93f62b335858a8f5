"""``mmtool doctor`` on real clusters: each planted problem is found, and a healthy pair gets a clean bill."""

import time

import pytest
from confluent_kafka import Producer

from kit.bench import Bench
from kit.black_hole import BlackHole
from kit.lab_admin import alter_topic
from kit.load import Load, produce
from mmtool.lab.cluster import Cluster, Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic

pytestmark = pytest.mark.kafka

DAY_MS = 86_400_000
FACTORS = (
    "replication.factor",
    "offset-syncs.topic.replication.factor",
    "checkpoints.topic.replication.factor",
)


@pytest.fixture
def doctor(mmtool):
    """``doctor(path)``: its answer as JSON."""

    def run(properties, *options):
        return mmtool("doctor", "-c", properties, "-o", "json", *options)

    return run


def found(answer, check, severity="problem"):
    """The rows of a check that say so."""
    return [row for row in answer.rows if (row["check"], row["severity"]) == (check, severity)]


def wrong(answer):
    """Every row that is not ``ok``."""
    return [row for row in answer.rows if row["severity"] != "ok"]


@pytest.fixture
def written(bench, topic_name):
    """A topic of the source with records."""
    name = topic_name("checked")
    create_topic(bench.fleet["source"].bootstrap, name, 2)
    produce(bench.fleet["source"].bootstrap, Load(name, 100, 2, 200))
    return name


def test_a_healthy_pair_gets_a_clean_bill_within_seconds(bench, written, doctor, measured):
    answer = doctor(bench.properties(written))
    measured(f"doctor of a healthy pair: {answer.seconds:.1f} s")
    assert (answer.code, wrong(answer)) == (0, []), answer.stdout


def wait_found(doctor, properties, check, severity="problem"):
    """Once metadata has it; the rows of the check, and the answer."""
    answers = []

    def told():
        answers.append(doctor(properties))
        return found(answers[-1], check, severity)

    wait_until(told, f"{severity} {check}", 20)
    return found(answers[-1], check, severity), answers[-1]


# --- clusters ---------------------------------------------------------------------------------------------


def test_a_cluster_that_is_away_is_a_problem_and_the_other_one_is_checked(bench, written, doctor, measured):
    path = bench.properties(written, **{"source.bootstrap.servers": "127.0.0.1:1"})
    answer = doctor(path)
    measured(f"doctor with one cluster away: {answer.seconds:.1f} s")
    (away,) = found(answer, "reachability")
    checked = {row["check"] for row in answer.rows if (row["cluster"], row["severity"]) == ("target", "ok")}
    assert (answer.code, away["cluster"]) == (4, "source")
    assert checked >= {"reachability", "listeners", "versions", "cluster_id", "disk"}
    assert answer.seconds < 20


def test_a_cluster_that_hangs_costs_seconds(bench, written, doctor, measured):
    with BlackHole() as hole:
        answer = doctor(bench.properties(written, **{"target.bootstrap.servers": hole.bootstrap}))
    measured(f"doctor with one cluster that hangs: {answer.seconds:.1f} s")
    (away,) = found(answer, "reachability")
    assert (answer.code, away["cluster"], answer.seconds < 15) == (4, "target", True)
    assert len(found(answer, "listeners")) == 2


def test_a_cluster_of_another_id_than_is_configured_is_a_problem(bench, written, doctor):
    answer = doctor(bench.properties(written, **{"target.mmtool.cluster.id": "AAAAAAAAAAAAAAAAAAAAAA"}))
    (wrong_one,) = found(answer, "cluster_id")
    assert (answer.code, wrong_one["cluster"]) == (4, "target")
    assert "AAAAAAAAAAAAAAAAAAAAAA" in wrong_one["message"]


def test_two_aliases_of_one_cluster_are_a_problem(bench, written, doctor):
    servers = {"target.bootstrap.servers": bench.fleet["source"].bootstrap}
    answer = doctor(bench.properties(written, **servers))
    assert answer.code == 4
    assert [row["subject"] for row in found(answer, "cluster_id")] == ["source->target"]


# --- replicas ---------------------------------------------------------------------------------------------


def test_a_lost_broker_is_seen_in_what_it_leads_and_holds(fleet, tmp_path, doctor, topic_name):
    """And one replica on three brokers is a warning."""
    name, spread = topic_name("lone"), topic_name("spread")
    source = fleet["source"].bootstrap
    for topic in (name, spread):
        create_topic(source, topic, 3)
    with Cluster("target", tmp_path / "target", Shape(3)) as target:
        create_topic(target.bootstrap, f"source.{name}", 3, **{"min.insync.replicas": "1"})
        create_topic(target.bootstrap, f"source.{spread}", 3, 3)
        factors = dict.fromkeys(FACTORS, "3") | {"offset-syncs.topic.location": "target"}
        path = Bench(Fleet([fleet["source"], target]), tmp_path).properties(f"{name}, {spread}", **factors)
        (lone,), before = wait_found(doctor, path, "replication_factor", "warning")
        assert (before.code, f"source.{name}" in lone["message"]) == (0, True), before.stdout
        target.kill_broker(2)
        rows, answer = wait_found(doctor, path, "replication_factor")
        said = {row["subject"]: row["message"] for row in rows}
        behind = {row["subject"] for row in found(answer, "replication_factor", "warning")}
    assert (answer.code, set(said)) == (4, {f"source.{name}", *FACTORS})
    assert "without a leader" in said[f"source.{name}"]
    assert "3, and target has 2 brokers" in said["replication.factor"]
    assert f"source.{spread}" in behind


# --- sizes and times --------------------------------------------------------------------------------------


def test_limits_that_differ_are_a_warning_and_a_record_that_does_not_fit_is_a_problem(bench, written, doctor):
    name = f"source.{written}"
    create_topic(bench.fleet["target"].bootstrap, name, 2, **{"max.message.bytes": "4000"})
    path = bench.properties(written)
    (narrow,), answer = wait_found(doctor, path, "message_size", "warning")
    assert (answer.code, narrow["subject"]) == (0, name), answer.stdout
    assert "all records that are still to be mirrored are small enough" in narrow["message"]
    produce(bench.fleet["source"].bootstrap, Load(written, 1, 1, 9_000, codec="none", first_sequence=100))
    answer = doctor(path)
    (large,) = found(answer, "message_size")
    assert (answer.code, large["subject"]) == (4, name)
    assert f"of {written}-" in large["message"]


def timed(bench, topic, ms, **config):
    """A topic of the source with one record of that time."""
    bootstrap = bench.fleet["source"].bootstrap
    create_topic(bootstrap, topic, 1, **{"retention.ms": "-1", **config})
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2})
    producer.produce(topic, b"value", timestamp=ms)
    assert producer.flush(20) == 0


def test_records_that_are_too_old_for_the_target_are_a_problem_unless_the_limit_is_raised(
    bench, topic_name, doctor
):
    name = topic_name("old")
    timed(bench, name, int(time.time() * 1000) - 10 * DAY_MS)
    create_topic(
        bench.fleet["target"].bootstrap,
        f"source.{name}",
        1,
        **{"message.timestamp.before.max.ms": str(DAY_MS)},
    )
    (old,), answer = wait_found(doctor, bench.properties(name), "timestamps")
    assert (answer.code, old["subject"]) == (4, f"source.{name}")
    assert f"{name}-0 (from offset 0 on) holds records older than 1d" in old["message"]
    raised = doctor(bench.properties(name, **{"mmtool.on.timestamp.refused": "raise-limit"}))
    assert (raised.code, len(found(raised, "timestamps", "warning"))) == (0, 1)


def test_what_is_mirrored_already_is_no_problem_any_more(bench, topic_name, doctor):
    """Limits that came later: records before the frontier are on the target."""
    name, day = topic_name("mirrored"), str(DAY_MS)
    timed(bench, name, int(time.time() * 1000) - 10 * DAY_MS)
    produce(bench.fleet["source"].bootstrap, Load(name, 1, 1, 9_000, codec="none"))
    path = bench.properties(name, **{"sync.topic.configs.enabled": "false"})
    assert bench.catch_up(path).code == 0
    limits = {"message.timestamp.before.max.ms": day, "max.message.bytes": "4000"}
    alter_topic(bench.fleet["target"].bootstrap, f"source.{name}", **limits)
    (narrow,), answer = wait_found(doctor, path, "message_size", "warning")
    assert (answer.code, found(answer, "timestamps", "ok") != []) == (0, True), answer.stdout
    assert narrow["subject"] == f"source.{name}"
