"""Requests and answers byte by byte, written by hand from Kafka's protocol guide."""

from dataclasses import replace

import pytest

from kit.protocol import raw, read
from mmtool.kafka.wire.acls import (
    AclOperation,
    ClusterRights,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeClusterRequest,
    ListedBindings,
    Rights,
)
from mmtool.kafka.wire.fetch import Diverging, FetchAnswer, FetchedPartition, FetchPartition, FetchRequest
from mmtool.kafka.wire.groups import (
    Coordinated,
    Coordinator,
    DescribedGroup,
    DescribeGroupsRequest,
    FetchedOffset,
    FetchedOffsets,
    FindCoordinatorRequest,
    GroupMember,
    HeartbeatTrial,
    ListedGroup,
    ListedGroups,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from mmtool.kafka.wire.metadata import (
    EARLIEST,
    LATEST,
    BrokerAddress,
    DescribeBrokerConfigRequest,
    DescribedConfig,
    DescribedLogDirs,
    DescribeLogDirsRequest,
    DescribeTopicConfigsRequest,
    ListedOffset,
    ListOffsetsRequest,
    LogDir,
    MetadataAnswer,
    MetadataRequest,
    PartitionLeader,
    TopicMetadata,
)
from mmtool.kafka.wire.produce import ProducedPartition, ProducePartition, ProduceRequest
from mmtool.kafka.wire.request import SpokenApis, api_versions_frame, read_api_versions
from mmtool.kafka.wire.transactions import (
    AddPartitionsToTxnRequest,
    DescribeProducersRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProducerIdentity,
    claim_trial,
)
from mmtool.plan.failover.acl_rules import Binding
from mmtool.plan.topics.configs import ConfigEntry, ConfigOrigin
from mmtool.translation.types import UNKNOWN, TopicPartition

ID = "AAECAwQFBgcICQoLDA0ODw"
ID_RAW = "000102030405060708090a0b0c0d0e0f"
CLIENT_NULL = "ffff"
NO_LEADER_EPOCH = "ffffffff"


PRODUCE = ProduceRequest(
    [
        ProducePartition("a", ID, 0, b"\xaa\xbb"),
        ProducePartition("a", ID, 2, b"\xcc"),
    ],
    timeout_ms=15_000,
)
FETCH = FetchRequest([FetchPartition("a", ID, 1, 42, 1 << 20)], 500, 1, 8 << 20)


@pytest.mark.parametrize("version", [7, 8])
def test_produce_by_name(version):
    head = CLIENT_NULL + "ffff" + "00003a98" + "00000001" + "0001 61" + "00000002"
    parts = "00000000 00000002 aabb" + "00000002 00000001 cc"
    assert PRODUCE.body(version) == raw(head, parts)


_OFFSETS = "0000000000000007" + "ffffffffffffffff" + "0000000000000003"


def test_produce_groups_neighbours_of_one_topic():
    two = ProduceRequest([ProducePartition(t, ID, 0, b"\xaa") for t in ("a", "b")], 1)
    topics = "0001 61 00000001 00000000 00000001 aa" + "0001 62 00000001 00000000 00000001 aa"
    assert two.body(8) == raw("ffff ffff 00000001 00000002", topics)


def test_a_produce_answer_of_version_7():
    got, left = read(PRODUCE, 7, "00000001 0001 61 00000001", "00000002 0000", _OFFSETS, "00000000")
    assert got == ([ProducedPartition("a", "", 2, 0, 7, 3, "")], 0)
    assert left == 0


def test_a_produce_answer_of_version_8_carries_a_message():
    errors = "00000001 00000000 0001 78"
    got, _ = read(
        PRODUCE, 8, "00000001 0001 61 00000001", "00000002 0057", _OFFSETS, errors, "0003 6e6f70", "00000000"
    )
    assert got == ([ProducedPartition("a", "", 2, 87, 7, 3, "nop")], 0)


def test_a_produce_answer_by_id_passes_over_the_current_leader():
    current_leader = "01 00 09 00000001 00000002 00"
    got, left = read(
        PRODUCE,
        13,
        "02",
        ID_RAW,
        "02",
        "00000002 0006",
        _OFFSETS,
        "02 00000000 02 78 00",
        "04 6e6f70",
        current_leader,
        "00",
        "00000000 00",
    )
    assert got == ([ProducedPartition("", ID, 2, 6, 7, 3, "nop")], 0)
    assert left == 1


@pytest.mark.parametrize(("version", "rack"), [(10, ""), (11, "0000")])
def test_fetch_by_name(version, rack):
    head = "ffffffff 000001f4 00000001 00800000" + "01" + "00000000 ffffffff"
    partition = "00000001" + NO_LEADER_EPOCH + "000000000000002a" + "ffffffffffffffff" + "00100000"
    expected = raw(head, "00000001 0001 61 00000001", partition, "00000000", rack)
    assert FETCH.body(version) == expected


_BOUNDS = "0000000000000009" + "0000000000000008" + "0000000000000002"
_ABORTED = "0000000000000011" + "0000000000000003"


@pytest.mark.parametrize(("version", "replica"), [(10, ""), (11, "ffffffff")])
def test_a_fetch_answer_by_name(version, replica):
    parts = "00000001 0000", _BOUNDS, "00000001", _ABORTED, replica, "00000002 abcd"
    got, left = read(FETCH, version, "00000005 0000 00000000", "00000001 0001 61 00000001", *parts)
    partition = FetchedPartition("a", "", 1, 0, 9, 8, 2, [(17, 3)], memoryview(b"\xab\xcd"))
    assert (got, left) == (FetchAnswer(5, 0, [partition]), 0)


def test_fetch_in_a_session_names_it_and_what_is_forgotten():
    session = replace(FETCH, session_id=7, session_epoch=3, forgotten=[FetchPartition("a", ID, 9, 0, 0)])
    head = "ffffffff 000001f4 00000001 00800000 01 00000007 00000003"
    assert session.body(13).startswith(raw(head))
    assert session.body(13).endswith(raw("02", ID_RAW, "02 00000009 00", "01", "00"))
    assert session.body(10).endswith(raw("00000001 0001 61 00000001 00000009"))


def test_a_fetch_by_id_names_the_leader_epoch_of_what_was_read():
    place = FETCH.partitions[0]._replace(read_epoch=7)
    asked = raw("00000001", NO_LEADER_EPOCH, "000000000000002a", "00000007")
    assert asked in replace(FETCH, partitions=[place]).body(13)


def test_a_fetch_answer_tells_from_where_on_the_log_holds_something_else():
    diverging = "01 00 0d 00000005 0000000000000028 00"
    parts = "00000001 0000", _BOUNDS, "00", "ffffffff", "01", diverging
    got, left = read(FETCH, 13, "00000005 0000 00000000", "02", ID_RAW, "02", *parts, "00", "00")
    assert (got.partitions[0].diverging, left) == (Diverging(5, 40), 1)


def test_a_fetch_answer_by_id_passes_over_tags():
    unknown = "01 07 02 ffff"
    parts = "00000001 0000", _BOUNDS, "02", _ABORTED, "00", "ffffffff", "03 abcd", unknown
    got, left = read(FETCH, 13, "00000005 0000 00000000", "02", ID_RAW, "02", *parts, "00", "00")
    partition = FetchedPartition("", ID, 1, 0, 9, 8, 2, [(17, 3)], memoryview(b"\xab\xcd"))
    assert (got, left) == (FetchAnswer(5, 0, [partition]), 1)


@pytest.mark.parametrize(
    ("topics", "version", "body"),
    [
        (None, 7, "ffffffff 00"),
        ((), 7, "00000000 00"),
        (["ab"], 7, "00000001 0002 6162 00"),
        (None, 12, "00 00 00 00"),
        (["ab"], 11, "02" + "00" * 16 + "03 6162 00" + "00 00 00"),
        ((), 12, "01 00 00 00"),
        (["ab"], 12, "02" + "00" * 16 + "03 6162 00" + "00 00 00"),
    ],
)
def test_metadata_of_all_of_none_and_of_some(topics, version, body):
    assert MetadataRequest(topics).body(version) == raw(body)


def test_a_metadata_answer_of_version_7_has_the_name_for_an_id():
    brokers = "00000001" + "00000001 0001 68 00002384 ffff"
    partition = "0000 00000000 00000001 00000006" + "00000001 00000001" * 2 + "00000000"
    topic = "00000001" + "0000 0001 61 00" + "00000001" + partition
    got, left = read(MetadataRequest(None), 7, "00000000", brokers, "0002 6964", "00000001", topic)
    leader = PartitionLeader(0, 0, 1, 6, (1,), (1,))
    expected = MetadataAnswer("id", [BrokerAddress(1, "h", 9092)], [TopicMetadata("a", "a", 0, [leader])])
    assert (got, left) == (expected, 0)


@pytest.mark.parametrize("version", [11, 12])
def test_a_metadata_answer_has_ids_from_kafka_2_8_on(version):
    brokers = "02" + "00000001 02 68 00002384 02 72 00"
    partition = "0000 00000000 00000001 00000006" + "02 00000001" * 2 + "01" + "00"
    topic = "02" + "0000 02 61" + ID_RAW + "00" + "02" + partition + "80000000 00"
    got, left = read(MetadataRequest(None), version, "00000000", brokers, "03 6964", "00000001", topic, "00")
    leader = PartitionLeader(0, 0, 1, 6, (1,), (1,))
    expected = MetadataAnswer("id", [BrokerAddress(1, "h", 9092)], [TopicMetadata("a", ID, 0, [leader])])
    assert (got, left) == (expected, 0)


@pytest.mark.parametrize("version", [4, 5])
def test_list_offsets(version):
    places = {TopicPartition("b", 0): EARLIEST, TopicPartition("a", 1): LATEST, TopicPartition("a", 0): 5}
    request = ListOffsetsRequest(places, read_committed=True)
    a = "0001 61 00000002" + "00000000 ffffffff 0000000000000005" + "00000001 ffffffff ffffffffffffffff"
    b = "0001 62 00000001" + "00000000 ffffffff fffffffffffffffe"
    assert request.body(version) == raw("ffffffff 01 00000002", a, b)
    answer = "00000000 00000001 0001 61 00000001 00000001 0000 ffffffffffffffff 0000000000000009 00000003"
    assert read(request, version, answer) == ({TopicPartition("a", 1): ListedOffset(0, 9)}, 0)


@pytest.mark.parametrize("version", [0, 1])
def test_init_producer_id(version):
    request = InitProducerIdRequest("tx", 60_000)
    assert request.body(version) == raw("0002 7478 0000ea60")
    assert read(request, version, "00000000 0000 0000000000000011 0003") == (ProducerIdentity(0, 17, 3), 0)


@pytest.mark.parametrize("version", [0, 1])
def test_add_partitions_to_txn(version):
    places = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
    request = AddPartitionsToTxnRequest("tx", 17, 3, places)
    topics = "00000002 0001 61 00000002 00000000 00000001" + "0001 62 00000001 00000000"
    assert request.body(version) == raw("0002 7478 0000000000000011 0003", topics)
    answer = (
        "00000000 00000002 0001 61 00000002 00000000 0000 00000001 0003" + "0001 62 00000001 00000000 0037"
    )
    assert read(request, version, answer) == (dict(zip(places, (0, 3, 55), strict=True)), 0)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(("commit", "flag"), [(False, "00"), (True, "01")])
def test_end_txn(version, commit, flag):
    request = EndTxnRequest("tx", 17, 3, commit=commit)
    assert request.body(version) == raw("0002 7478 0000000000000011 0003", flag)
    assert read(request, version, "00000000 0033") == (51, 0)


def test_describe_producers_of_several_topics():
    request = DescribeProducersRequest(
        [TopicPartition("b", 2), TopicPartition("a", 0), TopicPartition("b", 1)]
    )
    assert request.body(0) == raw("03 0261 02 00000000 00" + "0262 03 00000001 00000002 00 00")


DENY = Binding("a", "LITERAL", "User:b", "*", "WRITE", "DENY")
GIVE = Binding("o", "PREFIXED", "User:c", "*", "ALL", "ALLOW")
USER_B, USER_C = "0006" + b"User:b".hex(), "0006" + b"User:c".hex()


def test_describe_acls_answers_by_resource():
    first = "02 0001 61 03 00000001" + USER_B + "0001 2a 04 02"
    second = "02 0001 6f 04 00000002" + USER_C + "0001 2a 02 03" + USER_B + "0001 2a 63 03"
    answer = "00000000 0000 ffff 00000002" + first + second
    newer = GIVE._replace(principal="User:b", operation="99")  # an operation of a later Kafka
    assert read(DescribeAclsRequest(), 1, answer) == (ListedBindings(0, {DENY, GIVE, newer}), 0)


def test_delete_acls_answers_a_code_for_each_and_those_of_what_it_found():
    failed = "001f ffff 02 0001 6f 04" + USER_C + "0001 2a 02 03"
    answer = (
        "00000000 00000003" + "0000 ffff 00000000" + "001f ffff 00000000" + f"0000 ffff 00000001 {failed}"
    )
    assert read(DeleteAclsRequest([DENY] * 3), 1, answer) == ([0, 31, 31], 0)


def test_describe_cluster_tells_our_rights():
    assert DescribeClusterRequest().body(0) == raw("01 00")
    broker = "00000001 02 68 00002384 00 00"
    answer = "00000000 0000 00 02 69 00000001 02" + broker + "00000180 00"
    seen, left = read(DescribeClusterRequest(), 0, answer)
    assert (seen, left) == (ClusterRights(0, Rights(0x180)), 0)
    assert (seen.rights.may(AclOperation.ALTER), seen.rights.may(AclOperation.WRITE)) == (True, False)


def test_describe_configs_leaves_out_what_is_not_set_and_keeps_what_is_hidden():
    request = DescribeBrokerConfigRequest(1, ["a", "b", "c"])
    assert request.body(1) == raw("00000001 04 0001 31 00000003 0001 61 0001 62 0001 63 00")
    shown = "0001 61 0001 78 00 04 00 00000001 0001 61 0001 78 04"
    hidden = "0001 62 ffff 00 04 01 00000000"
    answer = "00000000 00000001 0000 ffff 04 0001 31 00000002" + shown + hidden
    config, left = read(request, 1, answer)
    assert (config.error_code, config.values, left) == (0, {"a": "x", "b": None}, 0)


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
    told = {"t": DescribedConfig(0, {"a": ConfigEntry("7", ConfigOrigin.OVERRIDE, on_topic=True)})}
    assert read(DescribeTopicConfigsRequest(["t"], ["a"]), 1, answer) == (told, 0)
    assert DescribeTopicConfigsRequest(["t"], ["a"]).body(1) == raw("00000001 02 0001 74 00000001 0001 61 00")


def test_log_directories_of_a_broker_before_3_3_have_no_volume():
    replica = "00000002 0000000000000064 0000000000000000 00"
    answer = f"00000000 00000001 0000 0002 2f64 00000001 0001 74 00000001 {replica}"
    sizes = {TopicPartition("t", 2): 100}
    told = DescribedLogDirs(0, (LogDir("", "/d", sizes, UNKNOWN, UNKNOWN),))
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


A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("kind", "number"), [(Coordinated.TRANSACTION, "01"), (Coordinated.GROUP, "00")])
def test_find_coordinator_of_a_transactional_id_and_of_a_group(version, kind, number):
    request = FindCoordinatorRequest("tx", kind)
    assert request.body(version) == raw("0002 7478", number)
    answer = "00000000 000f 0001 6d 00000001 0001 68 00002384"
    assert read(request, version, answer) == (Coordinator(15, 1, "h", 9092), 0)


