"""A real Kafka Connect worker with one sink connector, operated through its REST API."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any, Self

from mmtool.java import java_binary
from mmtool.lab.artifacts import classpath
from mmtool.lab.ports import PortReservation, wait_until
from mmtool.lab.process import LeashedProcess, java_command

if TYPE_CHECKING:
    from pathlib import Path

_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_SECONDS = 90.0


class ConnectWorker:
    """``connect-standalone`` with the connector ``PrintedSink``: a context manager."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._ports = PortReservation()
        self._url = f"http://127.0.0.1:{self._ports.take()}"
        self.log = directory / "connect.log"
        jars = classpath("mirror")
        with as_file(files("kit") / "java" / "PrintedSink.java") as source:
            words = ["-cp", ":".join(map(str, jars)), "-d", str(directory), str(source)]
            subprocess.run([str(java_binary().with_name("javac")), *words], check=True, timeout=_SECONDS)
        settings = {
            "bootstrap.servers": bootstrap,
            "listeners": self._url,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.storage.file.filename": str(directory / "source.offsets"),
            "consumer.isolation.level": "read_committed",
        }
        file = directory / "worker.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        self._process = LeashedProcess(java_command([*jars, directory], main, str(file), jvm=_JVM), self.log)

    def __enter__(self) -> Self:
        wait_until(self._answers, f"Kafka Connect's REST API (log: {self.log})", _SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._ports.release()

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """The JSON that a request is answered with; None without a body.

        Raises:
            urllib.error.HTTPError: Connect refused the request.
        """
        text = body if isinstance(body, str) or body is None else json.dumps(body)
        request = urllib.request.Request(  # noqa: S310  the worker's own address
            self._url + path,
            None if text is None else text.encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310  as above
            said = answer.read()
        return json.loads(said) if said else None

    def sunk(self) -> list[tuple[str, int, int, str]]:
        """Each record that the sink got so far: topic, partition, offset, value."""
        lines = self.log.read_text().splitlines()
        words = [line.split(" ", 4) for line in lines if line.startswith("SUNK ")]
        return [(topic, int(partition), int(offset), value) for _, topic, partition, offset, value in words]

    def _answers(self) -> bool:
        try:
            return bool(self.ask("GET", "/connectors") == [])
        except (urllib.error.URLError, ConnectionError):
            return False
