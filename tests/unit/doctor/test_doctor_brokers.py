"""What is made of replicas, disks and Spark's needs."""

from dataclasses import replace

import pytest

from mmtool.doctor.broker_checks import (
    CopyFacts,
    Factor,
    ReplicaFacts,
    judge_copy,
    judge_disks,
    judge_replicas,
    largest_sizes,
)
from mmtool.doctor.spark import SparkFacts, judge_spark, master_addresses
from mmtool.kafka.admin.cluster_details import Replicas, TopicDetails
from mmtool.kafka.wire.metadata import LogDir
from mmtool.translation.types import UNKNOWN, TopicPartition

GIB = 1 << 30
WHOLE = Replicas(1, (1, 2, 3), (1, 2, 3))


def side(*partitions, factor=3, needed=1, in_sync=1, brokers=3, is_written=True, refuses=False):
    topics = {"t": TopicDetails("t", partitions)} if partitions else {}
    factors = (Factor("replication.factor", factor, "mirrored topics"),)
    return ReplicaFacts(
        "B", brokers, factors, in_sync, topics, {"t": needed}, is_written, refuses_short=refuses
    )


def rows(findings):
    return [(finding.severity, finding.subject) for finding in findings]


# --- replicas ---------------------------------------------------------------------------------------------


def test_replicas_that_are_all_there_are_one_row_for_the_flow():
    assert rows(judge_replicas([side(WHOLE), side(WHOLE, is_written=False)], "A->B")) == [("ok", "A->B")]


def test_a_factor_above_the_number_of_brokers_is_a_problem_that_names_its_key():
    (finding,) = judge_replicas([side(factor=3, brokers=2)], "A->B")
    assert (finding.severity, finding.subject) == ("problem", "replication.factor")
    assert "3, and B has 2 brokers" in finding.message
    assert "to 2 or less" in finding.remedy


@pytest.mark.parametrize(("refuses", "said"), [(True, "refuse every write"), (False, "accept writes with 2")])
def test_a_factor_below_what_has_to_be_in_sync_is_a_problem(refuses, said):
    (finding,) = judge_replicas([side(factor=2, in_sync=3, refuses=refuses)], "A->B")
    assert (finding.severity, said in finding.message) == ("problem", True)


def test_the_brokers_own_default_factor_is_never_too_large():
    assert rows(judge_replicas([side(factor=-1, brokers=1)], "A->B")) == [("ok", "A->B")]


def test_a_partition_without_a_leader_is_a_problem_on_either_side():
    lost = Replicas(None, (1,), ())
    for is_written, word in ((True, "written"), (False, "read")):
        found = list(judge_replicas([side(lost, brokers=1, factor=1, is_written=is_written)], "A->B"))
        assert rows(found) == [("problem", "t")]
        assert f"t-0 is without a leader on B: no record can be {word}" in found[0].message


def test_too_few_replicas_in_sync_are_a_problem_and_enough_of_them_a_warning():
    two = Replicas(1, (1, 2, 3), (1, 2))
    assert rows(judge_replicas([side(two, needed=3)], "A->B")) == [("problem", "t")]
    assert rows(judge_replicas([side(two, needed=2)], "A->B")) == [("warning", "t")]
    assert rows(judge_replicas([side(two, needed=3, is_written=False)], "A->B")) == [("warning", "t")]


def test_a_topic_that_was_made_with_fewer_replicas_than_must_be_in_sync_is_a_problem():
    (finding,) = judge_replicas([side(Replicas(1, (1,), (1,)), needed=2, brokers=1, factor=1)], "A->B")
    assert (finding.severity, "min.insync.replicas = 2" in finding.message) == ("problem", True)


def test_one_replica_is_a_warning_only_where_there_could_be_more():
    lone = Replicas(1, (1,), (1,))
    assert rows(judge_replicas([side(lone)], "A->B")) == [("warning", "")]
    assert rows(judge_replicas([side(lone, brokers=1, factor=1)], "A->B")) == [("ok", "A->B")]


def test_each_key_that_makes_one_replica_is_named():
    keys = ("replication.factor", "checkpoints.topic.replication.factor")
    (found,) = judge_replicas(
        [replace(side(), factors=tuple(Factor(key, 1, "topics") for key in keys))], "A->B"
    )
    assert found.message.startswith(f"{keys[0]} = 1 and {keys[1]} = 1, and B has 3 brokers")
    assert found.remedy == f"set {keys[0]} and {keys[1]} to 3"


# --- disks ------------------------------------------------------------------------------------------------


def log_dir(usable, total=100 * GIB, failure="", **sizes):
    return LogDir(failure, "/data", sizes, total, usable)


@pytest.mark.parametrize(
    ("directory", "severity"),
    [
        (log_dir(50 * GIB), "ok"),
        (log_dir(9 * GIB), "warning"),
        (log_dir(1 * GIB), "problem"),
        (log_dir(UNKNOWN, UNKNOWN, "Disk error (KAFKA_STORAGE_ERROR)"), "problem"),
        (log_dir(UNKNOWN, UNKNOWN), "ok"),
    ],
)
def test_a_full_or_offline_log_directory_is_found(directory, severity):
    (finding,) = judge_disks("B", {1: (directory,)})
    assert finding.severity == severity