@pytest.mark.parametrize(
    ("version", "instance", "body", "rest"),
    [(2, "", "", ""), (4, "ffff", "00", "80000000")],
    ids=["without instances and rights", "with both"],
)
def test_groups_of_any_protocol_type_are_described(version, instance, body, rest):
    request = DescribeGroupsRequest(["a-mm2"])
    assert request.body(version) == raw("00000001 0005 612d6d6d32", body)
    member = "0001 6d" + instance + "0001 63 0002 2f68 00000002 0102 00000001 03"
    head = "00000000 00000001 0000 0005 612d6d6d32 0006 537461626c65 0007 636f6e6e656374 0001 70 00000001"
    described = DescribedGroup("a-mm2", 0, "Stable", "connect", (GroupMember("c", "/h", b"\x03"),))
    assert read(request, version, head, member, rest) == ({"a-mm2": described}, 0)


@pytest.mark.parametrize(
    ("assignment", "holds"),
    [
        ("", False),
        ("0001", False),
        ("0001 00000000 ffffffff", False),
        ("0001 00000001 0001 61 00000001", True),
    ],
)
def test_who_of_a_consumer_group_holds_partitions(assignment, holds):
    assert GroupMember("c", "/h", raw(assignment)).holds_partitions is holds


@pytest.mark.parametrize(
    ("version", "body", "answer", "state"),
    [
        (2, "", "00000000 0000 00000001 0001 67 0008 636f6e73756d6572", ""),
        (4, "01 00", "00000000 0000 02 02 67 09 636f6e73756d6572 06 456d707479 00 00", "Empty"),
        (
            5,
            "01 01 00",
            "00000000 0000 02 02 67 09 636f6e73756d6572 06 456d707479 08 636c6173736963 00 00",
            "Empty",
        ),
    ],
)
def test_groups_are_listed_with_their_states_where_the_broker_tells_them(version, body, answer, state):
    request = ListGroupsRequest()
    assert request.body(version) == raw(body)
    assert read(request, version, answer)[0] == ListedGroups(0, (ListedGroup("g", "consumer", state),))


