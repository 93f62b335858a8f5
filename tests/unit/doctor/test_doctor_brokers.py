"""What is made of replicas, disks and Spark's needs."""

from dataclasses import replace

import pytest

from mmtool.doctor.brokers import (
    Factor,
    ReplicaFacts,
    judge_copy,
    judge_disks,
    judge_replicas,
    largest_sizes,
)
from mmtool.doctor.spark import SparkFacts, judge_spark, master_addresses
from mmtool.kafka.wire.metadata import LogDir, PartitionLeader, TopicMetadata
from mmtool.translation.types import UNKNOWN, TopicId, TopicPartition

GIB = 1 << 30


def replicas(leader, *of):
    return PartitionLeader(0, 0, leader, 0, *of)


WHOLE = replicas(1, (1, 2, 3), (1, 2, 3))


def side(*partitions, factor=3, needed=1, in_sync=1, brokers=3, is_written=True, refuses=False):
    topics = {"t": TopicMetadata("t", TopicId("t"), 0, partitions)} if partitions else {}
    factors = (Factor("replication.factor", factor, "mirrored topics"),)
    return ReplicaFacts(
        "B", brokers, factors, in_sync, topics, {"t": needed}, is_written, refuses_short=refuses
    )


def rows(findings):
    return [(finding.severity, finding.subject) for finding in findings]


# --- replicas ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_written", [True, False])
def test_nothing_is_found_where_all_replicas_are_in_sync(is_written):
    assert rows(judge_replicas(side(WHOLE, is_written=is_written))) == []


def test_a_factor_above_the_number_of_brokers_is_a_problem_that_names_its_key():
    (finding,) = judge_replicas(side(factor=3, brokers=2))
    assert (finding.severity, finding.subject) == ("problem", "replication.factor")
    assert "3, and B has 2 brokers" in finding.message
    assert "to 2 or less" in finding.remedy


@pytest.mark.parametrize(("refuses", "said"), [(True, "refuse every write"), (False, "accept writes with 2")])
def test_a_factor_below_what_has_to_be_in_sync_is_a_problem(refuses, said):
    (finding,) = judge_replicas(side(factor=2, in_sync=3, refuses=refuses))
    assert (finding.severity, said in finding.message) == ("problem", True)


def test_the_brokers_own_default_factor_is_never_too_large():
    assert rows(judge_replicas(side(factor=-1, brokers=1))) == []


def test_a_partition_without_a_leader_is_a_problem_on_either_side():
    lost = replicas(None, (1,), ())
    for is_written, word in ((True, "written"), (False, "read")):
        found = list(judge_replicas(side(lost, brokers=1, factor=1, is_written=is_written)))
        assert rows(found) == [("problem", "t")]
        assert f"t-0 is without a leader on B: no record can be {word}" in found[0].message


def test_too_few_replicas_in_sync_are_a_problem_and_enough_of_them_a_warning():
    two = replicas(1, (1, 2, 3), (1, 2))
    assert rows(judge_replicas(side(two, needed=3))) == [("problem", "t")]
    assert rows(judge_replicas(side(two, needed=2))) == [("warning", "t")]
    assert rows(judge_replicas(side(two, needed=3, is_written=False))) == [("warning", "t")]


def test_a_topic_that_was_made_with_fewer_replicas_than_must_be_in_sync_is_a_problem():
    (finding,) = judge_replicas(side(replicas(1, (1,), (1,)), needed=2, brokers=1, factor=1))
    assert (finding.severity, "min.insync.replicas = 2" in finding.message) == ("problem", True)


def test_one_replica_is_a_warning_only_where_there_could_be_more():
    lone = replicas(1, (1,), (1,))
    assert rows(judge_replicas(side(lone))) == [("warning", "")]
    assert rows(judge_replicas(side(lone, brokers=1, factor=1))) == []


def test_each_key_that_makes_one_replica_is_named():
    keys = ("replication.factor", "checkpoints.topic.replication.factor")
    (found,) = judge_replicas(replace(side(), factors=tuple(Factor(key, 1, "topics") for key in keys)))
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


def test_brokers_that_do_not_tell_sizes_are_said_to_be_too_old_for_it():
    (finding,) = judge_disks("B", {1: (log_dir(UNKNOWN, UNKNOWN),)})
    assert "brokers before Kafka 3.3 do not report" in finding.message


