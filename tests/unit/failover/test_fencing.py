"""A fence that is raised whole or not at all, and the proof that nobody writes."""

import pytest

from kit.clusters import FakeCluster
from kit.fences import FakeFences, plan_fence
from mmtool.errors import GateError, NotAuthorisedError, PartlyAppliedError, RefusedError, UnreachableError
from mmtool.failover.fence.actions import (
    Stray,
    StrayProducersError,
    await_transactions,
    lower_fence,
    raise_fence,
    watch_ends,
)
from mmtool.kafka.ports import Bounds, Problem
from mmtool.plan.failover.acl_rules import Binding
from mmtool.plan.failover.choices import FenceKind
from mmtool.plan.failover.fence_plan import OpenTransaction
from mmtool.translation.types import UNKNOWN, ClusterId, TopicPartition

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)


def allow(principal, topic="orders"):
    return Binding(topic, "LITERAL", principal, "*", "WRITE", "ALLOW")


def deny(principal, topic="orders"):
    return allow(principal, topic)._replace(permission="DENY")


@pytest.fixture
def cluster():
    cluster = FakeCluster("east", ClusterId("east-id"))
    cluster.add_topic("orders", "id-orders", 10)
    cluster.add_topic("bills", "id-bills", 10)
    return cluster


@pytest.fixture
def fences(cluster):
    return FakeFences(cluster, rules={allow("User:alice"), allow("User:bob", "bills")})


def plan(fences):
    return plan_fence(fences, ["orders", "bills"])


@pytest.mark.parametrize(
    ("kind", "came", "remedy"),
    [
        (FenceKind.WATCH, 3, "stop these producers; then"),
        (FenceKind.HOOK, 3, "stop these producers; correct mmtool.hook.fence"),
        (FenceKind.ACL, -1, "wait until the replicas of these partitions on east are in sync"),
    ],
)
def test_a_log_end_that_moves_has_the_remedy_of_its_cause(kind, came, remedy):
    assert StrayProducersError("east", (Stray(ORDERS, came, UNKNOWN),), kind).remedy.startswith(remedy)


# --- raising and lowering ---------------------------------------------------------------------------------


def test_a_plan_with_guards_is_refused_and_nothing_changes(fences):
    before = set(fences.rules)
    fences.may_alter = False
    with pytest.raises(RefusedError, match="lacks ALTER") as caught:
        raise_fence(fences, plan(fences))
    assert (caught.value.code, fences.rules) == ("may_not_alter_acls", before)


def test_when_one_part_fails_the_rest_is_taken_back(fences):
    before, fences.stubborn = set(fences.rules), {deny("User:bob", "bills")}
    with pytest.raises(RefusedError, match="DENY WRITE on topic bills for User:bob: Broker: Unknown"):
        raise_fence(fences, plan(fences))
    assert fences.rules == before


def test_what_cannot_be_taken_back_is_listed_with_kafka_s_own_command(fences):
    fences.stubborn, fences.undeletable = {deny("User:bob", "bills")}, {deny("User:alice")}
    with pytest.raises(PartlyAppliedError) as caught:
        raise_fence(fences, plan(fences))
    assert "--topic orders --deny-principal User:alice" in caught.value.remedy


def test_when_the_cluster_goes_away_in_the_middle_what_may_be_left_is_listed(fences):
    wanted = plan(fences)
    fences.failure = UnreachableError("east does not answer")
    with pytest.raises(PartlyAppliedError, match="east does not answer") as caught:
        raise_fence(fences, wanted)
    assert all(str(one) in caught.value.message for one in wanted.denies)


def test_a_deny_that_may_still_be_made_is_told(fences):
    before = set(fences.rules)

    def lose_the_answer():
        raise UnreachableError("east does not answer")

    wanted, fences.after_create = plan(fences), lose_the_answer
    with pytest.raises(UnreachableError, match="may still create them") as caught:
        raise_fence(fences, wanted)
    assert (fences.rules, caught.value.exit_code) == (before, 9)


def test_ctrl_c_takes_the_fence_back(fences):
    before = set(fences.rules)

    def interrupt():
        raise KeyboardInterrupt

    wanted, fences.after_create = plan(fences), interrupt
    with pytest.raises(KeyboardInterrupt):
        raise_fence(fences, wanted)
    assert fences.rules == before


def test_who_was_given_write_since_the_plan_makes_it_stale(fences):
    wanted = plan(fences)
    fences.after_create = lambda: fences.rules.add(allow("User:carol"))
    with pytest.raises(RefusedError, match="User:carol may write orders") as caught:
        raise_fence(fences, wanted)
    assert (caught.value.code, deny("User:alice") in fences.rules) == ("fence_stale", False)


def test_a_fence_that_denies_mmtool_is_found_out_and_taken_back(fences):
    before = set(fences.rules)
    fences.own, fences.own_known = "User:alice", False
    wanted = plan(fences)
    assert "own_principal_unknown" in [warning.code for warning in wanted.warnings]
    with pytest.raises(RefusedError, match="denies mmtool itself WRITE on orders") as caught:
        raise_fence(fences, wanted)
    assert (caught.value.code, fences.rules) == ("own_principal_denied", before)