def test_a_full_disk_is_the_first_cause_of_an_offline_log_directory():
    (finding,) = judge_disks("B", {1: (log_dir(UNKNOWN, UNKNOWN, "Disk error (KAFKA_STORAGE_ERROR)"),)})
    assert finding.remedy.startswith("free space if the disk is full, else repair or replace it")


def test_brokers_that_do_not_tell_sizes_are_said_to_be_too_old_for_it():
    (finding,) = judge_disks("B", {1: (log_dir(UNKNOWN, UNKNOWN),)})
    assert "brokers before Kafka 3.3 do not report" in finding.message


def copy_facts(source, target, usable, replicas=3):
    place = TopicPartition("t", 0)
    return CopyFacts("B", {place: source}, {place: target}, replicas, (log_dir(usable),))


@pytest.mark.parametrize(
    ("facts", "severity"),
    [
        (copy_facts(10 * GIB, 0, 31 * GIB), "ok"),
        (copy_facts(10 * GIB, 0, 29 * GIB), "problem"),
        (copy_facts(10 * GIB, 1 * GIB, 20 * GIB), "warning"),
        (copy_facts(10 * GIB, 10 * GIB, 0), "ok"),
        (copy_facts(10 * GIB, 0, UNKNOWN), "ok"),
    ],
)
def test_a_target_without_room_for_what_is_to_come_is_a_problem(facts, severity):
    (finding,) = judge_copy(facts, "A->B")
    assert finding.severity == severity


def test_of_several_replicas_the_largest_one_counts():
    place = TopicPartition("t", 0)
    dirs = [(LogDir("", "/a", {place: 5}, 1, 1),), (LogDir("", "/b", {place: 7}, 1, 1),)]
    assert largest_sizes(dirs) == {place: 7}


# --- Spark ------------------------------------------------------------------------------------------------


def spark(master=None, unreachable=(), **of):
    addresses = master_addresses(master)
    facts = {
        "conf": {}, "shards": 32, "buffer_bytes": 128 << 20, "java": "/usr/bin/java", "java_fault": ("", ""),
        "cores": 2, "memory": 8 * GIB, **of,
    }  # fmt: skip
    said = dict.fromkeys((addresses[number] for number in unreachable), "Connection refused")
    return SparkFacts("A->B", master, unreachable=said, addresses=addresses, **facts)


def test_spark_on_this_host_is_told_with_its_slots():
    (finding,) = judge_spark(spark(cores=8))
    assert (finding.severity, "4 slots of this host for 32 shards" in finding.message) == ("ok", True)


@pytest.mark.parametrize(
    ("facts", "severities"),
    [
        (spark(java="", java_fault=("no java on PATH", "install it")), ["problem"]),
        (spark("spark://m:7077", [0]), ["problem"]),
        (spark("spark://m:7077,n:7077", [1]), ["warning"]),
        (spark("spark://m:7077,n:7077"), ["ok"]),
        (spark("yarn"), ["problem"]),
        (spark("yarn", has_hadoop_conf=True), ["ok"]),
        (spark(conf={"spark.speculation": "true"}), ["problem"]),
        (spark(memory=1 * GIB), ["warning"]),
        (spark("local[64]", memory=8 * GIB), ["warning"]),
        (spark("spark://m:7077", memory=1 * GIB), ["ok"]),
        (spark("spark://m:7077", memory=GIB // 2), ["warning"]),
        (spark("sc://m:15002", memory=GIB // 2), ["ok"]),
        (spark(conf={"spark.driver.memory": "16g"}), ["warning"]),
        (spark(memory=None), ["ok"]),
    ],
)
def test_what_keeps_spark_from_running_is_found_without_starting_it(facts, severities):
    assert [finding.severity for finding in judge_spark(facts)] == severities


def test_a_host_without_the_memory_is_told_with_the_workers_that_run_on_it():
    (finding,) = judge_spark(spark("local[64]", memory=1 * GIB))
    assert "Spark's driver and 32 workers may use" in finding.message


@pytest.mark.parametrize(
    ("conf", "begins"),
    [
        ({}, "run mmtool on a host"),
        ({"spark.driver.memory": "2g"}, "lower mmtool.spark.conf.spark.driver.memory"),
    ],
)
def test_the_driver_s_memory_is_to_be_lowered_only_where_the_file_sets_it(conf, begins):
    (finding,) = judge_spark(spark("spark://m:7077", memory=GIB // 2, conf=conf))
    assert finding.remedy.startswith(begins)


@pytest.mark.parametrize(
    ("master", "addresses"),
    [
        (None, ()),
        ("local[4]", ()),
        ("yarn", ()),
        ("spark://a:7077,b:7078", ("a:7077", "b:7078")),
        ("spark://a", ("a:7077",)),
        ("k8s://https://api.example:6443", ("api.example:6443",)),
        ("k8s://https://api.example", ("api.example:443",)),
        ("sc://connect.example:15002/;token=x", ("connect.example:15002",)),
    ],
)
def test_the_addresses_of_a_master_are_read_from_its_url(master, addresses):
    assert master_addresses(master) == addresses
