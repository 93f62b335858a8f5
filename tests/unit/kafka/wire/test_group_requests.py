"""Requests about groups, byte for byte as Kafka's protocol guide has them."""

from __future__ import annotations

import pytest

from kit.protocol import raw, read
from mmtool.kafka.wire.groups import (
    Coordinated,
    Coordinator,
    DescribedGroup,
    DescribeGroupsRequest,
    FetchedOffset,
    FetchedOffsets,
    FindCoordinatorRequest,
    GroupMember,
    ListedGroup,
    ListedGroups,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from mmtool.translation.types import TopicPartition

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