@pytest.mark.parametrize(
    ("version", "body", "answer"),
    [
        (
            5,
            "0001 67 ffffffff",
            (
                "00000000 00000001 0001 61 00000002"
                "00000000 0000000000000005 ffffffff 0001 6d 0000"
                "00000001 ffffffffffffffff ffffffff ffff 0058 0000"
            ),
        ),
        (
            7,
            "02 67 00 01 00",
            (
                "00000000 02 02 61 03"
                "00000000 0000000000000005 ffffffff 02 6d 0000 00"
                "00000001 ffffffffffffffff ffffffff 00 0058 00 00 0000 00"
            ),
        ),
    ],
)
def test_all_that_a_group_has_committed(version, body, answer):
    request = OffsetFetchRequest("g", stable=True)
    assert request.body(version) == raw(body)
    found = {A0: FetchedOffset(5, "m", 0), A1: FetchedOffset(-1, "", 88)}
    assert read(request, version, answer)[0] == FetchedOffsets(0, found)


@pytest.mark.parametrize(("version", "instance", "epoch"), [(5, "", ""), (7, "ffff", "ffffffff")])
def test_a_commit_without_a_member_a_generation_or_an_epoch(version, instance, epoch):
    request = OffsetCommitRequest("g", {B0: (7, ""), A0: (5, "m")})
    a = "0001 61 00000001 00000000 0000000000000005" + epoch + "0001 6d"
    b = "0001 62 00000001 00000000 0000000000000007" + epoch + "0000"
    assert request.body(version) == raw("0001 67 ffffffff 0000", instance, "00000002", a, b)
    answer = "00000000 00000002 0001 61 00000001 00000000 0000 0001 62 00000001 00000000 0019"
    assert read(request, version, answer) == ({A0: 0, B0: 25}, 0)
