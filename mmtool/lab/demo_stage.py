"""The demo's clusters: two that end with it, or a lab that stays; and the real commands on them."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmtool.errors import MmtoolError, RefusedError, StoppedError
from mmtool.lab import session
from mmtool.lab.fleet import Fleet
from mmtool.lab.process import LeashedProcess, down_command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmtool.lab.state import StateDirectory

EAST, WEST = "east", "west"
_END_SECONDS = 20.0
_TIMES = re.compile(r"^\d{4}-\d\d-\d\dT\S+Z ", re.MULTILINE)
_LAST_CODE = 10  # of the contract's; above them are signals


@dataclass(frozen=True, slots=True)
class Stage:
    """Two running clusters.

    Attributes:
        directory: Logs of brokers and commands.
        bootstrap: Of each cluster, by its alias.
        properties: The file that connects them, the same for mmtool and MirrorMaker 2.
    """

    directory: Path
    bootstrap: dict[str, str]
    properties: Path

    def line(self, *words: str) -> list[str]:
        """The command line of ``mmtool WORDS`` by this installation, with the stage's properties file."""
        as_text = ("--log-format", "text")
        return [sys.executable, "-P", "-m", "mmtool", *words, "-c", str(self.properties), *as_text]


@contextlib.contextmanager
def temporary(directory: Path) -> Iterator[Stage]:
    """Run two clusters that end with this process, however it ends; after a failure their logs are kept."""
    fleet = Fleet.of(directory, EAST, WEST)
    try:
        fleet.start()
        properties = directory / "mmtool.properties"
        properties.write_text(fleet.properties([(EAST, WEST)]))
        yield Stage(directory, {cluster.name: cluster.bootstrap for cluster in fleet}, properties)
    except BaseException:
        fleet.kill()
        fleet.remove_data()
        raise
    fleet.kill()  # nothing that they hold is wanted again


@contextlib.contextmanager
def kept(directory: StateDirectory) -> Iterator[Stage]:
    """Run a detached lab that stays after a completed demo; otherwise it is stopped with the demo.

    Raises:
        RefusedError: A lab runs there already.
    """
    if directory.is_running():
        raise RefusedError(
            f"a demo or lab runs in {directory.path}",
            remedy=f"stop it and delete its data: {down_command(directory.path)}",
            code="lab_running",
        )
    session.down(directory)  # what a lab that was killed has left
    try:
        state, _ = session.up(directory, session.LabRequest((EAST, WEST)))
        bootstrap = {broker.cluster: broker.bootstrap for broker in state.brokers}
        yield Stage(directory.path, bootstrap, directory.properties)
    except (KeyboardInterrupt, StoppedError):
        session.down(directory)
        raise
    except BaseException:
        session.down(directory, keep_data=True)  # with the logs
        raise


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Create a folder that is kept where its block raises an error, and removed otherwise."""
    path = Path(tempfile.mkdtemp(prefix="mmtool-demo-"))
    try:
        yield path
    except (KeyboardInterrupt, StoppedError):
        shutil.rmtree(path, ignore_errors=True)
        raise
    shutil.rmtree(path, ignore_errors=True)


class Replicating:
    """``mmtool replicate`` as a process that is killed when this one dies; its stderr is in a log."""

    def __init__(self, stage: Stage) -> None:
        self._process = LeashedProcess(
            stage.line("replicate", "--every", "2"), stage.directory / "replicate.log"
        )
        self._shown = 0

    def check(self) -> None:
        """Raise the command's own error, with its exit code, if it has ended."""
        if not self._process.alive:
            code, log = self._process.wait(), self._process.log
            raise failure_of("mmtool replicate", code, _messages(log))

    def news(self) -> list[str]:
        """The log lines since the last call."""
        lines = _messages(self._process.log).split("\n")[:-1]
        fresh, self._shown = lines[self._shown :], len(lines)
        return fresh

    def stop(self) -> None:
        """Stop the command cleanly, as by Ctrl-C."""
        self._process.terminate(_END_SECONDS)


def ask(stage: Stage, name: str, *words: str) -> dict[str, Any]:
    """The row of ``mmtool WORDS -o json``, run to its end; both streams are kept as files named ``name``.

    Raises:
        MmtoolError: The command ended with another code than 0, which is the error's exit code.
    """
    out, err = (stage.directory / f"{name}.{kind}" for kind in ("json", "log"))
    with out.open("wb") as stdout, err.open("wb") as stderr:
        line = [*stage.line(*words), "-o", "json"]
        ended = subprocess.run(line, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, check=False)
    if ended.returncode != 0:
        raise failure_of(f"mmtool {' '.join(words[:2])}", ended.returncode, _messages(err))
    row: dict[str, Any] = json.loads(out.read_text())["data"][0]
    return row


def _messages(log: Path) -> str:
    """A command's log without the times at which its lines begin."""
    return _TIMES.sub("", log.read_text(errors="replace"))


def failure_of(what: str, code: int, said: str) -> MmtoolError:
    """A command's last error as an exception with its exit code; a killed command's exit code is 1."""
    told = [line.removeprefix("error: ") for line in said.splitlines() if line.startswith("error: ")]
    last = told or said.strip().splitlines() or ["no message"]
    error = MmtoolError(f"{what} ended with exit code {code}: {last[-1]}", code="command_failed")
    error.exit_code = code if 0 < code <= _LAST_CODE else 1
    return error
