"""A polled question that reopens its Kafka clients when settings change, and every ten minutes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

S = TypeVar("S")
T = TypeVar("T")

_KEPT_SECONDS = 600.0
"""Seconds until clients are reopened, which then read a recreated internal topic from its beginning."""


class Reopened(Generic[S, T]):
    """Polls with the settings in force; opens nothing before the first poll.

    Args:
        settings: Those in force.
        open_with: Opens the clients, and returns the question.
        clock: Seconds that only go forward.
    """

    def __init__(
        self,
        settings: Callable[[], S],
        open_with: Callable[[S], Callable[[], T]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._open = open_with
        self._clock = clock
        self._opened: tuple[S, float, Callable[[], T]] | None = None

    def __call__(self) -> T:
        settings, now = self._settings(), self._clock()
        opened = self._opened
        if opened is None or opened[0] is not settings or now - opened[1] > _KEPT_SECONDS:
            self._opened = opened = (settings, now, self._open(settings))
        return opened[2]()
