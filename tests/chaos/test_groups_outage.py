"""A broker that hangs or dies under whoever asks about groups all the time, as a running flow does."""

import threading
import time
from contextlib import suppress
from functools import partial

import pytest

from kit.lookups import groups_of
from mmtool.config import ClusterSettings
from mmtool.errors import MmtoolError, UnreachableError
from mmtool.kafka.admin.cluster_facts import KafkaCluster
from mmtool.kafka.groups.groups import KafkaGroups
from mmtool.kafka.ports import Bounds
from mmtool.lab.cluster import Cluster, Shape
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

pytestmark = [pytest.mark.chaos, pytest.mark.kafka]

GROUPS = [f"group-{number}" for number in range(20)]
PLACE = TopicPartition("t", 0)
REQUEST_SECONDS = 4.0
AWAY_SECONDS = 12
OUTAGES = 3


@pytest.fixture
def own(tmp_path):
    with Cluster("own", tmp_path) as cluster:
        create_topic(cluster.bootstrap, "t")
        yield cluster


class Asker:
    """Asks in a thread of its own, through a client that lives as long as it does."""

    def __init__(self, settings):
        self.groups = KafkaGroups(settings, REQUEST_SECONDS)
        self.answers, self.failures, self.stop = 0, [], threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        while not self.stop.wait(0.2):
            try:
                assert all(standing.idle for standing in self.groups.describe(GROUPS).values())
                commits = self.groups.commits(GROUPS)
                assert commits == {name: {PLACE: Commit(n)} for n, name in enumerate(GROUPS)}
                assert set(self.groups.listing().states) >= set(GROUPS)
                self.answers += 1
            except MmtoolError as error:
                self.failures.append(error)


@pytest.mark.parametrize("how", ["hangs", "dies"])
def test_an_outage_is_an_error_and_the_next_question_after_it_is_answered(own, how, measured):
    """librdkafka's admin client ends the process in the first outage: Assertion `eonce->refcnt > 0' failed."""
    settings = ClusterSettings(alias="own", bootstrap_servers=own.bootstrap)
    writer = groups_of(own.bootstrap)
    for number, name in enumerate(GROUPS):
        assert writer.alter(name, {PLACE: Commit(number)}) == {}
    askers = [Asker(settings) for _ in range(3)]
    back = []
    for _ in range(OUTAGES):
        (own.pause_broker if how == "hangs" else own.kill_broker)(0)
        time.sleep(AWAY_SECONDS)
        before = [asker.answers for asker in askers]
        (own.resume_broker if how == "hangs" else own.start_broker)(0)
        back.append(wait_until(partial(_all_on, askers, before), "the next answers", REQUEST_SECONDS + 4))
        time.sleep(REQUEST_SECONDS)
    measured(f"a broker {how}: all askers answered {', '.join(f'{seconds:.1f}' for seconds in back)} s after")
    for asker in askers:
        asker.stop.set()
        asker.thread.join(20)
    failures = [error for asker in askers for error in asker.failures]
    assert failures
    assert {error.exit_code for error in failures} == {9}
    assert not any(asker.thread.is_alive() for asker in askers)


def _all_on(askers, before):
    return all(asker.answers > was for asker, was in zip(askers, before, strict=True))


def test_ends_of_logs_are_told_again_after_a_broker_was_frozen_and_leads_anew(own):
    """librdkafka's admin client keeps the leader's old epoch for 15 minutes: each answer is FENCED_LEADER_EPOCH."""
    asked = KafkaCluster(ClusterSettings(alias="own", bootstrap_servers=own.bootstrap), REQUEST_SECONDS)
    for _ in range(4):
        own.pause_broker(0)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with suppress(UnreachableError):
                asked.bounds([PLACE])
        own.resume_broker(0)
        time.sleep(6)
        assert asked.bounds([PLACE]) == {PLACE: Bounds(0, 0)}


def test_groups_whose_coordinator_is_away_do_not_look_deleted(tmp_path):
    """Neither while its death is not known yet, nor when its partitions have no leader, nor while it loads them."""
    shape = Shape(brokers=3, properties={"offsets.topic.replication.factor": "1"})
    with Cluster("three", tmp_path, shape) as three:
        create_topic(three.bootstrap, "t")
        for name in GROUPS:
            assert groups_of(three.bootstrap).alter(name, {PLACE: Commit(1)}) == {}
        settings = ClusterSettings(alias="three", bootstrap_servers=three.bootstrap)
        asked = KafkaGroups(settings, 1.0)
        assert listed(asked) == set(GROUPS)
        three.kill_broker(2)
        deadline = time.monotonic() + AWAY_SECONDS
        while time.monotonic() < deadline:
            assert listed(asked) in (set(GROUPS), None)
        assert listed(asked) is None
        three.start_broker(2)

        def back():
            found = listed(asked)
            assert found in (set(GROUPS), None)
            return found

        wait_until(back, "the coordinators to be back", 30)


def listed(groups):
    """None where the cluster cannot say."""
    try:
        return set(groups.listing().states)
    except UnreachableError:
        return None
