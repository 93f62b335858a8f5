"""What happens to a flow, and when: all of it drawn from one seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from enum import StrEnum

WINDOW_SECONDS = 12.0
"""All faults are over by then."""

_LONGEST_SECONDS = 11.5  # longer than a session of the owner lasts
_SHORTEST_SECONDS = 0.3
_LEAST, _MOST = 3, 6
_AT_START = 0.25
_PAUSES = ((0.5, 3.0), (3.0, 7.0), (7.0, _LONGEST_SECONDS))


class Side(StrEnum):
    """Which cluster, or its link, it happens to; what happens to the command itself is on neither."""

    SOURCE = "source"
    TARGET = "target"
    COMMAND = "command"


class What(StrEnum):
    """Faults: of a link, of a broker, of a process of the command."""

    FAR = "far"
    THIN = "thin"
    SILENT = "silent"
    SILENT_THERE = "silent-there"
    SILENT_BACK = "silent-back"
    SLICED = "sliced"
    RESET = "reset"
    REFUSED = "refused"
    FILLS_LOST = "answers-to-fills-lost"
    FILLS_LATE = "fills-late"
    DATA_LOST = "answers-to-data-lost"
    BROKER_FROZEN = "broker-frozen"
    BROKER_KILLED = "broker-killed"
    WORKER_KILLED = "worker-killed"
    JVM_KILLED = "jvm-killed"
    DRIVER_KILLED = "driver-killed"
    WORKER_FROZEN = "worker-frozen"
    FROZEN = "frozen"
    STOPPED = "stopped"


OF_LINKS = (
    What.FAR, What.THIN, What.SILENT, What.SILENT_THERE, What.SILENT_BACK, What.SLICED, What.RESET, What.REFUSED,
)  # fmt: skip
OF_ANSWERS = (What.FILLS_LOST, What.FILLS_LATE, What.DATA_LOST)
"""Of a target that keeps the source's offsets: three times as often as all other faults of a cluster."""

OF_BROKERS = (What.BROKER_FROZEN, What.BROKER_KILLED)
OF_COMMAND = (
    What.WORKER_KILLED, What.JVM_KILLED, What.DRIVER_KILLED, What.WORKER_FROZEN, What.FROZEN, What.STOPPED,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        at_seconds: When it begins.
        seconds: How long it lasts; what is killed comes back then.
        brokers: Which of the cluster's it happens to, or to whose links; none for what happens to the command.
    """

    at_seconds: float
    seconds: float
    side: Side
    what: What
    brokers: tuple[int, ...] = ()

    @property
    def ends_at_seconds(self) -> float:
        return self.at_seconds + self.seconds

    def __str__(self) -> str:
        where = f"{self.side}/{','.join(map(str, self.brokers))}" if self.brokers else self.side
        return f"{self.at_seconds:.1f}s {self.what} {where} {self.seconds:.1f}s"


@dataclass(frozen=True, slots=True)
class Schedule:
    """All of a seed.

    Attributes:
        from_the_start: The clock starts with the command; else when its first records have crossed.
        faults: By their beginning; those of one side follow each other.
    """

    from_the_start: bool
    faults: tuple[Fault, ...]

    def at_once(self) -> Schedule:
        """The same, from the moment on in which the first fault begins."""
        first = min(fault.at_seconds for fault in self.faults)
        sooner = (replace(fault, at_seconds=round(fault.at_seconds - first, 2)) for fault in self.faults)
        return Schedule(self.from_the_start, tuple(sooner))


def schedule_of(seed: int, brokers: int = 1, *, same: bool = False) -> Schedule:
    """What a seed stands for, on clusters of so many brokers. Never more than one of a cluster's is down.

    Args:
        seed: What is drawn from.
        brokers: Of each cluster.
        same: The target keeps the source's offsets.
    """
    chance, which = random.Random(f"faults {seed}"), random.Random(f"brokers {seed}")
    from_the_start = chance.random() < _AT_START
    free_at = dict.fromkeys(Side, 0.0)
    found = []
    for _ in range(chance.randint(_LEAST, _MOST)):
        side = chance.choices(tuple(Side), (3, 3, 2))[0]
        of_cluster: tuple[What, ...] = (*OF_LINKS, *OF_LINKS, *OF_BROKERS)
        if same and side is Side.TARGET:
            of_cluster += OF_ANSWERS * 18
        what = chance.choice(OF_COMMAND if side is Side.COMMAND else of_cluster)
        at = free_at[side] + chance.uniform(0.0, 5.0)
        seconds = min(chance.uniform(*chance.choice(_PAUSES)), WINDOW_SECONDS - at)
        if seconds >= _SHORTEST_SECONDS:
            hit = _brokers_of(what, brokers, which)
            found.append(Fault(round(at, 2), round(seconds, 2), side, what, hit))
            free_at[side] = at + seconds + 0.5
    return Schedule(from_the_start, tuple(sorted(found, key=lambda fault: fault.at_seconds)))


def _brokers_of(what: What, brokers: int, chance: random.Random) -> tuple[int, ...]:
    """One broker; of links those of all brokers just as often, and all where answers are lost."""
    if what in OF_COMMAND:
        return ()
    if what in OF_ANSWERS:
        return tuple(range(brokers))
    one = chance.randrange(brokers)
    return tuple(range(brokers)) if what in OF_LINKS and chance.random() < 0.5 else (one,)
