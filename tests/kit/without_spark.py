"""Whether mmtool's commands run their rounds on Spark, or in forked processes (`kit.forked_rounds`)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_FORKED_COMMANDS = ("replicate", "verify", "failover", "evidence")
"""The commands that may start Spark: an operation drains its flow, and evidence has what `verify` finds."""
_without_spark = False


@contextmanager
def without_spark() -> Iterator[None]:
    """Run mmtool's commands with forked rounds, in this process and as processes of their own (`kit.warm_start`)."""
    from kit.forked_rounds import inject, open_here, open_spark  # noqa: PLC0415  not for `make unit`

    global _without_spark  # noqa: PLW0603  one test runs at a time
    _without_spark = True
    inject(open_here)
    try:
        yield
    finally:
        _without_spark = False
        inject(open_spark)


def runs_without_spark() -> bool:
    """Whether this is inside `without_spark`."""
    return _without_spark


def started_module(command: str) -> str:
    """The module that runs a command of mmtool: inside `without_spark` one with forked rounds, where it has rounds."""
    return "kit.forked_rounds" if _without_spark and command in _FORKED_COMMANDS else "mmtool"
