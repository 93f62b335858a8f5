"""A real Spark standalone cluster on this machine: a master and workers, started from pyspark's own jars."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Self

from mmtool.java import java_binary
from mmtool.lab.ports import PortReservation, wait_until
from mmtool.lab.process import LeashedProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

_HOST = "127.0.0.1"
_START_SECONDS = 30.0
_MASTER, _WORKER = (f"org.apache.spark.deploy.{name}" for name in ("master.Master", "worker.Worker"))


class SparkCluster:
    """A standalone master, and workers that come and go. A context manager that leaves no process behind.

    Args:
        folder: For logs and the workers' files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = PortReservation()
        self._port = self._ports.take()
        self._workers: list[LeashedProcess] = []
        self._started = 0
        self._master: LeashedProcess | None = None

    @property
    def url(self) -> str:
        """What ``mmtool.spark.master`` has to be."""
        return f"spark://{_HOST}:{self._port}"

    @property
    def conf(self) -> dict[str, str]:
        """What ``mmtool`` has to say to Spark besides, on a machine of one interface and little memory."""
        settings = {"executor.memory": "512m", "driver.host": _HOST, "driver.bindAddress": _HOST}
        return {f"mmtool.spark.conf.spark.{name}": value for name, value in settings.items()}

    def start_worker(self, cores: int = 1, memory: str = "1g") -> LeashedProcess:
        """One more worker; it is registered when this returns."""
        self._started += 1
        name = f"worker-{self._started}"
        arguments = ("--cores", str(cores), "--memory", memory, "--work-dir", str(self._folder / name))
        worker = self._start(name, _WORKER, *arguments, self.url)
        self._workers.append(worker)
        _wait_for(worker, "Successfully registered with master")
        return worker

    def kill_worker(self, worker: LeashedProcess) -> None:
        """Kills a worker, its executors and their Python processes at once, as a host that goes away."""
        pids = [*_descendants(worker.pid)]
        worker.kill()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._workers.remove(worker)

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._master = self._start("master", _MASTER, "--port", str(self._port))
        wait_until(self._answers, "Spark's master", _START_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        for worker in list(self._workers):
            self.kill_worker(worker)
        if self._master is not None:
            self._master.kill()
        self._ports.release()

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection((_HOST, self._port), 1.0):
            return True
        return False

    def _start(self, name: str, main_class: str, *arguments: str) -> LeashedProcess:
        home = distribution("pyspark").locate_file("pyspark")
        settings = {
            "SPARK_HOME": str(home),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_NO_DAEMONIZE": "1",
        }
        jvm = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{home}/jars/*")
        ports = ("--host", _HOST, "--webui-port", str(self._ports.take()))
        environ = [f"{key}={value}" for key, value in settings.items()]
        command = ["env", *environ, str(java_binary()), *jvm, main_class, *ports, *arguments]
        return LeashedProcess(command, self._folder / f"{name}.log")


def _wait_for(process: LeashedProcess, line: str) -> None:
    wait_until(lambda: line in process.log.read_text(), f"{line!r} in {process.log}", _START_SECONDS)


def _descendants(pid: int) -> Iterator[int]:
    """All processes below one (Linux)."""
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, listed.read_text().split()):
                yield child
                yield from _descendants(child)
