"""A flow that nothing is wrong with gets a clean bill of `mmtool doctor`, and doctor writes nothing anywhere."""

from __future__ import annotations

import asyncio

import pytest

from mmtool.doctor.flow_checks import GROUP_CHECKS, MM2_CHECKS, TOPIC_CHECKS
from mmtool.lab.applications import consume
from mmtool.lab.load import Load, Transactions, produce
from mmtool.lab.topics import create_topic, end_offsets, topics_of
from mmtool.testing.lookups import groups_of
from mmtool.testing.mirror_flow import Owner

pytestmark = pytest.mark.kafka

WORDS = {line.check.value for line in (*TOPIC_CHECKS, *GROUP_CHECKS, *MM2_CHECKS)}
RECORDS = 60


async def mirror(settings):
    owner = await Owner.take(settings)
    await owner.catch_up()
    await owner.close()


@pytest.fixture(scope="module")
def flow(bench):
    """A plain, a transactional and a compacted topic; a group that has read a part of each."""
    source = bench.fleet["source"].bootstrap
    create_topic(source, "fit-orders", 2)
    create_topic(source, "fit-payments", 1)
    create_topic(source, "fit-profiles", 1, **{"cleanup.policy": "compact"})
    produce(source, Load("fit-orders", RECORDS, 2, 100))
    produce(source, Load("fit-payments", RECORDS, 1, 100, transactions=Transactions("fit-writer", 10, 3)))
    produce(source, Load("fit-profiles", RECORDS, 1, 100, keys="cyclic", key_count=5))
    for topic in ("fit-orders", "fit-payments", "fit-profiles"):
        consume(source, "fit-app", [topic], at_most=RECORDS // 2)
    return bench.properties("fit-.*", **{"source->target.groups": "fit-.*"})


def everything(bench):
    """All that a cluster holds and a doctor could have changed."""
    sides = [bench.fleet[side].bootstrap for side in ("source", "target")]
    groups = [groups_of(side).listing() for side in sides]
    return [
        (side, topic, tuple(sorted(end_offsets(side, topic).items())))
        for side in sides
        for topic in sorted(topics_of(side))
        if not topic.startswith("__")
    ], groups


def unwell(answer):
    rows = [row for row in answer.rows if row["check"] in WORDS]
    assert {row["check"] for row in rows} == WORDS, answer
    return [row for row in rows if row["severity"] != "ok"]


def test_a_flow_that_never_ran_is_well(mmtool, flow):
    answer = mmtool("doctor", "-c", flow, "-o", "json")
    assert unwell(answer) == [], answer


def test_a_flow_that_has_mirrored_all_is_well_and_nothing_was_written(mmtool, bench, flow):
    asyncio.run(mirror(bench.flow(flow)))
    before = everything(bench)
    answer = mmtool("doctor", "-c", flow, "-o", "json")
    assert unwell(answer) == [], answer
    assert everything(bench) == before
