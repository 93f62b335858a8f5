"""What is newly missing is looked for again for a while; what was missing before costs no time."""

from __future__ import annotations

import asyncio

import pytest

from mmtool.replication.topics import presence
from mmtool.replication.topics.presence import AbsenceCheck


@pytest.fixture
def looked(monkeypatch):
    """The number of looks that a check takes, told by each what is missing: the last of it from then on."""
    monkeypatch.setattr(presence, "_LOOK_SECONDS", 0.001)

    def looks(check, *missing, seconds=10.0):
        told, count = list(missing), 0

        async def look():
            nonlocal count
            count += 1
            return count, (told.pop(0) if len(told) > 1 else told[0])

        found = asyncio.run(check.of(look, seconds))
        assert found == count
        return count

    return looks


def test_what_comes_back_meanwhile_is_not_missing(looked):
    check = AbsenceCheck()
    assert (looked(check, {"a"}, {"a"}, ()), check.missing) == (3, frozenset())


def test_what_was_missing_before_is_not_waited_for_again(looked):
    check = AbsenceCheck()
    assert looked(check, {"a": "why", "b": "why"}, seconds=0.05) > 1
    assert (looked(check, ["a"]), check.missing) == (1, {"a"})
    assert (looked(check, {"a", "b"}, {"a"}), check.missing) == (2, {"a"})


def test_without_time_one_look_is_all_there_is(looked):
    check = AbsenceCheck()
    assert check.is_first
    assert (looked(check, {"a"}, seconds=0.0), check.is_first) == (1, False)
