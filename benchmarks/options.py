"""What the command lines of the benchmarks have in common."""

from __future__ import annotations

import argparse
from pathlib import Path


def parser_of(description: str | None, quick: str) -> argparse.ArgumentParser:
    """A parser with ``--quick`` and ``--json``.

    Args:
        description: The page of ``--help``.
        quick: What ``--quick`` leaves out.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--json", type=Path, help="write every figure there")
    return parser


def in_turns(description: str | None, quick: str) -> tuple[bool, int, Path | None]:
    """Whether it is ``--quick``, how many turns the subjects take, and where to write the figures."""
    parser = parser_of(description, quick)
    parser.add_argument("--repeat", type=int, help="turns (3)")
    given = parser.parse_args()
    return given.quick, given.repeat or (1 if given.quick else 3), given.json
