"""``python -m mmtool.testing.chaos``: seeds one after the other, each told on a line of a log."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from mmtool.testing.chaos.moves import MoveOutcome, MoveRun
from mmtool.testing.chaos.place import Place
from mmtool.testing.chaos.seed import Outcome, SeedRun

REPLAY = ".venv/bin/python -m mmtool.testing.chaos{moves}{brokers} --seed {seed}"


def main(arguments: list[str]) -> int:
    """Runs the seeds that the log has not passed yet; the number of those that failed, at most 100."""
    asked = _asked(arguments)
    seeds = [asked.seed] if asked.seed is not None else range(asked.first, asked.first + asked.seeds)
    passed = _passed(asked.log) if asked.log and asked.seed is None else set()
    todo = [seed for seed in seeds if seed not in passed]
    _archive_classes()
    failed = 0
    with (
        tempfile.TemporaryDirectory(prefix="mmtool-chaos-") as folder,
        Place(Path(folder), asked.brokers) as place,
    ):
        for seed in todo:
            kind = MoveRun if asked.moves else SeedRun
            outcome = kind(place, Path(folder) / f"seed-{seed}", seed).run()
            failed += not outcome.passed
            _tell(outcome, asked.log)
    _say(f"{len(todo) - failed} of {len(todo)} seeds passed, {len(passed)} had before")
    return min(failed, 100)


def _archive_classes() -> None:
    """As `docs/how-to/start-faster.md` has it, once for a machine; by a process of its own, for it ends Spark."""
    subprocess.run(
        [sys.executable, "-m", "mmtool.replication.spark_archive"], check=True, capture_output=True
    )


def _asked(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mmtool.testing.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--seeds", type=int, default=50, help="how many")
    parser.add_argument(
        "--moves", action="store_true", help="operations on groups instead of a flow under load"
    )
    parser.add_argument("--brokers", type=int, default=1, help="of each cluster")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument(
        "--log", type=Path, help="a line is added for each seed; those that passed are not run again"
    )
    return parser.parse_args(arguments)


def _passed(log: Path) -> set[int]:
    if not log.exists():
        return set()
    rows = map(json.loads, log.read_text().splitlines())
    return {row["seed"] for row in rows if row["passed"]}


def _tell(outcome: Outcome | MoveOutcome, log: Path | None) -> None:
    row = {"at": datetime.now(UTC).isoformat(timespec="seconds"), **outcome.row()}
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as file:
            file.write(json.dumps(row) + "\n")
    _say(json.dumps(row))
    if not outcome.passed:
        _say(f"again: {replay(outcome)}")


def replay(outcome: Outcome | MoveOutcome) -> str:
    """What runs it alone."""
    moves = " --moves" if isinstance(outcome, MoveOutcome) else ""
    brokers = f" --brokers {outcome.brokers}" if outcome.brokers > 1 else ""
    return REPLAY.format(seed=outcome.seed, moves=moves, brokers=brokers)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
