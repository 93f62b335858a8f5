"""Ask several flows the same question at once; an unreachable cluster does not hide other flows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from mmtool.errors import MmtoolError, UnreachableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

F = TypeVar("F")
T = TypeVar("T")


class FlowFailures(NamedTuple):
    """The flows without an answer.

    Attributes:
        warnings: Of flows that have nothing to report, while others have.
        errors: Why the others did not answer.
    """

    warnings: tuple[str, ...]
    errors: tuple[MmtoolError, ...]


def ask_each(flows: Sequence[F], ask: Callable[[F], T]) -> tuple[tuple[T, ...], FlowFailures]:
    """Every flow's answer, asked at the same time; flows without an answer are in the `FlowFailures`."""

    def one(flow: F) -> T | MmtoolError:
        try:
            return ask(flow)
        except MmtoolError as error:
            return error

    with ThreadPoolExecutor(len(flows)) as pool:
        found = list(pool.map(one, flows))
    known = tuple(answer for answer in found if not isinstance(answer, MmtoolError))
    errors = [error for error in found if isinstance(error, MmtoolError)]
    # the way back of an active/passive pair matches no topic, and --topic may be of one flow only
    empty = [error for error in errors if known and error.code == UsageError.code]
    return known, FlowFailures(
        tuple(error.message for error in empty), tuple(error for error in errors if error not in empty)
    )


def worst(errors: Iterable[MmtoolError]) -> MmtoolError | None:
    """The error that ends the command: an unreachable cluster before others; None where there is no error."""
    return min(errors, key=lambda error: not isinstance(error, UnreachableError), default=None)
