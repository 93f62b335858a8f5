"""``python -m kit.chaos``: seeds one after the other, each told on a line of a log."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit.chaos.moves import MoveRun, move_of
from kit.chaos.place import SIDES, Place
from kit.chaos.seed import SeedRun

if TYPE_CHECKING:
    from collections.abc import Iterator


def main(arguments: list[str]) -> int:
    """Runs the seeds that the log has not passed yet; the number of those that failed, at most 100."""
    asked = _asked(arguments)
    seeds = [asked.seed] if asked.seed is not None else range(asked.first, asked.first + asked.seeds)
    passed = {row["seed"] for row in _rows(asked.log) if row["passed"]} if asked.seed is None else set()
    todo = [seed for seed in seeds if seed not in passed]
    _archive_classes()
    failed = 0
    with (
        tempfile.TemporaryDirectory(prefix="mmtool-chaos-") as folder,
        Place(Path(folder), asked.brokers, compacts=asked.kind == "same") as place,
    ):
        for seed in todo:
            row = _run(place, Path(folder) / f"seed-{seed}", seed, asked.kind)
            failed += not row["passed"]
            _tell(row, asked)
    _say(f"{len(todo) - failed} of {len(todo)} seeds passed, {len(passed)} had before")
    return min(failed, 100)


def _archive_classes() -> None:
    """As `docs/how-to/start-faster.md` has it, once for a machine; by a process of its own, for it ends Spark."""
    subprocess.run(
        [sys.executable, "-m", "mmtool.replication.spark.archive"], check=True, capture_output=True
    )


def _asked(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kit.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--seeds", type=int, default=50, help="how many")
    kinds = parser.add_mutually_exclusive_group()
    for kind, what in (
        ("moves", "operations on groups instead of a flow under load"),
        ("same", "the target keeps the source's offsets"),
    ):
        kinds.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind, default="", help=what)
    parser.add_argument("--brokers", type=int, default=1, help="of each cluster")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument(
        "--log", type=Path, help="a line is added for each seed; those that passed there are not run again"
    )
    return parser.parse_args(arguments)


def _run(place: Place, directory: Path, seed: int, kind: str) -> dict[str, Any]:
    """The log's row of one seed. Where one breaks, the others are run, and it is told how it is run again."""
    try:
        if kind == "moves":
            return MoveRun(place, directory, seed).run().row()
        return SeedRun(place, directory, seed, same=kind == "same").run()
    except Exception as error:  # noqa: BLE001  whatever it was, the seed has not passed
        traceback.print_exc()
        for side in SIDES:  # in the middle of a fault, perhaps
            place.heal(side)
        why = [f"no verdict: {type(error).__name__}: {error}"]
        row = {"seed": seed, "brokers": place.brokers, "passed": False, "failures": why}
        return row | ({"move": str(move_of(seed))} if kind == "moves" else {})


def _rows(log: Path | None) -> Iterator[dict[str, Any]]:
    """Without the line that was being written when a run was killed."""
    for line in log.read_text().splitlines() if log is not None and log.exists() else ():
        with suppress(ValueError):
            yield json.loads(line)


def _tell(row: dict[str, Any], asked: argparse.Namespace) -> None:
    row = {"at": datetime.now(UTC).isoformat(timespec="seconds"), **row}
    log: Path | None = asked.log
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        is_torn = log.exists() and not log.read_bytes().endswith(b"\n")
        with log.open("a") as file:
            file.write(("\n" if is_torn else "") + json.dumps(row) + "\n")
    _say(json.dumps(row))
    if not row["passed"]:
        kind = f" --{asked.kind}" if asked.kind else ""
        brokers = f" --brokers {asked.brokers}" if asked.brokers > 1 else ""
        _say(f"again: .venv/bin/python -m kit.chaos{kind}{brokers} --seed {row['seed']}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