def test_a_fence_with_nobody_to_deny_is_raised_at_once(fences):
    fences.rules = {allow("User:mm")}
    assert raise_fence(fences, plan(fences)) == ()
    lower_fence(fences, ())


def test_what_cannot_be_lowered_is_partly_applied(fences):
    created = raise_fence(fences, plan(fences))
    fences.undeletable = {deny("User:alice")}
    with pytest.raises(PartlyAppliedError, match="DENY WRITE on topic orders for User:alice may still exist"):
        lower_fence(fences, created)
    assert deny("User:bob", "bills") not in fences.rules


# --- transactions -----------------------------------------------------------------------------------------


def test_transactions_that_do_not_end_are_listed(fences):
    fences.begin("User:alice", ORDERS, "tx-1")
    times = iter([0.0, 1.0, 31.0])
    with pytest.raises(GateError) as caught:
        await_transactions(fences, [ORDERS], 30.0, pause=lambda _: None, clock=lambda: next(times))
    said = "producer id 1000 (tx-1) in orders-0 from offset 10 since 1970-01-01T00:00:00Z"
    assert caught.value.message.endswith(said)


def test_what_cannot_be_told_of_a_transaction_is_left_out(fences, monkeypatch):
    monkeypatch.setattr(fences, "open_transactions", lambda _: [OpenTransaction(ORDERS, 7, 3)])
    with pytest.raises(GateError, match=r"producer id 7 in orders-0 from offset 3$"):
        await_transactions(fences, [ORDERS], 0.0)


# --- watching ---------------------------------------------------------------------------------------------


def watch(cluster, fences, pause, seconds=2.0):
    return watch_ends(cluster, fences, [ORDERS, BILLS], seconds, pause)


def test_what_moves_in_the_beginning_begins_the_time_anew(cluster, fences):
    waited = []

    def pause(seconds):
        waited.append(seconds)
        if sum(waited) == 0.75:
            fences.produce("User:alice", ORDERS, 1)

    assert watch(cluster, fences, pause) == {ORDERS: 11, BILLS: 10}
    assert sum(waited) == 2.75


def test_a_producer_that_goes_on_is_named_with_what_came(cluster, fences):
    fences.produce("User:alice", ORDERS, 4)
    waited = []

    def pause(seconds):
        waited.append(seconds)
        if sum(waited) == 1.75:
            fences.produce("User:alice", ORDERS, 7, 3)
            fences.produce("User:bob", BILLS, None)

    with pytest.raises(StrayProducersError) as caught:
        watch(cluster, fences, pause)
    assert "1 record in bills-0 (by a producer without idempotence)" in caught.value.message
    assert "3 records in orders-0 (by producer id 7)" in caught.value.message


def test_a_transaction_that_ends_while_it_is_watched_is_a_stray(cluster, fences):
    commit = fences.begin("User:alice", ORDERS, "tx-1")
    waited = []

    def pause(seconds):
        waited.append(seconds)
        if sum(waited) == 1.5:
            commit()

    with pytest.raises(StrayProducersError, match=r"1 record in orders-0 \(by producer id 1000\)"):
        watch(cluster, fences, pause)


def test_ends_are_watched_also_where_producers_cannot_be_told(cluster, fences, monkeypatch):
    def denied(_):
        raise NotAuthorisedError("READ is missing")

    monkeypatch.setattr(fences, "writers", denied)
    assert watch(cluster, fences, lambda _: None) == {ORDERS: 10, BILLS: 10}
    with pytest.raises(StrayProducersError, match="by unknown producers") as caught:
        watch(cluster, fences, lambda _: fences.produce("User:alice", ORDERS, 1))
    assert [stray.producers for stray in caught.value.strays] == [UNKNOWN]


def test_a_partition_that_is_gone_cannot_be_watched(cluster, fences):
    with pytest.raises(RefusedError, match="bills-0 no longer exists on east"):
        watch(cluster, fences, lambda _: cluster.logs.pop(BILLS, None))


def test_a_log_that_was_cut_is_no_end_that_stands_still(cluster, fences):
    def pause(seconds):
        log = cluster.logs[ORDERS]
        cluster.logs[ORDERS] = Bounds(log.log_start, log.log_end - 1)

    with pytest.raises(StrayProducersError, match=r"orders-0 lost 1 record \(its log was truncated\)"):
        watch(cluster, fences, pause)


def test_brokers_without_an_authorizer_need_another_fence_and_no_second_start(fences, monkeypatch):
    def without(bindings):
        return {binding: Problem("SECURITY_DISABLED", "no authorizer") for binding in bindings}

    monkeypatch.setattr(fences, "create", without)
    with pytest.raises(RefusedError, match="the fence on east could not be set") as caught:
        raise_fence(fences, plan(fences))
    assert "--fence hook or --fence watch" in caught.value.remedy


def test_another_problem_beside_it_keeps_its_own_remedy_and_names_the_cluster(fences, monkeypatch):
    names = iter(["SECURITY_DISABLED", "CLUSTER_AUTHORIZATION_FAILED"])
    monkeypatch.setattr(fences, "create", lambda found: {one: Problem(next(names), "no") for one in found})
    with pytest.raises(RefusedError) as caught:
        raise_fence(fences, plan(fences))
    assert "{" not in caught.value.remedy
    assert caught.value.remedy.endswith("then run the same command again")
