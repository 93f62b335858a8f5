"""A group that cannot be asked costs no other group its answer, and little time."""

import asyncio
import time

import pytest

from mmtool.config import ClusterSettings
from mmtool.errors import NotAuthorisedError, RefusedError, UnreachableError
from mmtool.kafka.groups.groups import KafkaGroups
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.groups import Coordinator, DescribedGroup, FetchedOffset, FetchedOffsets
from mmtool.kafka.wire.request import UnsupportedByBrokerError
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

ORDERS = TopicPartition("orders", 0)
HANGS = "the broker takes the request and never answers"
SECONDS = 1.2


class Brokers:
    """Groups whose names begin with b have broker 2 as coordinator, all others broker 1.

    Attributes:
        nowhere: Error codes of groups that have no coordinator.
        codes: What a coordinator answers about a group, in turn, the last one for ever.
        commits: The same about its commit.
        down: Brokers that do not answer.
        knows_batches: Whether one request may be about several groups (Kafka 3.0).
    """

    def __init__(self):
        self.nowhere, self.codes, self.commits, self.down = {}, {}, {}, {}
        self.knows_batches = True

    async def start(self):
        pass

    async def close(self):
        pass

    alias = "lab"

    async def find_coordinators(self, keys, _kind):
        return {key: self._coordinator(key) for key in keys}

    def _coordinator(self, key):
        code = self._next(self.nowhere, key)
        return Coordinator(code, 2 if key.startswith("b") else 1, "broker", 9092)

    @staticmethod
    def _next(codes, key):
        left = codes.get(key, [Code.NONE])
        return left.pop(0) if len(left) > 1 else left[0]

    async def send(self, node, request, **__):
        if self.down.get(node) == HANGS:
            await asyncio.sleep(60)
        if node in self.down:
            raise ConnectionLostError(self.down[node])
        name = type(request).__name__
        if name == "OffsetFetchOfGroupsRequest" and not self.knows_batches:
            raise UnsupportedByBrokerError("a broker of lab is too old")
        if name == "OffsetFetchRequest":
            return self._offsets(request.group)
        if name.startswith("OffsetFetch"):
            return {group: self._offsets(group) for group in request.groups}
        return {group: self._described(group, name) for group in request.groups}

    def _offsets(self, group):
        offset = FetchedOffset(7, "", self._next(self.commits, group))
        return FetchedOffsets(self._next(self.codes, group), {ORDERS: offset})

    def _described(self, group, request):
        code = self._next(self.codes, group)
        if request == "DescribeGroupsRequest" and code != Code.NONE:
            code = Code.GROUP_ID_NOT_FOUND if group.startswith("new") else code
        return DescribedGroup(group, code, "Empty", "", ())


@pytest.fixture
def brokers():
    return Brokers()


@pytest.fixture
def groups(brokers, monkeypatch):
    made = KafkaGroups(ClusterSettings(alias="lab", bootstrap_servers="nowhere:1"), SECONDS)
    monkeypatch.setattr(made._wire, "_cluster", brokers)
    monkeypatch.setattr(made._wire, "_started", True)
    return made


READ = {"a": {ORDERS: Commit(7)}}


def failures(found):
    return {group: type(error) for group, error in found.failed.items()}


@pytest.mark.parametrize("knows_batches", [True, False])
def test_a_group_that_may_not_be_described_has_its_own_reason(groups, brokers, knows_batches):
    brokers.knows_batches = knows_batches
    brokers.codes["denied"] = [Code.GROUP_AUTHORIZATION_FAILED]
    found = groups.commits_each(["a", "denied"])
    assert (found, failures(found)) == (READ, {"denied": NotAuthorisedError})
    assert "group denied" in found.failed["denied"].message
    described = groups.describe_each(["a", "denied"])
    assert (described.keys(), failures(described)) == ({"a"}, {"denied": NotAuthorisedError})


def test_so_has_one_whose_coordinator_may_not_be_asked_for(groups, brokers):
    brokers.nowhere["denied"] = [Code.GROUP_AUTHORIZATION_FAILED]
    found = groups.commits_each(["a", "denied"])
    assert (found, failures(found)) == (READ, {"denied": NotAuthorisedError})


@pytest.mark.long
def test_so_has_one_that_nobody_coordinates(groups, brokers):
    brokers.nowhere["b"] = [Code.COORDINATOR_NOT_AVAILABLE]
    found = groups.commits_each(["a", "b"])
    assert (found, failures(found)) == (READ, {"b": UnreachableError})


@pytest.mark.long
@pytest.mark.parametrize("why", [HANGS, "connection refused"])
def test_a_coordinator_that_does_not_answer_costs_its_own_groups(groups, brokers, why):
    brokers.down[2] = why
    began = time.monotonic()
    found = groups.commits_each(["a", "b1", "b2"])
    assert (found, failures(found)) == (READ, dict.fromkeys(["b1", "b2"], UnreachableError))
    assert "group b1" in found.failed["b1"].message
    assert time.monotonic() - began < 2 * SECONDS  # and not the five seconds more that a whole question has


def test_one_that_has_moved_is_found_again(groups, brokers):
    brokers.codes["a"] = [Code.NOT_COORDINATOR, Code.COORDINATOR_LOAD_IN_PROGRESS, Code.NONE]
    assert groups.commits_each(["a"]) == READ


@pytest.mark.long
def test_a_group_with_an_open_transaction_over_its_offsets_costs_itself(groups, brokers):
    brokers.commits["open"] = [Code.UNSTABLE_OFFSET_COMMIT]
    found = groups.commits_each(["a", "open"], stable=True)
    assert (found, {group: error.code for group, error in found.failed.items()}) == (
        READ,
        {"open": "unstable_offset"},
    )


def test_a_group_of_the_new_protocol_that_is_denied_is_not_taken_for_one_that_does_not_exist(groups, brokers):
    brokers.codes["new"] = [Code.GROUP_ID_NOT_FOUND, Code.GROUP_AUTHORIZATION_FAILED]
    found = groups.describe_each(["a", "new"])
    assert (found.keys(), failures(found)) == ({"a"}, {"new": NotAuthorisedError})


@pytest.mark.parametrize("asked", ["commits", "describe"])
def test_who_needs_all_of_them_is_told_why_one_is_missing(groups, brokers, asked):
    brokers.codes["odd"] = [Code.INVALID_PRODUCER_EPOCH]
    with pytest.raises(RefusedError, match="group odd"):
        getattr(groups, asked)(["a", "odd"])
