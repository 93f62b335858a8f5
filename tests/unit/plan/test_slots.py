"""How many tasks a round may have follows from the slots that Spark has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.plan.flow.slots import (
    LOST_SECONDS,
    SETTLE_SECONDS,
    Change,
    SlotDecision,
    SlotFacts,
    asked_slots,
    decide_slots,
)

_SECONDS = st.floats(0.0, 60.0)


@st.composite
def facts(draw):
    wanted = draw(st.integers(1, 12))
    planned = draw(st.integers(1, wanted))
    served = draw(st.integers(0, planned))
    held = draw(st.none() | st.integers(0, 12))
    short = 0.0 if served == planned else draw(_SECONDS)
    return SlotFacts(wanted, planned, served, held, short, draw(st.none() | _SECONDS))


@given(facts())
def test_the_next_round_has_at_least_one_task_and_no_more_than_are_wanted(given_facts):
    decision = decide_slots(given_facts)
    assert 1 <= decision.tasks <= given_facts.wanted


@given(facts())
def test_packing_means_fewer_tasks_and_only_where_one_of_them_is_served(given_facts):
    decision = decide_slots(given_facts)
    if decision.change is Change.PACK:
        assert decision.tasks < given_facts.planned
        assert 0 < given_facts.served < given_facts.planned


@given(facts())
def test_spreading_means_more_tasks_but_never_more_than_spark_has_slots(given_facts):
    decision = decide_slots(given_facts)
    if decision.change is Change.SPREAD:
        assert decision.tasks > given_facts.planned == given_facts.served
        assert given_facts.free_seconds is not None
        assert given_facts.held is None or decision.tasks <= given_facts.held


@given(facts())
def test_what_was_packed_is_neither_packed_again_nor_spread_while_no_slot_is_free(given_facts):
    decision = decide_slots(given_facts)
    after = SlotFacts(given_facts.wanted, decision.tasks, decision.tasks, given_facts.held)
    assert decide_slots(after) == SlotDecision(Change.KEEP, decision.tasks)


@given(facts())
def test_a_task_that_waits_while_another_runs_is_packed_once_patience_is_over(given_facts):
    if 0 < given_facts.served < given_facts.planned and given_facts.short_seconds >= LOST_SECONDS:
        assert decide_slots(given_facts).change is Change.PACK


@pytest.mark.parametrize(
    ("case", "decision"),
    [
        (SlotFacts(4, 4, 3, 3, LOST_SECONDS), SlotDecision(Change.PACK, 3)),
        (SlotFacts(4, 4, 3, 3, LOST_SECONDS / 2), SlotDecision(Change.KEEP, 4)),
        (SlotFacts(4, 4, 1, 4, 0.0), SlotDecision(Change.PACK, 1)),
        (SlotFacts(4, 4, 1, 3, LOST_SECONDS), SlotDecision(Change.PACK, 3)),
        (SlotFacts(4, 4, 0, 0, 60.0), SlotDecision(Change.KEEP, 4)),
        (SlotFacts(4, 4, 3, None, 0.1), SlotDecision(Change.PACK, 3)),
        (SlotFacts(4, 2, 2, 3, 0.0, SETTLE_SECONDS), SlotDecision(Change.SPREAD, 3)),
        (SlotFacts(4, 2, 2, 3, 0.0, SETTLE_SECONDS / 2), SlotDecision(Change.KEEP, 2)),
        (SlotFacts(4, 2, 2, 3), SlotDecision(Change.KEEP, 2)),
        (SlotFacts(4, 2, 2, None, 0.0, SETTLE_SECONDS), SlotDecision(Change.KEEP, 2)),
        (SlotFacts(4, 2, 2, None, 0.0, SETTLE_SECONDS, tells_slots=False), SlotDecision(Change.SPREAD, 4)),
        (SlotFacts(4, 4, 4, 8, 0.0, 60.0), SlotDecision(Change.KEEP, 4)),
    ],
)
def test_a_round_is_packed_and_spread_as_slots_go_and_come(case, decision):
    assert decide_slots(case) == decision


@pytest.mark.parametrize(
    ("master", "conf", "slots"),
    [
        ("local[4,4]", {}, None),
        ("local-cluster[2,3,1024]", {}, 6),
        ("local-cluster[2,3,1024]", {"spark.task.cpus": "2"}, 2),
        ("spark://h:7077", {}, None),
        ("spark://h:7077", {"spark.cores.max": "6"}, 6),
        ("spark://h:7077", {"spark.cores.max": "6", "spark.task.cpus": "2"}, 3),
        ("spark://h:7077", {"spark.executor.instances": "3"}, None),
        ("spark://h:7077", {"spark.executor.instances": "3", "spark.executor.cores": "2"}, 6),
        (
            "spark://h:7077",
            {"spark.executor.instances": "3", "spark.executor.cores": "2", "spark.cores.max": "4"},
            4,
        ),
        ("yarn", {}, 2),
        ("yarn", {"spark.executor.instances": "5", "spark.executor.cores": "4"}, 20),
        ("k8s://https://h", {"spark.executor.instances": "5"}, 5),
        ("yarn", {"spark.dynamicAllocation.enabled": "true"}, None),
        ("yarn", {"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.maxExecutors": "7"}, 7),
        ("yarn", {"spark.executor.instances": "not a number"}, 2),
    ],
)
def test_the_slots_that_were_asked_for_are_read_from_spark_s_properties(master, conf, slots):
    assert asked_slots(master, conf) == slots