@pytest.mark.parametrize(
    ("source", "target", "usable", "severity"),
    [
        (10 * GIB, 0, 31 * GIB, "ok"),
        (10 * GIB, 0, 29 * GIB, "problem"),
        (10 * GIB, 1 * GIB, 20 * GIB, "warning"),
        (10 * GIB, 10 * GIB, 0, "ok"),
        (10 * GIB, 0, UNKNOWN, "ok"),
    ],
)
def test_a_target_without_room_for_what_is_to_come_is_a_problem(flow, source, target, usable, severity):
    place, settings = TopicPartition("t", 0), flow("replication.factor = 3")
    (finding,) = judge_copy(settings, {place: source}, {place: target}, [log_dir(usable)])
    assert finding.severity == severity


def test_of_several_replicas_the_largest_one_counts():
    place = TopicPartition("t", 0)
    dirs = [(LogDir("", "/a", {place: 5}, 1, 1),), (LogDir("", "/b", {place: 7}, 1, 1),)]
    assert largest_sizes(dirs) == {place: 7}


# --- Spark ------------------------------------------------------------------------------------------------


@pytest.fixture
def spark(flow):
    """``spark("local[2]", memory=GIB)``: the facts of a flow with this master, and with other lines of the file."""

    def facts(master=None, *lines, unreachable=(), **of):
        addresses = master_addresses(master)
        known = {
            "java": "/usr/bin/java", "java_fault": ("", ""), "cores": 2, "memory": 8 * GIB, **of,
        }  # fmt: skip
        said = dict.fromkeys((addresses[number] for number in unreachable), "Connection refused")
        settings = flow(*lines, *([f"mmtool.spark.master = {master}"] if master else []))
        return SparkFacts(settings, unreachable=said, addresses=addresses, **known)

    return facts


def test_spark_on_this_host_is_told_with_its_slots(spark):
    (finding,) = judge_spark(spark(cores=8))
    assert (finding.severity, "4 slots of this host for 32 shards" in finding.message) == ("ok", True)


HEAP = "mmtool.spark.conf.spark.driver.memory"


@pytest.mark.parametrize(
    ("master", "lines", "of", "severity"),
    [
        (None, [], {"java": "", "java_fault": ("no java on PATH", "install it")}, "problem"),
        ("spark://m:7077", [], {"unreachable": [0]}, "problem"),
        ("spark://m:7077,n:7077", [], {"unreachable": [1]}, "warning"),
        ("spark://m:7077,n:7077", [], {}, "ok"),
        ("yarn", [], {}, "problem"),
        ("yarn", [], {"has_hadoop_conf": True}, "ok"),
        (None, ["mmtool.spark.conf.spark.speculation = true"], {}, "problem"),
        (None, [], {"memory": 1 * GIB}, "warning"),
        ("local[64]", [], {"memory": 8 * GIB}, "warning"),
        ("spark://m:7077", [], {"memory": 1 * GIB}, "ok"),
        ("spark://m:7077", [], {"memory": GIB // 2}, "warning"),
        ("sc://m:15002", [], {"memory": GIB // 2}, "ok"),
        (None, [f"{HEAP} = 16g"], {}, "warning"),
        (None, [], {"memory": None}, "ok"),
    ],
)
def test_what_keeps_spark_from_running_is_found_without_starting_it(spark, master, lines, of, severity):
    (finding,) = judge_spark(spark(master, *lines, **of))
    assert finding.severity == severity


def test_a_host_without_the_memory_is_told_with_the_workers_that_run_on_it(spark):
    (finding,) = judge_spark(spark("local[64]", memory=1 * GIB))
    assert "Spark's driver and 32 workers may use" in finding.message


@pytest.mark.parametrize(
    ("lines", "begins"),
    [([], "run mmtool on a host"), ([f"{HEAP} = 2g"], f"lower {HEAP}")],
)
def test_the_driver_s_memory_is_to_be_lowered_only_where_the_file_sets_it(spark, lines, begins):
    (finding,) = judge_spark(spark("spark://m:7077", *lines, memory=GIB // 2))
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
