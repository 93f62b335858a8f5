"""One seed: a flow under load, its faults, then heal, then both sides read to the end and judged."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from kit.chaos.faults import Doing, Keeper
from kit.chaos.judge import judge, stands_well
from kit.chaos.linked_flow import PARTITIONS, LinkedFlow
from kit.chaos.place import SIDES
from kit.chaos.same_offsets import compacted_away, displaced, halted, uneven_ends
from kit.chaos.schedule import schedule_of
from kit.consumers import WorkingGroup
from kit.writers import RunningWriter
from mmtool.errors import GateError, UnreachableError
from mmtool.kafka.wire.produce import ProduceRequest
from mmtool.kafka.wire.transactions import WriteTxnMarkersRequest
from mmtool.lab.ports import patience, wait_until
from mmtool.lab.topics import end_offsets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kit.chaos.group import Watcher
    from kit.chaos.judge import Logs
    from kit.chaos.place import Place
    from kit.chaos.schedule import Fault, Side
    from mmtool.translation.types import TopicPartition

RECORDS_PER_SECOND = 150.0
READ_PER_SECOND = 60.0
TRANSACTION = 12
KEYS = 20
PATIENCE_SECONDS = 30.0
"""A flow goes on by itself within that of the last cause's end."""

_LOOK_SECONDS = 0.25  # a look is work for the machine on which the flow recovers

_WEEKS = (0, 7 * 86_400_000)
"""How old records are, in ms, by whether the seed is odd."""

START_SECONDS = 60.0
STOP_SECONDS = 5.0
_STOPPED = 143
_TRACEBACK = "Traceback (most recent call last)"
_SETTINGS = {
    "source->target.sync.group.offsets.enabled": "true",
    "source->target.sync.group.offsets.interval.seconds": "1",
    "source->target.emit.checkpoints.interval.seconds": "1",
}


class SeedRun:
    """Topics, writers and a group of its own for one seed, on clusters that seeds share.

    Args:
        place: The clusters, all well.
        directory: For files of this run.
        seed: What is drawn from.
        same: The target keeps the source's offsets, and there is a compacted topic as well.
    """

    def __init__(self, place: Place, directory: Path, seed: int, *, same: bool = False) -> None:
        self._place, self._seed, self._same = place, seed, same
        stem = f"seed-{seed}-{time.monotonic_ns()}-"
        topics, self.group = [f"{stem}plain", f"{stem}tx"], f"{stem}app"
        settings = _SETTINGS | ({"mmtool.offsets": "same"} if same else {})
        compacted = [f"{stem}compacted"] if same else []
        self._flow = LinkedFlow(place, directory, stem, topics, settings, compacted)
        self._halted: Mapping[TopicPartition, str] = {}

    def run(self) -> dict[str, Any]:
        """From the first record to the verdict, the row of which is returned; at its end everything is well again.

        ``recovered_seconds`` is from the end of the last fault until both sides held the same, ``loads_failed`` how
        often a writer of the source was thrown back by a fault, ``missed`` the faults that met nobody.
        """
        began, carried, unanswered = time.monotonic(), self._carried(), self._place.unanswered
        schedule = schedule_of(self._seed, self._place.brokers, same=self._same)
        flow = self._flow
        flow.create_topics()
        load = _Load(
            flow.source.bootstrap,
            tuple(flow.remotes),
            self.group,
            _WEEKS[self._seed % 2],
            tuple(flow.compacted),
        )
        with Keeper(flow.start) as keeper, flow.watcher(self.group, load.read_to) as watcher:
            with load:
                if not schedule.from_the_start:
                    self._wait_until_it_moves()
                doing = Doing(schedule.faults, self._place, keeper)
                doing.run()
                load.ask_to_stop()
                failures, recovered = self._recovered(watcher, time.monotonic())
            if not failures:  # with what came last
                failures, _ = self._recovered(watcher, time.monotonic())
            code, stop_seconds = keeper.stop()
        failures += self._ended(code, stop_seconds, keeper.said)
        logs = flow.sides.logs()
        failures += nothing_happened(schedule.faults, doing.missed, self._carried() - carried, logs)
        logs = {place: one for place, one in logs.items() if place not in self._halted}
        verdict = judge(flow.settings, flow.source, flow.target, logs, watcher.seen, same=self._same)
        failures += verdict.failures
        if self._same:
            failures += displaced(flow, self._halted)
        return {
            "seed": self._seed,
            "brokers": self._place.brokers,
            "passed": not failures,
            "failures": failures,
            "from_the_start": schedule.from_the_start,
            "faults": [str(fault) for fault in schedule.faults],
            "missed": [str(fault) for fault in doing.missed],
            "records": verdict.records,
            "offsets_proven": verdict.offsets_proven,
            "group_glances": verdict.glances,
            "recovered_seconds": recovered,
            "stop_seconds": round(stop_seconds, 1),
            "starts": keeper.starts,
            "loads_failed": load.failed,
            "seconds": round(time.monotonic() - began, 1),
            **(self._more(self._place.unanswered - unanswered) if self._same else {}),
        }

    def _more(self, lost: Counter[int]) -> dict[str, Any]:
        """For the row of a target that keeps the source's offsets."""
        return {
            "same": True,
            "offsets_differ": {str(place): reason for place, reason in self._halted.items()},
            "fills_unanswered": lost[WriteTxnMarkersRequest.API_KEY],
            "data_unanswered": lost[ProduceRequest.API_KEY],
            "compacted_away": compacted_away(self._flow),
        }

    def _carried(self) -> Counter[Side]:
        return Counter({side: self._place.carried(side) for side in SIDES})

    def _wait_until_it_moves(self) -> None:
        target, remotes = self._flow.target.bootstrap, self._flow.remotes.values()

        def moves() -> bool:
            return all(any(end_offsets(target, remote).values()) for remote in remotes)

        wait_until(moves, "the first records", START_SECONDS)

    def _recovered(self, watcher: Watcher, healed: float) -> tuple[list[str], float | None]:
        """Until the target holds all, and the group is where it is at home."""
        uneven = ""

        def is_even() -> bool:
            nonlocal uneven
            uneven = self._uneven(watcher)
            return not uneven

        try:
            wait_until(is_even, "both sides are even", PATIENCE_SECONDS, _LOOK_SECONDS)
        except GateError:
            return [f"not even {PATIENCE_SECONDS:.0f} s after the last fault: {uneven}"], None
        seconds = round(time.monotonic() - healed, 1)
        late = [f"even only {seconds} s after the last fault"] if seconds > PATIENCE_SECONDS else []
        return late, seconds

    def _uneven(self, watcher: Watcher) -> str:
        """What one side still lacks; empty where nothing."""
        try:
            there, home = watcher.now()
            logs = self._flow.sides.logs()
            if self._same:
                self._halted = halted(self._flow)
                logs = {place: one for place, one in logs.items() if place not in self._halted}
                there = {place: offset for place, offset in there.items() if place in logs}
        except UnreachableError as error:  # a coordinator that has just come back loads its groups first
            return error.message
        lacks = {
            str(at): len(one.source) - len(one.target)
            for at, one in logs.items()
            if len(one.source) > len(one.target)
        }
        if lacks:
            return f"the target lacks records: {lacks}"
        if not stands_well(logs, there, home, watcher.read_to):
            return f"the group stands at {there} on the target and at {home} at home, having read to {watcher.read_to}"
        return self._unbooked() or (uneven_ends(self._flow, self._halted) if self._same else "")

    def _unbooked(self) -> str:
        """Up to the last marker: what the stop books in any case, where it was fetched by then."""
        maps, ends = self._flow.maps(), self._flow.sides.source_ends()
        short = {
            str(place): (maps[place].upstream_frontier if place in maps else None, end)
            for place, end in ends.items()
            if place not in self._halted and (place not in maps or maps[place].upstream_frontier < end)
        }
        return f"frontiers below the source's ends: {short}" if short else ""

    def _ended(self, code: int, stop_seconds: float, said: Sequence[str]) -> list[str]:
        failures = []
        if code != _STOPPED:
            failures.append(f"the clean stop ended with {code}")
        if stop_seconds > patience(STOP_SECONDS):
            failures.append(f"the clean stop took {stop_seconds:.1f} s")
        failures += [
            f"a traceback was shown: {one[one.index(_TRACEBACK) :]}" for one in said if _TRACEBACK in one
        ]
        if any("diverged" in one for one in said):
            failures.append("a partition was taken for diverged")
        if not self._same and any("another producer wrote" in one for one in said):
            failures.append("records of the mirror were taken for somebody else's")
        return failures


