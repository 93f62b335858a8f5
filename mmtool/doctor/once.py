"""A question that several checks have in common: asked once, answered to all."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from mmtool.errors import MmtoolError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Once(Generic[T]):
    """Asks at the first call; every call returns that answer, or raises that error.

    The error is kept as well: a cluster that went away is waited for once, not once for each check.
    """

    def __init__(self, ask: Callable[[], T]) -> None:
        """Say what to ask; nothing is asked yet."""
        self._ask = ask
        self._lock = Lock()
        self._answers: list[T] = []
        self._error: MmtoolError | None = None

    def __call__(self) -> T:
        """The answer.

        Raises:
            MmtoolError: The cluster did not answer, or refused.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            if not self._answers:
                try:
                    self._answers.append(self._ask())
                except MmtoolError as error:
                    self._error = error
                    raise
            return self._answers[0]
