"""Duties that are changed while they run: every turn comes to its end, and no two of one kind overlap."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from kit.wire import on_loop
from mmtool.replication.background import Scheduler


@dataclass
class Duty:
    name: str
    log: list
    seconds: float = 0.01
    extra: str = ""
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    label: str = ""

    async def perform(self):
        self.log.append(f"{self.label or self.name} begins")
        await self.gate.wait()
        self.log.append(f"{self.label or self.name} ends")


def opened(name, log, label):
    duty = Duty(name, log, label=label)
    duty.gate.set()
    return duty


async def until(log, entry):
    async with asyncio.timeout(5):
        while entry not in log:  # noqa: ASYNC110  a list tells nobody that it grew
            await asyncio.sleep(0.005)


@on_loop
async def test_a_successor_waits_for_the_turn_under_way_and_others_do_not():
    log = []
    scheduler = Scheduler("a->b", [Duty("slow", log, label="old")], log.append)
    scheduler.start()
    await until(log, "old begins")
    (old,) = scheduler._duties
    scheduler.adopt([opened("slow", log, "new"), opened("quick", log, "quick")])
    await until(log, "quick ends")
    assert "new begins" not in log
    old.gate.set()
    await until(log, "new ends")
    await scheduler.stop()
    assert [line for line in log if "quick" not in line][:4] == [
        "old begins",
        "old ends",
        "new begins",
        "new ends",
    ]


@on_loop
async def test_a_retired_duty_has_no_further_turn_and_nothing_outlives_a_stop():
    log = []
    scheduler = Scheduler("a->b", [opened("one", log, "old")], log.append)
    scheduler.start()
    await until(log, "old ends")
    scheduler.adopt([])
    await asyncio.sleep(0.03)
    before = len(log)
    await asyncio.sleep(0.05)
    scheduler.adopt([Duty("two", log)])
    await until(log, "two begins")
    scheduler.adopt([Duty("two", log, label="three")])
    await scheduler.stop()
    assert (before == log.index("two begins"), log[-1], len(asyncio.all_tasks())) == (True, "two begins", 1)


@on_loop
async def test_duties_that_are_changed_while_it_stands_still_begin_with_it():
    log = []
    scheduler = Scheduler("a->b", [opened("one", log, "old")], log.append)
    scheduler.adopt([opened("one", log, "new")])
    scheduler.start()
    await until(log, "new ends")
    await scheduler.stop()
    log.clear()
    scheduler.start()
    await until(log, "new ends")
    await scheduler.stop()
    assert "old begins" not in log


@on_loop
async def test_what_goes_wrong_without_a_word_is_said_all_the_same():
    """As a time-out of a client does: it would fail for ever, and nobody would know."""

    class Silent(Duty):
        async def perform(self):
            if not self.gate.is_set():
                raise TimeoutError

    log = []
    duty = Silent("heartbeats", log)
    scheduler = Scheduler("a->b", [duty], log.append)
    scheduler.start()
    await until(log, "a->b: heartbeats: TimeoutError; retrying every 0.01 s")
    duty.gate.set()
    await until(log, "a->b: heartbeats: working again")
    await scheduler.stop()
    assert len(log) == 2


@on_loop
async def test_a_first_turn_comes_before_the_start_and_a_failure_of_it_is_left_to_the_turns_that_follow():
    log = []
    duties = [replace(opened(name, log, name), extra=extra) for name, extra in (("a", "first"), ("b", ""))]
    failing = replace(duties[0], gate=None)
    scheduler = Scheduler("a->b", [failing, *duties], log.append)
    await scheduler.open()
    assert log == ["a begins", "a begins", "a ends"]
