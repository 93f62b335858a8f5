"""The real MirrorMaker 2, which tests and the benchmark compare mmtool with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from mmtool.errors import MmtoolError
from mmtool.lab.artifacts import MIRROR_MAKER_VERSION, classpath
from mmtool.lab.ports import wait_until
from mmtool.lab.process import LeashedProcess, java_command

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

# C1 and the serial collector, as of the lab's brokers: half the processor time where it mirrors little.
JVM = ("-Xmx512m", "-Xms256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients=warn",  # pages of settings per client
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config.AbstractConfig=warn",
)
START_SECONDS = 120.0


class MirrorMaker:
    """``org.apache.kafka.connect.mirror.MirrorMaker FILE`` as a process that ends with its parent.

    ``properties`` is the text of the file (``Fleet.properties``).
    """

    def __init__(
        self,
        properties: str,
        directory: Path,
        *,
        version: str = MIRROR_MAKER_VERSION,
        jvm: Sequence[str] = JVM,
    ) -> None:
        self.file = directory / "connect-mirror-maker.properties"
        self.log = directory / "mirror-maker.log"
        self._properties = properties
        self._version = version
        self._jvm = tuple(jvm)
        self._process: LeashedProcess | None = None

    @property
    def pid(self) -> int:
        return self._running().pid

    def start(self) -> None:
        """Start MirrorMaker 2; its copies are on the target some 10 s later (``wait_until``)."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(self._properties)
        command = java_command(
            classpath("mirror", self._version),
            "org.apache.kafka.connect.mirror.MirrorMaker",
            str(self.file),
            jvm=(*self._jvm, *_LOGGING),
        )
        self._process = LeashedProcess(command, self.log)

    def stop(self) -> None:
        """Stop MirrorMaker 2 cleanly: offsets and offset syncs are flushed."""
        self._running().terminate()

    def kill(self) -> None:
        self._running().kill()

    def wait_until(self, done: Callable[[], bool], what: str, timeout: float = START_SECONDS) -> float:
        """Wait until ``done()``, and return the seconds; ``what`` names the condition in the error.

        Raises:
            MmtoolError: MirrorMaker 2 ended.
            GateError: ``timeout`` seconds were not enough.
        """

        def done_or_ended() -> bool:
            if not self._running().alive:
                said = self._running().with_log(f"MirrorMaker 2 ended; waited for {what}")
                raise MmtoolError(said, code="mirror")
            return done()

        return wait_until(done_or_ended, f"{what} (MirrorMaker 2's log: {self.log})", timeout, poll=0.1)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._running().alive:
            self.stop()

    def _running(self) -> LeashedProcess:
        if self._process is None:
            raise MmtoolError("MirrorMaker 2 was not started", code="mirror")
        return self._process
