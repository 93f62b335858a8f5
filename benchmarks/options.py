"""The command line of a benchmark whose subjects take turns."""

from __future__ import annotations

import argparse
from pathlib import Path


def in_turns(description: str | None, quick: str) -> tuple[bool, int, Path | None]:
    """Whether it is ``--quick``, how many turns, and where to write the figures.

    Args:
        description: The page of ``--help``.
        quick: What ``--quick`` leaves out.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--repeat", type=int, help="turns (3)")
    parser.add_argument("--json", type=Path, help="write every figure there")
    given = parser.parse_args()
    return given.quick, given.repeat or (1 if given.quick else 3), given.json
