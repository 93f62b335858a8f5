"""A lab that outlives the command which started it: up, status, down."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Literal

from mmtool.errors import GateError, MmtoolError, RefusedError, UsageError
from mmtool.java import java_binary
from mmtool.lab import ports
from mmtool.lab.artifacts import KAFKA_VERSION, classpath
from mmtool.lab.cluster import READY_SECONDS
from mmtool.lab.ports import wait_until
from mmtool.lab.process import down_command
from mmtool.lab.security.kinds import Secure, SecurityKind
from mmtool.lab.state import ALREADY_RUNNING, SECURITY_FOLDER, BrokerState, LabState, StateDirectory
from mmtool.plain_text import Lines
from mmtool.plan.words import counted

STOP_SECONDS = 45.0
_ALIAS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")  # also a folder's name


@dataclass(frozen=True, slots=True)
class LabRequest:
    """The options of ``mmtool lab up``."""

    clusters: tuple[str, ...] = ("a", "b")
    brokers: int = 1
    kafka_version: str = KAFKA_VERSION
    secure: SecurityKind | None = None

    def __post_init__(self) -> None:
        wrong = [name for name in self.clusters if not _ALIAS.fullmatch(name)]
        if wrong:
            raise UsageError(
                f"--clusters: {wrong[0]!r} is not a cluster alias",
                remedy="use letters, digits, '_', '.' and '-'; an alias starts with a letter, a digit or '_'",
            )
        if len(self.clusters) < 2 or len(set(self.clusters)) < len(self.clusters):
            raise UsageError(
                f"--clusters {','.join(self.clusters)}: a flow needs two clusters with different aliases",
                remedy="name two clusters, for example --clusters a,b",
            )
        if self.secure is not None and SECURITY_FOLDER in self.clusters:
            raise UsageError(
                f"--clusters: with --secure, no cluster can have the alias {SECURITY_FOLDER}: the folder of that name"
                " holds the certificates and the users",
                remedy="choose another alias",
            )

    @classmethod
    def of(
        cls,
        before: LabState | None,
        clusters: tuple[str, ...] | None = None,
        brokers: int | None = None,
        kafka_version: str | None = None,
        secure: Secure | None = None,
    ) -> LabRequest:
        """A request of the given options; others are as in the lab ``before``, or the defaults of a new lab.

        A lab that could not start counts as the last one that did.
        """
        last = cls.that_made(before) if before is not None and before.brokers else cls()
        return cls(
            clusters or last.clusters,
            brokers or last.brokers,
            kafka_version or last.kafka_version,
            last.secure if secure is None else secure.kind,
        )

    @classmethod
    def that_made(cls, state: LabState) -> LabRequest:
        """The request by which a lab was started."""
        return cls(tuple(state.names), state.brokers_per_cluster, state.kafka_version, state.secure)


def up(directory: StateDirectory, request: LabRequest) -> tuple[LabState, bool]:
    """Start a detached lab, or find the running one; the flag says whether it ran before.

    Raises:
        RefusedError: Another lab runs in this directory.
        UsageError: Java is missing or too old, or the directory cannot be written.
        MmtoolError: Kafka could not be downloaded, or a broker did not start.
    """
    if directory.is_running():
        return _the_running_one(directory, request), True
    # here, where progress and failures can be seen
    java_binary()
    directory.make()
    classpath("broker", request.kafka_version)
    supervisor = _spawn(directory, request)
    try:
        state = _wait_for_start(directory, supervisor)
    except BaseException:
        supervisor.terminate()
        raise
    ran_before = state.supervisor_pid != supervisor.pid
    return (_the_running_one(directory, request) if ran_before else state), ran_before


def down(directory: StateDirectory, *, keep_data: bool = False) -> bool:
    """Stop the lab and delete its clusters; return whether a lab ran.

    With ``keep_data`` the next ``up`` continues with the same cluster ids, topics and groups.

    Raises:
        GateError: The lab did not stop in time.
    """
    running = directory.is_running()
    state = _state_once_started(directory) if running else directory.read()
    if state is not None and running:
        os.kill(state.supervisor_pid, signal.SIGTERM)
        wait_until(
            lambda: not directory.is_running(),
            f"the lab in {directory.path} to stop",
            STOP_SECONDS,
            remedy="run the same command again",
        )
    if state is not None and not keep_data:
        for name in state.names:
            shutil.rmtree(directory.path / name, ignore_errors=True)
        shutil.rmtree(directory.security, ignore_errors=True)
        directory.forget()
    return running


def answer_of(broker: BrokerState) -> Literal["running", "not_answering", "stopped"]:
    """Whether a broker answers a metadata request now, is hung, or has stopped."""
    port = broker.port if broker.probe_port is None else broker.probe_port
    view = ports.ask(port, tls=broker.tls)
    if view is not None and view.cluster_id == broker.cluster_id:
        return "running"
    with contextlib.suppress(ProcessLookupError):
        os.kill(broker.pid, 0)
        return "not_answering"
    return "stopped"


def _the_running_one(directory: StateDirectory, request: LabRequest) -> LabState:
    state = _state_once_started(directory, READY_SECONDS)
    if request == LabRequest.that_made(state):
        return state
    secured = "" if state.secure is None else f", --secure {state.secure}"
    raise RefusedError(
        f"another lab runs in {directory.path}: clusters {','.join(state.names)}, "
        f"{counted(state.brokers_per_cluster, 'broker')} each, Kafka {state.kafka_version}{secured}",
        remedy=f"stop that lab and delete its data: {down_command(directory.path)}; or start yours in another"
        " directory: `mmtool lab up --state-dir DIR`",
        code="lab_running",
    )


def _state_once_started(directory: StateDirectory, seconds: float = 2 * READY_SECONDS) -> LabState:
    """The state of the lab that another process starts, once it is there.

    Raises:
        GateError: It is not there in time.
    """
    try:
        wait_until(lambda: directory.read() is not None, "the lab", seconds)
    except GateError:
        raise GateError(
            f"another process is starting the lab in {directory.path}, which has not started in {seconds:.0f} s",
            remedy="look at the logs in that directory, then run the same command again",
            code="timeout",
        ) from None
    state = directory.read()
    assert state is not None
    return state


def _spawn(directory: StateDirectory, request: LabRequest) -> subprocess.Popen[bytes]:
    with directory.log.open("ab") as log:
        return subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "mmtool.lab.supervisor",
                directory.path,
                json.dumps(asdict(request)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # neither Ctrl-C nor the terminal's end is meant for it
        )


def _wait_for_start(directory: StateDirectory, supervisor: subprocess.Popen[bytes]) -> LabState:
    def own_state() -> LabState | None:
        state = directory.read()
        return state if state is not None and state.supervisor_pid == supervisor.pid else None

    def settled() -> bool:
        return supervisor.poll() is not None or own_state() is not None

    wait_until(
        settled,
        f"the lab in {directory.path} to start",
        2 * READY_SECONDS,
        remedy=f"the log of the lab shows the cause: {directory.log}",
    )
    if supervisor.poll() == ALREADY_RUNNING:  # somebody else typed the same at the same moment
        return _state_once_started(directory)
    state = own_state()
    if state is None:
        raise MmtoolError(
            f"the lab's supervisor process ended with exit code {supervisor.poll()}",
            remedy=f"the log of this process shows the cause: {directory.log}",
        )
    if state.error:
        usage = supervisor.wait(STOP_SECONDS) == UsageError.exit_code
        kind = UsageError if usage else MmtoolError
        raise kind(Lines.of(state.error.splitlines()), remedy=state.remedy, code="broker")
    return state
