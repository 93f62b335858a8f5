"""Identical names both ways, each way with a process of its own, and either of them killed at any moment."""

import asyncio
import time
from contextlib import ExitStack

import pytest

from kit.both_ways import SIDES, Pair
from kit.mirror_flow import Owner
from mmtool.config import load_settings

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(3600)]

WAYS = (SIDES, SIDES[::-1])
PATIENCE_SECONDS = 120.0


def test_no_record_goes_home_or_comes_twice_whoever_is_killed_and_when(fleet, tmp_path, chance, measured):
    """Also between a claim, whose new producer id nobody has seen a batch of, and its first batch."""
    pair = Pair(fleet, tmp_path, records_per_second=400.0, more={"mmtool.round.seconds": "6"})
    pair.create_topics()
    with pair.writers() as writing, ExitStack() as ours:

        def start(way):
            return ours.enter_context(pair.replicate("-s", way[0], "-t", way[1]))

        running = {way: start(way) for way in WAYS}
        pair.wait_for_growth(PATIENCE_SECONDS)
        for _ in range(6):
            way = chance.choice(WAYS)
            time.sleep(chance.uniform(0, 8))
            running[way].kill_all()
            if chance.random() < 0.5:
                (flow,) = load_settings(pair.properties, {}).select(*way)
                asyncio.run(claim_and_vanish(flow))
            running[way] = start(way)
        pair.wait_for_growth(PATIENCE_SECONDS)
        writing.close()
        pair.wait_until_equal(PATIENCE_SECONDS)
        ends = pair.ends()
        time.sleep(5)
        assert pair.ends() == ends  # nothing goes around any more
        for process in running.values():
            answer = process.stop()
            assert (answer.code, "diverged" in answer.stderr) == (143, False), answer.stderr
    for here, there in WAYS:
        asked, exact, wrong = pair.wrong_answers(here, there)
        measured(f"{here}->{there} after kills: {asked} offsets, {exact} exact, none wrong")
        assert wrong == [], f"{len(wrong)} of {asked}: {wrong[:3]}"


async def claim_and_vanish(flow):
    """An owner that claims every shard, and is gone before its first batch."""
    owner = await Owner.take(flow)
    await owner.kill()
