"""What consumer groups promise, on the fake and on a real broker alike."""

import asyncio
import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka import TopicPartition as LibraryPartition
from confluent_kafka.admin import AdminClient

from kit.clusters import FakeCluster
from kit.consumers import share
from mmtool.config import ClusterSettings
from mmtool.errors import RefusedError, UnreachableError
from mmtool.failover.commits.write import WriteOutcome, write_groups
from mmtool.kafka.admin.cluster_facts import KafkaCluster
from mmtool.kafka.clients import wire_cluster
from mmtool.kafka.ports import Bounds
from mmtool.kafka.wire.groups import FindCoordinatorsRequest, OffsetFetchOfGroupsRequest
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic
from mmtool.plan.groups.facts import ABSENT, Commit, GroupFacts, GroupKind, GroupStanding, Member
from mmtool.plan.groups.imports import plan_import
from mmtool.translation.answers import TargetLog
from mmtool.translation.types import ClusterId, TopicPartition

SECONDS = 20.0


@dataclass
class OnFake:
    """A cluster in memory."""

    cluster: FakeCluster
    missing: str = "UNKNOWN_TOPIC_OR_PART"

    def create(self, topic, partitions):
        self.cluster.add_topic(topic, f"id-{topic}", *[0] * partitions)

    def produce(self, topic, partition, count):
        place = TopicPartition(topic, partition)
        log = self.cluster.logs[place]
        self.cluster.logs[place] = Bounds(log.log_start, log.log_end + count)

    def join(self, group, topic):
        groups = self.cluster.groups
        groups.members[group] = (Member("app-1", "/127.0.0.1"),)
        return SimpleNamespace(close=lambda: groups.members.pop(group))


class OnBroker:
    """A real one."""

    def __init__(self, lab):
        self.bootstrap, self.cluster_id = lab.bootstrap, lab.cluster_id
        self.settings = ClusterSettings(alias="lab", bootstrap_servers=self.bootstrap)
        self.cluster = KafkaCluster(self.settings, timeout_seconds=SECONDS)

    def create(self, topic, partitions):
        create_topic(self.bootstrap, topic, partitions)

    def produce(self, topic, partition, count):
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for _ in range(count):
            producer.produce(topic, b"x", partition=partition)
        producer.flush(SECONDS)

    def join(self, group, topic, **config):
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": group, "client.id": "app-1"} | config
        )
        consumer.subscribe([topic])
        deadline = time.monotonic() + SECONDS
        while not consumer.assignment() and time.monotonic() < deadline:
            consumer.poll(0.1)
        assert consumer.assignment()
        return consumer


@pytest.fixture
def fake():
    return OnFake(FakeCluster("lab", ClusterId("fake-cluster")))


@pytest.fixture
def broker(fleet):
    return OnBroker(fleet["source"])


