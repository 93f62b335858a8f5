"""Whoever answers first is heard; a failure asks the next at once, silence soon."""

import asyncio

import pytest

from mmtool.kafka import patience as asking
from mmtool.kafka.patience import first_answer


class LostError(Exception):
    pass


class Asked:
    """Answers in turn; notes who was asked, and who was cut off."""

    def __init__(self, *ways):
        self.asked, self.cut = [], []
        self.asks = [lambda at=at, way=way: self._ask(at, way) for at, way in enumerate(ways)]

    async def _ask(self, at, way):
        self.asked.append(at)
        try:
            if way is None:
                await asyncio.Event().wait()
            if isinstance(way, Exception):
                raise way
            if isinstance(way, float):
                await asyncio.sleep(way)
        except asyncio.CancelledError:
            self.cut.append(at)
            raise
        return f"answer {at}"

    def ask(self):
        return asyncio.run(asyncio.wait_for(first_answer(self.asks, (LostError,)), 5))


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(asking, "NEXT_SECONDS", 0.05)


def test_who_answers_is_the_only_one_that_is_asked():
    asked = Asked("well", "well")
    assert (asked.ask(), asked.asked) == ((0, "answer 0"), [0])


def test_after_a_failure_the_next_is_asked_at_once(monkeypatch):
    monkeypatch.setattr(asking, "NEXT_SECONDS", 60.0)
    assert Asked(LostError("gone"), "well").ask() == (1, "answer 1")


def test_after_silence_the_next_is_asked_and_the_silent_one_is_let_go():
    asked = Asked(None, "well", "well")
    assert (asked.ask(), asked.asked, asked.cut) == ((1, "answer 1"), [0, 1], [0])


def test_a_late_answer_counts_while_nobody_else_has_given_one():
    assert Asked(0.2, None).ask() == (0, "answer 0")


def test_when_all_fail_the_last_failure_is_told():
    with pytest.raises(LostError, match="two"):
        Asked(LostError("one"), LostError("two")).ask()


def test_a_failure_that_is_everybody_s_ends_it_at_once():
    asked = Asked(PermissionError("no"), "well")
    with pytest.raises(PermissionError):
        asked.ask()
    assert asked.asked == [0]
