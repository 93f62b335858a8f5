"""One operation on groups under a seed's faults: begun, begun again or resumed until it is done; then judged.

Whoever runs it does what the screen says, and nothing else: where it names an operation to resume, that; else the same
line again.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kit.chaos.faults import Doing, Keeper
from kit.chaos.journey import RECORDS, Journey
from kit.chaos.linked_flow import PARTITIONS
from kit.chaos.schedule import schedule_of
from kit.processes import run_mmtool
from mmtool.kafka.state.log_reader import read_log
from mmtool.lab.demo_apps import Worker
from mmtool.lab.ports import patience, wait_until
from mmtool.translation.mm2_records import Checkpoint, decode_checkpoint

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kit.chaos.journey import Stop
    from kit.chaos.judge import Glances
    from kit.chaos.place import Place
    from kit.chaos.schedule import Schedule
    from kit.processes import Answer

START_SECONDS = 60.0
PATIENCE_SECONDS = 90.0
"""From the last fault's end until it is done: a hang in the middle of a write is told of after 40 to 60 s."""

_SAID = frozenset({0, 3, 4, 6, 7, 9, 10})
"""Ends that the contract knows of for what the faults do; a rollback that ends well is followed by the line again."""
_ON = re.compile(r"mmtool failover (resume|rollback) (?:\(or cancel\) )?([\w-]*\d[\w-]*)")


class Move(StrEnum):
    """What is done under faults."""

    PLANNED = "failover planned"
    EMERGENCY = "failover emergency"
    TRANSLATE = "translate-offsets"
    SYNC = "groups sync"
    FAILBACK = "failover failback"
    DRILL = "failover drill"


_MORE = {
    Move.PLANNED: ("--execute", "--yes"),
    Move.EMERGENCY: ("--accept-data-loss", "--execute", "--yes"),
    Move.TRANSLATE: ("--execute", "--yes"),
    Move.SYNC: ("--once",),
    Move.FAILBACK: ("--execute", "--yes"),
    Move.DRILL: ("--execute", "--yes"),
}


def move_of(seed: int) -> Move:
    """Which one a seed stands for: each in turn."""
    return tuple(Move)[seed % len(Move)]


@dataclass
class MoveOutcome:
    """How it ended.

    Attributes:
        tries: What was typed, and how it ended.
        failures: Everything that must not be; empty where it passed.
        done_seconds: From the end of the last fault until it was done; 0 where it was done before.
    """

    seed: int
    brokers: int
    move: Move
    schedule: Schedule
    tries: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    done_seconds: float = 0.0
    seconds: float = 0.0

    def row(self) -> dict[str, Any]:
        """For the log."""
        return {
            "seed": self.seed,
            "brokers": self.brokers,
            "move": str(self.move),
            "passed": not self.failures,
            "failures": self.failures,
            "faults": [str(fault) for fault in self.schedule.faults],
            "tries": self.tries,
            "done_seconds": round(self.done_seconds, 1),
            "seconds": round(self.seconds, 1),
        }


