"""Operations on groups under seeded faults of links, brokers and the flow: done in the end, and never in part."""

from __future__ import annotations

import pytest

from kit.chaos.__main__ import replay
from kit.chaos.moves import Move, MoveRun
from kit.chaos.place import Place

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(900)]

FIRST = 4


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with Place(tmp_path_factory.mktemp("moves")) as made:
        yield made


@pytest.mark.parametrize("seed", range(FIRST, FIRST + len(Move)))
def test_no_group_is_ahead_moved_back_or_moved_in_part(place, tmp_path, measured, seed):
    outcome = MoveRun(place, tmp_path, seed).run()
    measured(f"seed {seed}: {outcome.row()}")
    assert outcome.passed, f"{outcome.row()}\nagain: {replay(outcome)}"
