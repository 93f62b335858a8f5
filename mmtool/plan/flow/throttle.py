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
"""Of the rate, over all tasks together: who has nothing to do gets that much, and shows by using it that it has."""


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
    """Shares in bytes per second, by task, as long as no task has said what it uses: by what each has to carry."""
    least = sum(weights.values()) * _LEAST / len(weights) or 1.0
    total = sum(weights.values()) + least * len(weights)
    return {task: rate * (weight + least) / total for task, weight in weights.items()}


def divide(rate: float, uses: Mapping[int, Use | None]) -> dict[int, float]:
    """Shares in bytes per second, by task.

    A task that leaves some of its share keeps what it uses, and a little more. One that uses all it gets may have four
    times as much, or a tenth of the rate, and so on the next time: a moment's burst of a quiet task is no reason to
    halve the share of one that is far behind. Who has said nothing yet may have any share.

    A. The shares add up to ``rate``, and each is more than nothing.
    B. Where what the tasks have to carry stays the same, the flow soon moves at least nine tenths of ``rate``, or of
       all that there is to move.
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
    """Whether shares differ enough from those that were told to be told anew; None is without limit."""
    if None in told.values() or None in shares.values():
        return set(told.values()) != set(shares.values())
    before, now = ({task: share or 0.0 for task, share in of.items()} for of in (told, shares))
    if abs(sum(now.values()) - sum(before.values())) > sum(before.values()) * _ANOTHER_RATE:
        return True
    return any(abs(share - before[task]) > before[task] * _ANOTHER_SHARE for task, share in now.items())
