"""Decide how many tasks a round may have, and divide shards and throttle among them."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from mmtool.plan.records.documents import Document


@dataclass(frozen=True, slots=True)
class ShardLoad:
    """One claimed shard with partitions to mirror.

    ``weight`` is bytes per second as measured in the last round, or its partitions where nothing was measured.
    """

    flow: str
    shard: int
    weight: float


def pack(loads: Iterable[ShardLoad], tasks: int) -> list[list[ShardLoad]]:
    """Spread whole shards over at most ``tasks`` tasks, the heaviest first onto the lightest task.

    A. Every shard is in exactly one task; no task is empty.
    B. No task is heavier than the lightest one by more than its own lightest shard.
    C. Equal input gives equal output, in any order of the input.
    """
    ordered = sorted(loads, key=lambda load: (-load.weight, load.flow, load.shard))
    piles: list[list[ShardLoad]] = [[] for _ in range(min(tasks, len(ordered)))]
    weights: dict[int, float] = defaultdict(float)
    for load in ordered:
        lightest = min(range(len(piles)), key=lambda index: (weights[index], len(piles[index]), index))
        piles[lightest].append(load)
        weights[lightest] += load.weight
    return piles


_HEADROOM = 1.07
_GROWTH = 4.0
_JUMP = 0.1
_ANOTHER_RATE = 0.001
_ANOTHER_SHARE = 0.05
_LEAST = 0.03
"""The part of the rate, over all tasks, that idle tasks keep: a task that uses its part shows that it has work."""


@dataclass(frozen=True, slots=True)
class Use:
    """How much of its share a task used lately.

    Attributes:
        bytes_per_second: The used rate.
        is_all: The share was used up: with more, the task would have moved more.
    """

    bytes_per_second: float
    is_all: bool


def first_shares(rate: float, weights: Mapping[int, float]) -> dict[int, float]:
    """The shares in bytes per second, by task, before any task has reported its use: by the tasks' weights."""
    least = sum(weights.values()) * _LEAST / len(weights) or 1.0
    total = sum(weights.values()) + least * len(weights)
    return {task: rate * (weight + least) / total for task, weight in weights.items()}


def divide(rate: float, uses: Mapping[int, Use | None]) -> dict[int, float]:
    """The shares in bytes per second, by task, from the use that each task reported.

    A task that uses a part of its share keeps that part, and a little more. One that uses all of it may have four times
    as much, or a tenth of the rate, and so on the next time: a short burst of a quiet task is no reason to halve the
    share of one with a large lag. A task without a report may have any share.

    A. The shares add up to ``rate``, and each is above 0.
    B. While the tasks' load stays the same, the flow soon moves at least nine tenths of ``rate``, or of that load.
    """
    least = rate * _LEAST / len(uses)
    wanted = {task: _wanted(use, rate, least) for task, use in uses.items()}
    left, shares = rate, {}
    for number, task in enumerate(sorted(wanted, key=lambda task: (wanted[task], task))):
        shares[task] = min(wanted[task], left / (len(wanted) - number))
        left -= shares[task]
    return {task: share + left / len(shares) for task, share in shares.items()}


def _wanted(use: Use | None, rate: float, least: float) -> float:
    if use is None:
        return math.inf
    if use.is_all:
        return max(use.bytes_per_second * _GROWTH, rate * _JUMP)
    return use.bytes_per_second * _HEADROOM + least


def is_news(told: Mapping[int, float | None], shares: Mapping[int, float | None]) -> bool:
    """Whether shares differ enough from the announced ones to be announced again; None is without limit."""
    if None in told.values() or None in shares.values():
        return set(told.values()) != set(shares.values())
    before, now = ({task: share or 0.0 for task, share in of.items()} for of in (told, shares))
    if abs(sum(now.values()) - sum(before.values())) > sum(before.values()) * _ANOTHER_RATE:
        return True
    return any(abs(share - before[task]) > before[task] * _ANOTHER_SHARE for task, share in now.items())


LOST_SECONDS = 3.0
"""How long Spark may take to replace an executor before its tasks are packed onto other slots."""
SETTLE_SECONDS = 3.0
"""How long a slot must be free before more tasks are planned: executors come one after the other."""

_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")