@pytest.fixture(params=["fake", pytest.param("broker", marks=pytest.mark.kafka)])
def side(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def topic(side, topic_name):
    name = topic_name("groups")
    side.create(name, 2)
    return name


@pytest.fixture
def group(topic_name):
    return topic_name("app")


def at(topic, partition=0):
    return TopicPartition(topic, partition)


def test_a_group_that_nobody_made_is_absent_and_has_no_commits(side, group):
    groups = side.cluster.groups
    assert groups.describe([group]) == {group: ABSENT}
    assert groups.commits([group]) == {group: {}}
    assert group not in groups.listing().states


def test_what_is_committed_is_read_back_with_its_metadata(side, topic, group):
    offsets = {at(topic, 0): Commit(0, "stream-time"), at(topic, 1): Commit(7)}
    assert side.cluster.groups.alter(group, offsets) == {}
    assert side.cluster.groups.fresh().commits([group]) == {group: offsets}


def test_where_everything_is_allowed_no_right_is_missing(side, topic, group):
    assert list(side.cluster.groups.missing_rights({group: [at(topic)]})) == []


def test_metadata_is_as_long_as_the_broker_says(side, topic, group):
    longest = side.cluster.longest_metadata()
    assert (longest, side.cluster.groups.alter(group, {at(topic): Commit(0, "é" * longest)})) == (4096, {})


def test_many_groups_are_read_at_once(side, topic, topic_name):
    groups, names = side.cluster.groups, [topic_name(f"app-{number}") for number in range(120)]
    offsets = {name: {at(topic): Commit(number)} for number, name in enumerate(names[:-1])}
    for name, wanted in offsets.items():
        assert groups.alter(name, wanted) == {}
    assert groups.fresh().commits(names) == {**offsets, names[-1]: {}}
    standing = groups.fresh().describe(names)
    assert {name: standing[name].state for name in names} == {
        **dict.fromkeys(offsets, "Empty"),
        names[-1]: "Dead",
    }


def test_brokers_that_know_no_request_about_many_groups_are_asked_about_each(
    broker, group, topic_name, monkeypatch
):
    """Before Kafka 3.0: every version of ours is too new for them."""
    topic = topic_name("groups")
    broker.create(topic, 1)
    for request in (OffsetFetchOfGroupsRequest, FindCoordinatorsRequest):
        monkeypatch.setattr(request, "VERSIONS", (99,))
    groups, other = broker.cluster.groups, topic_name("other")
    assert groups.alter(group, {at(topic): Commit(3)}) == {}
    assert groups.fresh().commits([group, other]) == {group: {at(topic): Commit(3)}, other: {}}
    assert groups.fresh().describe([group])[group].idle


def test_a_share_group_is_made_moved_and_forgotten_partition_by_partition(broker, group, topic_name):
    topic = topic_name("groups")
    broker.create(topic, 3)
    for partition in range(3):
        broker.produce(topic, partition, 10)
    groups, share = broker.cluster.groups, GroupKind.SHARE
    starts = {at(topic, number): Commit(number + 3) for number in range(3)}
    assert groups.has_share_groups()
    assert groups.alter(group, starts, share) == {}
    assert groups.fresh().commits([group]) == {group: starts}
    assert groups.listing().kind(group) is share
    assert groups.fresh().describe([group]) == {group: GroupStanding("Empty", kind=share)}
    refused = groups.alter(group, {at(topic): Commit(0), at("not-there"): Commit(0)})
    assert list(refused) == [at("not-there")]
    assert groups.forget(group, [at(topic), at(topic, 2)]) == {}
    assert groups.fresh().commits([group]) == {group: {at(topic, 1): Commit(4)}}
    assert groups.delete([group]) == {}
    assert groups.fresh().commits([group]) == {group: {}}


def test_a_share_group_is_where_it_has_acknowledged_everything_or_counts_what_it_has(
    broker, group, topic_name
):
    """The coordinator's own start is older than the last acknowledgement."""
    topic = topic_name("groups")
    broker.create(topic, 1)
    broker.produce(topic, 0, 10)
    groups = broker.cluster.groups
    wait_until(
        lambda: groups.alter(group, {at(topic): Commit(0)}, GroupKind.SHARE) == {}, "the young topic", 30
    )
    assert len(share(broker.bootstrap, group, topic, lambda message: message.offset() != 4, 1)) == 9
    (left,) = groups.commits([group])[group].values()
    assert 0 <= left.offset <= 4
    assert left.acknowledged == 9 - left.offset
    assert len(share(broker.bootstrap, group, topic)) == 1
    (done,) = groups.commits([group])[group].values()
    assert (done.offset, done.acknowledged) == (10, 0)


def test_a_group_of_one_kind_takes_no_positions_of_the_other(broker, group, topic_name):
    topic, groups = topic_name("groups"), broker.cluster.groups
    broker.create(topic, 1)
    wait_until(
        lambda: groups.alter(group, {at(topic): Commit(0)}, GroupKind.SHARE) == {}, "the young topic", 30
    )
    assert set(groups.alter(group, {at(topic): Commit(0)}, GroupKind.CONSUMER)) == {at(topic)}
    assert groups.alter(f"{group}-c", {at(topic): Commit(0)}) == {}
    assert set(groups.alter(f"{group}-c", {at(topic): Commit(0)}, GroupKind.SHARE)) == {at(topic)}
    assert groups.delete([group, f"{group}-c"]) == {}


def test_configs_of_a_group_are_set_before_it_is_there(broker, group):
    groups = broker.cluster.groups
    assert groups.configure(group, {"share.auto.offset.reset": "earliest"}) is None
    assert groups.configs([group, f"{group}-other"]) == {
        group: {"share.auto.offset.reset": "earliest"},
        f"{group}-other": {},
    }
    assert groups.configure(group, {"share.no.such": "1"}) is not None


def test_when_groups_committed_is_told(broker, group, topic_name):
    """Of names whose Java hash is negative, or of more than ASCII, as well."""
    topic, began = topic_name("groups"), time.time() * 1000
    broker.create(topic, 2)
    names = [group, f"{group}-\u00e9\U0001f600", *(f"{group}-{number}" for number in range(5))]
    for name in names:
        assert broker.cluster.groups.alter(name, {at(topic, 1): Commit(0)}) == {}
    broker.cluster.groups.forget(names[-1], [at(topic, 1)])
    times = broker.cluster.commit_times([*names, "nobody"])
    assert {name: list(of) for name, of in times.items() if of} == {
        name: [at(topic, 1)] for name in names[:-1]
    }
    assert all(began - 1 <= ms <= time.time() * 1000 for of in times.values() for ms in of.values())


def test_a_later_commit_replaces_only_the_partitions_that_it_names(side, topic, group):
    groups = side.cluster.groups
    assert groups.alter(group, {at(topic, 0): Commit(1), at(topic, 1): Commit(1)}) == {}
    assert groups.alter(group, {at(topic, 1): Commit(2)}) == {}
    assert groups.commits([group])[group] == {at(topic, 0): Commit(1), at(topic, 1): Commit(2)}


def test_a_partition_that_is_not_there_fails_alone(side, topic, group):
    groups = side.cluster.groups
    problems = groups.alter(group, {at(topic, 0): Commit(1), at(topic, 9): Commit(1)})
    assert {place: problem.name for place, problem in problems.items()} == {
        at(topic, 9): "UNKNOWN_TOPIC_OR_PART"
    }
    assert groups.commits([group])[group] == {at(topic, 0): Commit(1)}


def test_a_group_with_members_is_not_idle_names_them_and_takes_no_commit(side, topic, group):
    groups = side.cluster.groups
    consumer = side.join(group, topic)
    standing = groups.describe([group])[group]
    problems = groups.alter(group, {at(topic): Commit(1)})
    consumer.close()
    assert (standing.idle, standing.state) == (False, "Stable")
    assert [str(member) for member in standing.members] == ["app-1 on 127.0.0.1"]
    assert [problem.name for problem in problems.values()] == ["UNKNOWN_MEMBER_ID"]


def test_a_commit_can_be_deleted_again(side, topic, group):
    """KIP-496; deleting what is not there is no failure."""
    groups = side.cluster.groups
    assert groups.alter(group, {at(topic, 0): Commit(1), at(topic, 1): Commit(2)}) == {}
    assert groups.forget(group, [at(topic, 1)]) == {}
    assert groups.commits([group])[group] == {at(topic, 0): Commit(1)}
    assert groups.forget(group, [at(topic, 0), at(topic, 1)]) == {}
    assert groups.fresh().commits([group]) == {group: {}}
    assert groups.forget(f"{group}-none", [at(topic, 0)]) == {}


def test_a_group_that_is_deleted_is_not_listed_any_more(side, topic, group):
    """KIP-229; deleting what is not there is no failure."""
    groups = side.cluster.groups
    assert groups.alter(group, {at(topic): Commit(1)}) == {}
    assert groups.delete([group, f"{group}-none"]) == {}
    assert group not in groups.fresh().listing().states
    assert groups.commits([group]) == {group: {}}
    assert groups.delete([group]) == {}


def test_a_group_with_members_is_not_deleted(side, topic, group):
    groups = side.cluster.groups
    empty = f"{group}-empty"
    assert [groups.alter(name, {at(topic): Commit(0)}) for name in (group, empty)] == [{}, {}]
    consumer = side.join(group, topic)
    left = groups.delete([group, empty])
    consumer.close()
    assert {name: problem.name for name, problem in left.items()} == {group: "NON_EMPTY_GROUP"}
    stand = groups.commits([group, empty])
    assert (at(topic) in stand[group], stand[empty]) == (True, {})


def test_a_first_commit_that_is_refused_in_part_leaves_nothing_behind(side, topic, group):
    groups, wanted = side.cluster.groups, {at(topic, 0): 0, at(topic, 9): 0}
    logs = dict.fromkeys(wanted, TargetLog(0, 0))
    (result,) = write_groups(groups, [plan_import(GroupFacts(group, {}), wanted, logs)])
    assert (result.outcome, result.written) == (WriteOutcome.REFUSED, frozenset())
    assert groups.commits([group]) == {group: {}}


def test_a_commit_that_a_member_may_need_is_not_deleted(side, topic, group):
    groups = side.cluster.groups
    assert groups.alter(group, {at(topic): Commit(0)}) == {}
    consumer = side.join(group, topic)
    problems = groups.forget(group, [at(topic)])
    consumer.close()
    assert [problem.name for problem in problems.values()] == ["GROUP_SUBSCRIBED_TO_TOPIC"]
    assert at(topic) in groups.commits([group])[group]


def test_a_topic_of_a_name_that_no_cluster_takes_costs_no_other_its_bounds(side, topic):
    names = {
        "x" * 250: "longer than Kafka's limit of 249",
        "a/b": "Kafka allows letters",
        "": "Kafka allows letters",
    }
    places = [at(topic), *map(at, names)]
    found = side.cluster.bounds_each(places)
    assert found == side.cluster.bounds(places) == {at(topic): Bounds(0, 0)}
    assert found.failed.keys() == set(map(at, names))
    assert all(why in found.failed[at(name)].message for name, why in names.items())


def test_a_cluster_tells_its_topics_and_the_bounds_of_their_logs(side, topic):
    side.produce(topic, 1, 3)
    assert side.cluster.topics()[topic].partitions == 2
    assert side.cluster.bounds([at(topic, 0), at(topic, 1), at(topic, 9)]) == {
        at(topic, 0): Bounds(0, 0),
        at(topic, 1): Bounds(0, 3),
    }
    assert side.cluster.bounds([at(topic, 1)], committed=True) == {at(topic, 1): Bounds(0, 3)}


def test_a_cluster_says_which_topics_it_does_not_have(side, topic, topic_name):
    missing = topic_name("nosuch")
    assert side.cluster.lacks([topic, missing]) == {missing}


def test_a_topic_that_was_not_there_is_found_as_soon_as_it_is(side, topic_name):
    name = topic_name("later")
    before = side.cluster.bounds([at(name)])
    side.create(name, 1)
    assert (before, side.cluster.bounds([at(name)])) == ({}, {at(name): Bounds(0, 0)})


def test_the_clients_and_the_wire_agree_on_a_topics_id(broker, topic_name):
    name = topic_name("ids")
    broker.create(name, 1)

    async def asked():
        wire = wire_cluster(broker.settings)
        await wire.start()
        try:
            return wire.cluster_id, (await wire.refresh([name]))[name].topic_id
        finally:
            await wire.close()

    expected = (broker.cluster.probe(), broker.cluster.topics()[name].topic_id)
    assert (asyncio.run(asked()), broker.cluster_id) == (expected, expected[0])


def test_a_group_of_the_new_protocol_is_seen_with_its_members(broker, topic_name):
    topic, group = topic_name("kip848"), topic_name("new")
    broker.create(topic, 2)
    consumer = broker.join(group, topic, **{"group.protocol": "consumer"})
    groups = broker.cluster.groups
    busy = groups.describe([group])[group]
    problems = groups.alter(group, {at(topic): Commit(1)})
    consumer.close()
    idle = groups.describe([group])[group]
    assert (busy.idle, [str(member) for member in busy.members]) == (False, ["app-1 on 127.0.0.1"])
    assert (len(problems), idle.idle, groups.listing().states[group]) == (1, True, "Empty")
    assert groups.alter(group, {at(topic): Commit(1)}) == {}
    assert groups.commits([group])[group] == {at(topic): Commit(1)}


def test_a_commit_under_an_open_transaction_is_not_called_stable(broker, topic_name):
    topic, group = topic_name("pending"), topic_name("eos")
    broker.create(topic, 1)
    groups = broker.cluster.groups
    assert groups.alter(group, {at(topic): Commit(1)}) == {}
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": group})
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.send_offsets_to_transaction(
        [LibraryPartition(topic, 0, 5)], consumer.consumer_group_metadata(), SECONDS
    )
    assert groups.commits([group])[group] == {at(topic): Commit(1)}
    with pytest.raises(RefusedError, match="has an open transaction that commits its offset"):
        KafkaCluster(broker.settings, timeout_seconds=1).groups.commits([group], stable=True)
    producer.commit_transaction(SECONDS)
    consumer.close()
    assert groups.commits([group], stable=True)[group] == {at(topic): Commit(5)}


@pytest.mark.parametrize("side", [pytest.param("broker", marks=pytest.mark.kafka)], indirect=True)
def test_what_is_written_carries_no_leader_epoch(broker, side, topic, group):
    """Written offsets carry none: a consumer would wait for ever for an epoch of another cluster."""
    broker.cluster.groups.alter(group, {at(topic): Commit(1)})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(SECONDS)
    assert [partition.leader_epoch for partition in answer.topic_partitions] == [None]


def test_a_cluster_that_is_away_is_nine_within_its_time():
    away = KafkaCluster(ClusterSettings(alias="gone", bootstrap_servers="127.0.0.1:1"), timeout_seconds=0.5)
    began = time.monotonic()
    with pytest.raises(UnreachableError, match="cluster gone"):
        away.probe()
    assert time.monotonic() - began < 3
