"""Faults of a schedule, done to clusters, links and a running command, each at its time."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Self

from kit.chaos.schedule import Side, What
from kit.link import LinkShape, Way
from mmtool.kafka.wire.produce import ProduceRequest
from mmtool.kafka.wire.transactions import WriteTxnMarkersRequest
from mmtool.lab.demo_apps import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kit.chaos.place import Place
    from kit.chaos.schedule import Fault
    from kit.link import Link
    from kit.processes import MmtoolProcess, Role

_SHAPES = {
    What.FAR: LinkShape(round_trip_seconds=0.2),
    What.THIN: LinkShape(bytes_per_second=1e6),
    What.SILENT: LinkShape(silent=frozenset(Way)),
    What.SILENT_THERE: LinkShape(silent=frozenset({Way.THERE})),
    What.SILENT_BACK: LinkShape(silent=frozenset({Way.BACK})),
    What.SLICED: LinkShape(round_trip_seconds=0.02, chunk_bytes=100),
    What.REFUSED: LinkShape(refuses=True),
    What.FILLS_LOST: LinkShape(swallows=frozenset({WriteTxnMarkersRequest.API_KEY})),
    What.FILLS_LATE: LinkShape(late=frozenset({WriteTxnMarkersRequest.API_KEY})),
    What.DATA_LOST: LinkShape(swallows=frozenset({ProduceRequest.API_KEY})),
}
_VICTIMS: Mapping[What, Role] = {
    What.WORKER_KILLED: "worker",
    What.JVM_KILLED: "jvm",
    What.DRIVER_KILLED: "driver",
}
_RESET_EVERY_SECONDS = 0.5
_END_SECONDS = 60.0
_BROKER_START_SECONDS = 4.0
"""What was killed is back when its fault is over; it is started that much earlier."""


class Keeper:
    """Keeps one command running, as a service manager does: one that ended is started again. A context manager.

    Attributes:
        starts: How often it was.
        said: What those said that ended.
    """

    def __init__(self, start: Callable[[], MmtoolProcess]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._process = start()
        self.starts = 1
        self.said: list[str] = []
        self._worker = Worker("keeper", self._keep)
        self._worker.start()

    @property
    def process(self) -> MmtoolProcess:
        with self._lock:
            return self._process

    def stop(self) -> tuple[int, float]:
        """A clean end: its exit code, and the seconds it took."""
        self._worker.finish()
        began = time.monotonic()
        answer = self._process.stop()
        self.said.append(answer.stderr)
        return answer.code, time.monotonic() - began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.stopping.set()
        self._worker.ended(_END_SECONDS)
        self._process.kill_all()

    def _keep(self) -> None:
        while not self._worker.stopping.wait(0.1):
            with self._lock:
                if not self._process.alive:
                    self._process.kill_all()
                    self.said.append(self._process.stderr)
                    self._process = self._start()
                    self.starts += 1


class Doing:
    """A schedule, one thread for each side.

    Attributes:
        missed: Faults that met nobody, as a kill of workers does while the command starts.
    """

    def __init__(self, faults: Sequence[Fault], place: Place, keeper: Keeper) -> None:
        self._place, self._keeper = place, keeper
        self._began = time.monotonic()
        self._faults = faults
        self.missed: list[Fault] = []

    def run(self) -> None:
        """Until the last fault is over and healed; raises what ended a side early, when no other one goes on."""
        sides = [Worker(f"faults of {side}", partial(self._do, side)).start() for side in Side]
        for side in sides:
            side.ended(_END_SECONDS)
        for side in sides:
            side.wait()

    def _do(self, side: Side) -> None:
        for fault in self._faults:
            if fault.side is side:
                self._sleep_until(fault.at_seconds)
                if not self._begin(fault):
                    self.missed.append(fault)
                self._meanwhile(fault)
                self._end(fault)

    def _sleep_until(self, at_seconds: float) -> None:
        time.sleep(max(0.0, self._began + at_seconds - time.monotonic()))

    def _begin(self, fault: Fault) -> bool:
        """Whether it met anybody."""
        match fault.what:
            case What.BROKER_FROZEN:
                self._place.freeze(fault.side, *fault.brokers)
            case What.BROKER_KILLED:
                self._place.kill(fault.side, *fault.brokers)
            case What.RESET:
                pass
            case What.WORKER_KILLED | What.JVM_KILLED | What.DRIVER_KILLED:
                return bool(self._keeper.process.kill(_VICTIMS[fault.what]))
            case What.STOPPED:
                process = self._keeper.process
                return process.alive and bool(process.stop())
            case What.WORKER_FROZEN:
                return bool(self._keeper.process.freeze("worker"))
            case What.FROZEN:
                return bool(self._keeper.process.freeze())
            case what:
                for link in self._links(fault):
                    link.change(_SHAPES[what])
        return True

    def _meanwhile(self, fault: Fault) -> None:
        while fault.what is What.RESET and time.monotonic() < self._began + fault.ends_at_seconds:
            for link in self._links(fault):
                link.cut()
            time.sleep(_RESET_EVERY_SECONDS)
        earlier = _BROKER_START_SECONDS if fault.what is What.BROKER_KILLED else 0.0
        self._sleep_until(max(fault.at_seconds, fault.ends_at_seconds - earlier))

    def _end(self, fault: Fault) -> None:
        if fault.what in {What.FROZEN, What.WORKER_FROZEN}:
            self._keeper.process.thaw()
        elif fault.side is not Side.COMMAND:
            self._place.heal(fault.side)

    def _links(self, fault: Fault) -> list[Link]:
        return [self._place.links[fault.side][broker] for broker in fault.brokers]
