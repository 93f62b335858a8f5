"""What a prefill costs, and how it shares the flow's throttle and waits for a paused topic."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mmtool.plan.records.documents import PrefillRecord
from mmtool.replication.same_offsets import prefill
from mmtool.replication.same_offsets.prefill import Prefills
from mmtool.replication.same_offsets.refusals import Cost


def flow(rate=None, most=100_000_000):
    return SimpleNamespace(throttle_bytes_per_second=rate, prefill_max_offsets=most, name="a->b")


def test_the_cost_is_said_with_its_bytes_and_time():
    cost = Cost.of([90_000_000, 10_000_000], 3, flow())
    assert str(cost).startswith("100,000,000 offsets of 2 partitions are filled with empty records")
    assert str(cost).endswith(": about 73.4 MiB, times 3 replicas, and 50s or more")
    assert "replicas" not in str(Cost.of([1], 1, flow()))
    assert Cost.of([100_000_000], 1, flow(rate=200_000)).seconds == pytest.approx(770)


def test_a_flow_allows_as_many_offsets_as_its_key_says():
    assert Cost.of([100_000_000], 1, flow()).why_refused(flow()) is None
    why = Cost.of([100_000_000, 1], 1, flow()).why_refused(flow())
    assert "more than mmtool.prefill.max.offsets = 100,000,000" in why.cause
    assert why.cure.startswith("set a->b.mmtool.prefill.max.offsets = 100000001 or more")


@pytest.fixture
def prefills(monkeypatch):
    """Prefills of a flow with a throttle, whose hold and clock are attributes."""
    held = SimpleNamespace(hold=None, of=lambda *_: held.hold)
    made = Prefills(SimpleNamespace(settings=flow(rate=200_000)), "me", lambda: held, [], [])
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(prefill.time, "monotonic", lambda: clock.now)
    return made, clock, held


WORK = SimpleNamespace(topic=SimpleNamespace(topic_id="id", name="orders"))


def test_a_prefill_takes_half_of_the_throttle(prefills):
    made, clock, _ = prefills
    made._seconds_to_wait(WORK, 0)
    clock.now += 1
    assert made._seconds_to_wait(WORK, 1_000_000) == 0  # what is there is overdrawn
    assert made._seconds_to_wait(WORK, 1) == pytest.approx(9.5)
    clock.now += 9.6
    assert made._seconds_to_wait(WORK, 1) == 0
    made.flow.settings.throttle_bytes_per_second = None
    assert made._seconds_to_wait(WORK, 1_000_000_000) == 0


def test_a_prefill_waits_for_a_topic_that_is_held(prefills):
    made, _, held = prefills
    made.flow.settings.throttle_bytes_per_second, held.hold = None, "paused"
    assert made._seconds_to_wait(WORK, 1) > 0
    held.hold = None
    assert made._seconds_to_wait(WORK, 1) == 0


def test_a_changed_policy_is_stored_with_the_one_before():
    for policy in ("compact,delete", None):
        record = PrefillRecord("orders", "id", policy)
        assert PrefillRecord.decode(record.encode()) == record
