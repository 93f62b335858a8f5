"""Divide a flow's throttle over the tasks of a round."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

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
