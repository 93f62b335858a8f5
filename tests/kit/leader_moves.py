"""Leaders that move all the time, by Kafka's own admin client."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Self

from kit.java_source import java_source
from mmtool.lab.ports import wait_until

if TYPE_CHECKING:
    from pathlib import Path

_FIRST_SECONDS = 60.0


class LeaderMoves:
    """Each partition of some topics gets another leader every second. A context manager.

    Args:
        bootstrap: A cluster with several brokers.
        part: Of the topics' names.
        said: A file for what is done.
    """

    def __init__(self, bootstrap: str, part: str, said: Path, seconds: float = 1.0) -> None:
        self._arguments = (bootstrap, part, str(round(seconds * 1000)))
        self._said = said

    @property
    def count(self) -> int:
        """How many leaders have moved so far."""
        lines = self._said.read_text().splitlines() if self._said.exists() else []
        return sum(int(line.split()[1]) for line in lines if line.startswith("moved "))

    def __enter__(self) -> Self:
        with java_source("MoveLeaders", *self._arguments) as command:
            with self._said.open("wb") as said:
                self._process = subprocess.Popen(command, stdout=said, stderr=said, stdin=subprocess.DEVNULL)
            try:
                wait_until(lambda: self.count > 0, f"a leader that moves: {self._said}", _FIRST_SECONDS)
            except BaseException:
                self.__exit__()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