class Change(StrEnum):
    """Whether a running round continues or ends early."""

    KEEP = "keep"
    PACK = "pack"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """The slots and tasks of a running round.

    Attributes:
        wanted: The tasks that the round would have if Spark had a slot for each.
        planned: The tasks that it has.
        served: Those of them that have a slot, or have ended.
        held: Spark's slots; None where Spark cannot be asked (Spark Connect), or has not answered for some seconds.
        short_seconds: For how long fewer tasks were served than planned; 0 while all are.
        free_seconds: For how long a slot beside the round's tasks has been known to be free; None while none is.
        tells_slots: Whether Spark can be asked for its slots at all.
    """

    wanted: int
    planned: int
    served: int
    held: int | None
    short_seconds: float = 0.0
    free_seconds: float | None = None
    tells_slots: bool = True


@dataclass(frozen=True, slots=True)
class SlotDecision:
    """Whether the round ends early, and how many tasks the next one may have."""

    change: Change
    tasks: int


def decide_slots(facts: SlotFacts) -> SlotDecision:
    """Decide whether the running round continues, and how many tasks the next one may have.

    A. The next round has at least one task, and no more than are wanted, unless the round continues.
    B. PACK means fewer tasks than planned, and only where a task is served: another one then takes its partitions.
    C. SPREAD means more tasks than planned, never more than Spark has slots, and only while every task is served.
    D. A round whose tasks are all served continues while no slot is free; so packed tasks are not packed again.
    """
    keep = SlotDecision(Change.KEEP, facts.planned)
    if facts.served < facts.planned:
        is_short = facts.held is not None and facts.held < facts.planned
        # where only a task's silence shows a missing slot, that took long enough
        if facts.served < 1 or facts.short_seconds < (LOST_SECONDS if is_short else 0.0):
            return keep
        is_lost = facts.held is not None and facts.served <= facts.held < facts.planned
        tasks = facts.held if is_lost and facts.held is not None else facts.served
        return SlotDecision(Change.PACK, min(tasks, facts.wanted))
    if facts.held is None and facts.tells_slots:
        return keep
    most = facts.wanted if facts.held is None else min(facts.wanted, facts.held)
    settled = facts.free_seconds is not None and facts.free_seconds >= SETTLE_SECONDS
    return SlotDecision(Change.SPREAD, most) if settled and most > facts.planned else keep


def asked_slots(master: str, conf: Mapping[str, str]) -> int | None:
    """The number of slots that Spark is configured to ask for; None where the configuration does not limit it.

    Args:
        master: ``spark.master``.
        conf: Spark's properties that are in effect.
    """
    task_cpus = _number(conf, "spark.task.cpus") or 1
    if found := _LOCAL_CLUSTER.fullmatch(master):
        return int(found[1]) * (int(found[2]) // task_cpus)
    if master.startswith("local"):
        return None
    total = _number(conf, "spark.cores.max")
    limits = [total // task_cpus] if total is not None else []
    is_standalone = master.startswith("spark:")
    if conf.get("spark.dynamicAllocation.enabled", "").lower() == "true":
        executors = _number(conf, "spark.dynamicAllocation.maxExecutors")
    else:  # two by default on YARN and Kubernetes
        executors = _number(conf, "spark.executor.instances") or (None if is_standalone else 2)
    cores = _number(conf, "spark.executor.cores") or (None if is_standalone else 1)
    if executors is not None and cores is not None:
        limits.append(executors * (cores // task_cpus))
    return max(min(limits), 1) if limits else None


def _number(conf: Mapping[str, str], name: str) -> int | None:
    value = conf.get(name, "").strip()
    return int(value) if value.isdecimal() and int(value) else None


def slots_sentence(held: int, wanted: int) -> str:
    """The number of wanted tasks that have a slot, as a sentence."""
    return f"Spark has {held} of {wanted} slots"


@dataclass(frozen=True, slots=True)
class SlotsRecord(Document):
    """An owner's record of the Spark slots of its running round, in the control topic for `status`.

    Attributes:
        wanted: The tasks that the round would have if Spark had a slot for each.
        held: Its tasks that have a slot.
        waiting: The flow's shards whose task has none: they are not copied now.
        round: The number of the round, counted from the start of the owner's process; 0 before the first.
    """

    PREFIX = "slots/"
    BY = ("owner",)

    owner: str
    wanted: int
    held: int
    waiting: tuple[int, ...] = ()
    round: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "waiting", tuple(self.waiting))  # JSON gives a list

    def reason(self, shard: int) -> str:
        """Why a shard is not copied now; empty where it has a slot."""
        if shard not in self.waiting:
            return ""
        return f"{slots_sentence(self.held, self.wanted)}; this partition waits for a slot: check Spark's executors"
