"""What becomes of a broker's answer about groups."""

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from kit.lookups import groups_of
from mmtool.config import ClusterSettings
from mmtool.errors import ConfigError, NotAuthorisedError, RefusedError, UnreachableError
from mmtool.kafka.groups import groups as groups_module
from mmtool.kafka.groups.groups import KafkaGroups
from mmtool.kafka.patience import RetriableError
from mmtool.kafka.wire.acls import Rights
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.groups import Coordinator, DescribedGroup
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import UNKNOWN, TopicPartition

ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (24, ConfigError),  # INVALID_GROUP_ID
        (Code.GROUP_AUTHORIZATION_FAILED, NotAuthorisedError),
        (47, RefusedError),  # INVALID_PRODUCER_EPOCH
    ],
)
def test_an_answer_about_a_group_is_an_error_of_its_kind(code, error):
    with pytest.raises(error, match=r"(describing|DESCRIBE on) group g"):
        groups_of("nowhere:1")._check(code, "describing group", "g")


def test_a_coordinator_that_has_moved_is_asked_again():
    with pytest.raises(RetriableError) as passing:
        groups_of("nowhere:1")._check(Code.NOT_COORDINATOR, "describing group", "g")
    assert isinstance(passing.value.final, UnreachableError)


class Dying:
    """A cluster that tells of groups, and whose only broker is gone before it is asked of topics."""

    async def find_coordinators(self, keys, *_):
        return dict.fromkeys(keys, Coordinator(Code.NONE, 0, "broker-0", 9092))

    async def send(self, _, request, **__):
        return {name: DescribedGroup(name, Code.NONE, "Empty", "", ()) for name in request.groups}

    async def refresh(self, *_, **__):
        raise ConnectionLostError("connection refused")


class Moving(Dying):
    """A coordinator that has moved, and answers for that one without rights; then the new one, which allows nothing."""

    def __init__(self):
        self.answers = [(Code.NOT_COORDINATOR, UNKNOWN), (Code.NONE, Rights(0))]

    async def send(self, _, request, **__):
        code, rights = self.answers.pop(0)
        return {name: DescribedGroup(name, code, "Empty", "", (), rights) for name in request.groups}

    async def refresh(self, *_, **__):
        return {}


def groups_on(cluster, monkeypatch):
    groups = KafkaGroups(ClusterSettings(alias="lab", bootstrap_servers="nowhere:1"), 0.2)
    monkeypatch.setattr(groups._wire, "_cluster", cluster)
    monkeypatch.setattr(groups._wire, "_started", True)
    return groups


def test_a_right_that_is_missing_is_told_of_also_while_coordinators_move(monkeypatch):
    groups = groups_on(Moving(), monkeypatch)
    assert groups.missing_rights({"app": [TopicPartition("orders", 0)]}) == ["READ on group app"]


def test_a_broker_that_dies_while_rights_are_asked_for_is_a_cluster_that_does_not_answer(monkeypatch):
    groups = groups_on(Dying(), monkeypatch)
    with pytest.raises(UnreachableError, match="reading mmtool's rights failed: connection refused"):
        groups.missing_rights({"app": [TopicPartition("orders", 0)]})


class Losing(Dying):
    """A coordinator that loses its replicas, or its office, with a commit in its log."""

    def __init__(self, code):
        self.code = code

    async def send(self, _, request, **__):
        return dict.fromkeys([ORDERS], self.code)


@pytest.mark.parametrize("code", [Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR])
def test_a_commit_that_is_answered_with_not_now_until_the_end_may_have_been_taken(code, monkeypatch):
    problems = groups_on(Losing(code), monkeypatch).alter("app", {ORDERS: Commit(5)})
    assert {place: problem.name for place, problem in problems.items()} == {ORDERS: UnreachableError.code}


def test_a_commit_that_is_refused_for_good_has_not(monkeypatch):
    unknown_member_id = 25
    problems = groups_on(Losing(unknown_member_id), monkeypatch).alter("app", {ORDERS: Commit(5)})
    assert {place: problem.name for place, problem in problems.items()} == {ORDERS: "UNKNOWN_MEMBER_ID"}


class Hanging(Dying):
    """Deletes the first hundred groups that it is asked for, and answers nothing afterwards."""

    def __init__(self):
        self.asked = 0

    async def send(self, _, request):
        self.asked += 1
        if self.asked > 1:
            await asyncio.sleep(60)
        return dict.fromkeys(request.groups, Code.NONE)

    async def start(self):
        """It hangs as a whole only once it was asked."""

    async def close(self):
        """Nothing to close."""


class Describing(Hanging):
    """Likewise, for descriptions."""

    async def send(self, node, request, **how):
        return {
            name: DescribedGroup(name, code, "Empty", "", ())
            for name, code in (await super().send(node, request, **how)).items()
        }


def test_groups_that_were_described_are_known_though_the_cluster_answers_nothing_about_later_ones(
    monkeypatch,
):
    monkeypatch.setattr(groups_module, "_PER_QUESTION", 1)
    monkeypatch.setattr(groups_module, "_SPARE_SECONDS", 0.0)
    described = groups_on(Describing(), monkeypatch).describe_each(["first", "second", "third"])
    assert (described.keys(), described.failed.keys()) == ({"first"}, {"second", "third"})


def test_groups_that_were_deleted_stay_so_though_the_cluster_answers_nothing_about_later_ones(monkeypatch):
    monkeypatch.setattr(groups_module, "_PER_QUESTION", 1)
    monkeypatch.setattr(groups_module, "_SPARE_SECONDS", 0.0)
    groups = groups_on(Hanging(), monkeypatch)
    assert groups.delete(["first", "second"]).keys() == {"second"}


class Counting(Dying):
    """Answers commits slowly, and counts how many requests of one connection it has at a time."""

    def __init__(self):
        self.at_work = Counter()
        self.most = Counter()

    async def send(self, _, request, *, purpose=""):
        self.at_work[purpose] += 1
        self.most[purpose] = max(self.most[purpose], self.at_work[purpose])
        await asyncio.sleep(0.05)
        self.at_work[purpose] -= 1
        return dict.fromkeys([ORDERS], Code.NONE)


def test_commits_at_the_same_time_wait_for_no_other_one_on_their_connection(monkeypatch):
    cluster = Counting()
    groups = groups_on(cluster, monkeypatch)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: groups.alter(name, {ORDERS: Commit(5)}), map(str, range(12))))
    assert set(cluster.most.values()) == {1}
    assert 1 < len(cluster.most) <= 4, cluster.most


def test_commits_one_after_the_other_share_a_connection(monkeypatch):
    cluster = Counting()
    groups = groups_on(cluster, monkeypatch)
    for name in ("a", "b", "c"):
        assert groups.alter(name, {ORDERS: Commit(5)}) == {}
    assert len(cluster.most) == 1
