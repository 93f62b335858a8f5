"""A short part of the chaos suite: seeded faults of links, brokers and processes under load."""

from __future__ import annotations

import pytest

from kit.chaos.__main__ import replay
from kit.chaos.place import Place
from kit.chaos.seed import SeedRun

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

SEEDS = (8,)
"""Both links are far, thin or silent in turn."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with Place(tmp_path_factory.mktemp("chaos")) as made:
        yield made


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_loses_nothing_repeats_nothing_and_recovers_by_itself(place, tmp_path, measured, seed):
    outcome = SeedRun(place, tmp_path, seed).run()
    measured(f"seed {seed}: {outcome.row()}")
    verdict = outcome.verdict
    assert outcome.passed, f"{outcome.row()}\nagain: {replay(outcome)}"
    assert (verdict.records > 0, verdict.offsets_proven > 0, verdict.glances > 0) == (True, True, True)