def nothing_happened(
    faults: Sequence[Fault], missed: Sequence[Fault], carried: Counter[Side], logs: Logs
) -> list[str]:
    """Why a seed would prove nothing, however well both sides look.

    Args:
        faults: Of its schedule.
        missed: Those that met nobody.
        carried: Bytes through each side's links.
        logs: Of both clusters.
    """
    found = [f"nothing went through the links of {side}" for side in SIDES if not carried[side]]
    if len(missed) == len(faults):
        found.append("no fault met anybody")
    if not any(one.aborted for one in logs.values()):
        found.append("no transaction was aborted")
    return found


class _Load:
    """Writers that outlive their broker, and a group that reads behind them; a context manager.

    Attributes:
        read_to: How far the group has read, by the source's partitions.
    """

    def __init__(
        self, bootstrap: str, topics: Sequence[str], group: str, age_ms: int, compacted: Sequence[str] = ()
    ) -> None:
        plain, tx = topics
        writer = partial(RunningWriter, bootstrap, tolerant=True, keyed=True, age_ms=age_ms)
        self._writers = [
            writer(plain, PARTITIONS, RECORDS_PER_SECOND),
            writer(tx, PARTITIONS, RECORDS_PER_SECOND / 3, transactions=TRANSACTION),
            *(writer(topic, PARTITIONS, RECORDS_PER_SECOND / 3, key_count=KEYS) for topic in compacted),
        ]
        self._group = WorkingGroup(bootstrap, group, topics, READ_PER_SECOND)
        self.read_to = self._group.read_to

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for writer in self._writers:
                stack.enter_context(writer)
            stack.enter_context(self._group)
            stack.callback(self.ask_to_stop)
            self._stack = stack.pop_all()
        return self

    def ask_to_stop(self) -> None:
        """Ends soon; the end of the context waits for it. Clients that hang do not hold up who looks at the flow."""
        self._group.stopping.set()
        for writer in self._writers:
            writer.ask_to_stop()

    @property
    def failed(self) -> int:
        """Loads that came to no end."""
        return sum(writer.failed for writer in self._writers)

    def __exit__(self, *_: object) -> None:
        self._stack.close()