class MoveRun:
    """A topic and groups of its own, on clusters that seeds share; which operation it is the seed says.

    Args:
        place: The clusters, all well.
        directory: For files of this run.
        seed: What is drawn from.
    """

    def __init__(self, place: Place, directory: Path, seed: int) -> None:
        self._place, self._directory = place, directory
        # an operation takes a second or two: it would be over before some schedule's first fault
        move, schedule = move_of(seed), schedule_of(seed, place.brokers).at_once()
        self.outcome = MoveOutcome(seed, place.brokers, move, schedule)
        self._journey = Journey(place, directory, f"move-{seed}-{time.monotonic_ns()}")
        self._flow = self._journey.flow
        self._healed_at: float | None = None

    def run(self) -> MoveOutcome:
        """From the first record to the verdict; at its end everything is well again."""
        began = time.monotonic()
        stop = self._journey.fill()
        with Keeper(self._flow.start) as keeper:
            wait_until(self._is_mirrored, "the mirror", START_SECONDS)
            wait_until(self._is_told, "checkpoints of every group", START_SECONDS)
            if self.outcome.move is Move.FAILBACK:
                stop = self._went_away(stop)
            with self._journey.watcher(stop) as watcher, Worker("faults", lambda: self._faults(keeper)):
                self._until_done()
        self.outcome.failures += self._wrong(stop, watcher.seen)
        self.outcome.seconds = time.monotonic() - began
        return self.outcome

    def _wrong(self, stop: Stop, seen: Glances) -> list[str]:
        journey = self._journey
        match self.outcome.move:
            case Move.DRILL:
                return journey.failures_of_a_drill(stop, seen)
            case Move.FAILBACK:
                exported = journey.failures_of_an_export(stop, self._directory)
                return [*journey.failures_of_a_move(stop, seen), *exported]
            case _:
                return journey.failures_of_a_move(stop, seen)

    def _went_away(self, stop: Stop) -> Stop:
        """Before anything fails that is to be judged."""
        answer = self._run(Move.EMERGENCY.split(), "emergency", *self._of_groups(Move.EMERGENCY))
        assert answer.code == 0, answer.stderr
        return self._journey.gone_on(stop)

    def _is_mirrored(self) -> bool:
        maps = self._flow.maps()
        return all(
            place in maps and maps[place].upstream_frontier * PARTITIONS >= RECORDS
            for place in self._flow.places
        )

    def _is_told(self) -> bool:
        """What an emergency goes by."""
        flow = self._flow.settings
        topic = flow.checkpoints_topic
        found = [decode_checkpoint(record.key, record.value) for record in read_log(flow.target, topic)]
        return set(self._journey.groups) <= {one.group for one in found if isinstance(one, Checkpoint)}

    def _faults(self, keeper: Keeper) -> None:
        Doing(self.outcome.schedule.faults, self._place, keeper).run()
        self._healed_at = time.monotonic()

    def _until_done(self) -> None:
        line = (*self.outcome.move.split(), *self._of_groups(self.outcome.move))
        words: Sequence[str] = line
        while True:
            answer = self._run(words, f"try-{len(self.outcome.tries)}")
            self.outcome.tries.append(f"{answer.code} after {answer.seconds:.1f} s{_why(answer)}")
            healed = self._healed_at
            back = words[1] == "rollback"  # one that fails is tried again
            if (answer.code == 0 and not back) or self._gives_up(answer, healed):
                self.outcome.done_seconds = 0.0 if healed is None else time.monotonic() - healed
                return
            if not back or answer.code == 0:
                words = (() if back else self._said(answer)) or line

    def _said(self, answer: Answer) -> Sequence[str]:
        """The way on that the screen names: to take it up again, or of a drill to delete what it left. Else none."""
        wanted = "rollback" if self.outcome.move is Move.DRILL else "resume"
        named = [found[2] for found in _ON.finditer(answer.stderr) if found[1] == wanted]
        return ("failover", wanted, named[0], "--execute", "--yes") if named else ()

    def _of_groups(self, move: Move) -> Sequence[str]:
        more = ("--diverged-dir", str(self._directory)) if move is Move.FAILBACK else ()
        return ("--groups", f"{self._journey.topic}-.*", *_MORE[move], *more)

    def _run(self, words: Sequence[str], name: str, *more: str) -> Answer:
        line = (*words, *more, "-c", str(self._flow.properties), "--timeout", "8s", "-o", "json")
        return run_mmtool(self._directory / name, *line)

    def _gives_up(self, answer: Answer, healed: float | None) -> bool:
        if "Traceback" in answer.stderr or answer.code not in _SAID:
            self.outcome.failures.append(f"ended with {answer.code}: {answer.said[-1:]}")
            return True
        late = healed is not None and time.monotonic() - healed > patience(PATIENCE_SECONDS)
        if late:
            self.outcome.failures.append(
                f"not done {PATIENCE_SECONDS:.0f} s after the last fault: {answer.said[-2:]}"
            )
        return late


def _why(answer: Answer) -> str:
    error = next((line for line in answer.said if line.startswith("error: ")), "")
    return "" if answer.code == 0 else f": {error[:160]}"
