"""A group that is not listed is not there, one that nobody can list now is; and in which partition it is stored."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from mmtool.kafka.groups.coordinators import all_groups, names_by_partition, partition_of
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    ListedGroup,
    ListedGroups,
    ListGroupsRequest,
)
from mmtool.kafka.wire.metadata import PartitionLeader, TopicMetadata
from mmtool.translation.types import TopicId


class RefusedError(Exception):
    """What `check` raises."""


def check(code):
    if code != Code.NONE:
        raise RefusedError(code)


@dataclass
class TwoBrokers:
    """A cluster whose four partitions of commits two brokers lead; ``coordinator`` is what each partition's says."""

    coordinator: dict[int, int] = field(default_factory=dict)
    epochs: list[int] = field(default_factory=lambda: [1, 1])
    nodes: tuple[int, ...] = (0, 1)

    async def refresh(self, topics):
        (topic,), epoch = topics, self.epochs.pop(0)
        leaders = [PartitionLeader(n, Code.NONE, n % 2, epoch) for n in range(4)]
        return {topic: TopicMetadata(topic, TopicId("id"), Code.NONE, leaders)}

    async def send(self, node, request):
        if isinstance(request, ListGroupsRequest):
            return ListedGroups(Code.NONE, (ListedGroup(f"of-{node}", "consumer", "Empty"),))
        assert isinstance(request, DescribeGroupsRequest)
        return {
            name: DescribedGroup(name, self.coordinator.get(partition_of(name, 4), Code.NONE), "Dead", "", ())
            for name in request.groups
        }


def listed(cluster):
    return [group.group for group in asyncio.run(all_groups(cluster, check))]


def test_every_broker_lists_what_it_holds():
    assert listed(TwoBrokers()) == ["of-0", "of-1"]


@pytest.mark.parametrize("code", [Code.NOT_COORDINATOR, Code.COORDINATOR_LOAD_IN_PROGRESS])
@pytest.mark.parametrize("partition", range(4))
def test_a_leader_that_does_not_coordinate_one_of_its_partitions_yet_makes_the_list_wait(partition, code):
    with pytest.raises(RefusedError):
        listed(TwoBrokers({partition: code}))


def test_a_list_during_which_a_leader_changed_is_none():
    with pytest.raises(RefusedError):
        listed(TwoBrokers(epochs=[1, 2]))


@pytest.mark.parametrize("code", [Code.GROUP_ID_NOT_FOUND, Code.GROUP_AUTHORIZATION_FAILED])
def test_who_may_not_ask_about_any_group_gets_the_list_all_the_same(code):
    assert listed(TwoBrokers(dict.fromkeys(range(4), code))) == ["of-0", "of-1"]


@pytest.mark.parametrize("count", [1, 7, 50])
def test_there_is_a_name_for_each_partition(count):
    assert [partition_of(name, count) for name in names_by_partition(count)] == list(range(count))


@pytest.mark.parametrize(
    ("group", "java_hash"),
    [
        ("a", 97),
        ("hello world", 1_794_106_052),
        ("The quick brown fox jumps over the lazy dog", -609_428_141),
        ("polygenelubricants", -(1 << 31)),  # whose absolute value is no int of Java's: 0 stands for it
        ("", 0),
    ],
)
def test_a_group_is_where_kafka_s_rule_has_it(group, java_hash):
    expected = 0 if java_hash == -(1 << 31) else abs(java_hash)
    assert partition_of(group, 50) == expected % 50
