"""A fence while a broker of three dies, or hangs."""

import time

import pytest

from kit.acls import GUARDED
from mmtool.config import ClusterSettings
from mmtool.failover.fence.actions import lower_fence
from mmtool.kafka.admin.fences import KafkaFences
from mmtool.lab.cluster import Cluster, Shape
from mmtool.lab.topics import create_topic
from mmtool.plan.failover.acl_rules import Binding

pytestmark = [pytest.mark.chaos, pytest.mark.kafka]

SECONDS = 60.0  # a broker hands rules on to the controller, and waits 30 s for one that hangs
DENIES = [Binding("orders", "LITERAL", f"User:app-{n}", "*", "WRITE", "DENY") for n in range(3)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with Cluster(
        "fenced", tmp_path_factory.mktemp("fenced"), Shape(brokers=3, properties=GUARDED)
    ) as cluster:
        create_topic(cluster.bootstrap, "orders", 1)
        yield cluster


@pytest.fixture
def fences(lab):
    settings = ClusterSettings(alias="lab", bootstrap_servers=lab.bootstrap)
    found = KafkaFences(settings, timeout_seconds=SECONDS)
    assert found.bindings(["orders"]) == frozenset()  # connected; and no rule was made behind our back
    return found


def raised_and_lowered(fences):
    """What could not be denied, what stood then, what stands after; and how long it took."""
    began = time.monotonic()
    problems = fences.create(DENIES)
    stood = fences.bindings(["orders"])
    lower_fence(fences, DENIES)
    return problems, stood, fences.bindings(["orders"]), time.monotonic() - began


@pytest.mark.parametrize("broker", [0, 1, 2])
@pytest.mark.parametrize(
    ("fault", "end"), [("kill_broker", "start_broker"), ("pause_broker", "resume_broker")]
)
def test_a_fence_stands_when_a_broker_dies_or_hangs(lab, fences, broker, fault, end, measured):
    getattr(lab, fault)(broker)
    try:
        problems, stood, left, seconds = raised_and_lowered(fences)
    finally:
        getattr(lab, end)(broker)
        lab.wait_ready()
    assert (problems, stood, left) == ({}, set(DENIES), frozenset())
    measured(f"{seconds:.1f} s for a fence up and down, after {fault} of {broker}")
