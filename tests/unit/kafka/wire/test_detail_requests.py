"""The requests of `mmtool doctor` byte by byte: versions that no broker of the tests speaks any more included."""

from __future__ import annotations

from kit.protocol import raw, read
from mmtool.kafka.wire.api_versions import (
    HeartbeatTrial,
    SpokenApis,
    api_versions_frame,
    claim_trial,
    read_api_versions,
)
from mmtool.kafka.wire.metadata import (
    DescribedConfig,
    DescribedEntry,
    DescribedLogDir,
    DescribedLogDirs,
    DescribeLogDirsRequest,
    DescribeTopicConfigsRequest,
    MetadataRequest,
    PartitionLeader,
    TopicMetadata,
)
from mmtool.translation.types import UNKNOWN, TopicPartition

BROKER_PLAIN = "00000001 00000007 0001 61 00002384 ffff"


def test_the_first_request_of_a_connection_is_asked_with_features_and_without():
    assert api_versions_frame("me", with_features=False) == raw("0000000c 0012 0000 00000000 0002 6d65")
    assert api_versions_frame("me", with_features=True) == raw(
        "00000017 0012 0003 00000000 0002 6d65 00 07 6d6d746f6f6c 02 30 00"
    )


def test_what_a_broker_speaks_is_read_with_the_features_of_its_release():
    told = raw("00000000 0000 02 0001 0004 0012 00 00000000 01 00 08 02 02 66 0001 0021 00")
    assert read_api_versions(told, with_features=True) == SpokenApis({1: (4, 18)}, {"f": 33})


def test_a_broker_before_2_4_asks_for_the_older_version():
    assert read_api_versions(raw("00000000 0023 00000000"), with_features=True) is None
    told = raw("00000000 0000 00000001 0001 0004 000a")
    assert read_api_versions(told, with_features=False) == SpokenApis({1: (4, 10)}, {})


def test_replicas_of_a_broker_before_2_8_are_read_without_rights():
    partition = "0000 00000000 00000007 00000003 00000001 00000007 00000001 00000007 00000000"
    topic = f"0000 0001 74 00 00000001 {partition}"
    answer = f"00000000 {BROKER_PLAIN} 0001 63 00000007 00000001 {topic}"
    found, left = read(MetadataRequest(None), 7, answer)
    assert (found.topics, left) == (
        [TopicMetadata("t", "t", 0, [PartitionLeader(0, 0, 7, 3, (7,), (7,))])],
        0,
    )


def test_some_properties_of_a_topic_are_read_with_where_they_come_from():
    entry = "0001 61 0001 37 00 01 00 00000001 0001 61 0001 38 05"
    answer = f"00000000 00000001 0000 ffff 02 0001 74 00000001 {entry}"
    told = {"t": DescribedConfig(0, {"a": DescribedEntry("7", 1, False, False)})}
    assert read(DescribeTopicConfigsRequest(["t"], ["a"]), 1, answer) == (told, 0)
    assert DescribeTopicConfigsRequest(["t"], ["a"]).body(1) == raw("00000001 02 0001 74 00000001 0001 61 00")


def test_log_directories_of_a_broker_before_3_3_have_no_volume():
    replica = "00000002 0000000000000064 0000000000000000 00"
    answer = f"00000000 00000001 0000 0002 2f64 00000001 0001 74 00000001 {replica}"
    sizes = {TopicPartition("t", 2): 100}
    told = DescribedLogDirs(0, [DescribedLogDir(0, "/d", sizes, UNKNOWN, UNKNOWN)])
    assert read(DescribeLogDirsRequest({"t": 3}), 1, answer) == (told, 0)
    assert DescribeLogDirsRequest({"t": 2}).body(1) == raw("00000001 0001 74 00000002 00000000 00000001")


def test_a_replica_that_is_moved_between_directories_is_counted_once():
    future = "00000002 0000000000000064 0000000000000000 01"
    answer = f"00000000 00000001 0000 0002 2f64 00000001 0001 74 00000001 {future}"
    told, _ = read(DescribeLogDirsRequest({"t": 3}), 1, answer)
    (directory,) = told.directories
    assert directory.sizes == {}


def test_trials_ask_for_what_no_broker_takes():
    assert claim_trial("t").body(0) == raw("0001 74 00000000")
    assert HeartbeatTrial("g").body(1) == raw("0001 67 ffffffff 0000")
    assert read(HeartbeatTrial("g"), 1, "00000000 001e") == (30, 0)
