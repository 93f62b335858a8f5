"""Run the operator's executables with a step: to change a DNS record, a gateway or a secret.

A hook runs when its step's work is done and before the journal says so. So it is part of the step: a hook that fails
fails the step, and a step that is done again after a crash runs its hook again.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mmtool.errors import CheckFailedError, GateError, RefusedError
from mmtool.events import Event, Notice
from mmtool.failover.operation.operation import Operation
from mmtool.output import talk
from mmtool.output.values import plain
from mmtool.plain_text import printable, shell_word
from mmtool.plan.failover.choices import FenceKind
from mmtool.plan.failover.risks import Guard
from mmtool.plan.failover.steps import StepName, topics_of
from mmtool.plan.words import then

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import IO

    from mmtool.config import FlowSettings
    from mmtool.errors import MmtoolError
    from mmtool.failover.report.rows import Row
    from mmtool.plan.failover.failover_plan import FailoverPlan
    from mmtool.plan.failover.steps import Step
    from mmtool.plan.groups.offsets import GroupPlan

SECONDS = 60.0
"""Time limit of one hook, in seconds."""
_GRACE_SECONDS = 2.0
_LONGEST_LIST = 100_000
"""Limit of one environment variable, in bytes; Linux allows 128 KiB."""


def of_flow(plan: FailoverPlan, flow: FlowSettings) -> FailoverPlan:
    """A new plan with what the flow's settings add to it: its hooks, and the step that stops an external mirror."""
    if flow.is_external:
        stops, accepts = StepName.STOP_MIRROR in flow.hooks, flow.accepts_unverified
        plan = replace(plan, is_external=True, stops_mirror=stops, accepts_unverified=accepts).with_steps()
    return with_hooks(plan, flow.hooks)


def with_hooks(plan: FailoverPlan, hooks: Mapping[str, str]) -> FailoverPlan:
    """The plan with each hook named in its step's sentence, and a guard for each hook that cannot be executed.

    Args:
        plan: The plan, whose sentences name no hook yet.
        hooks: Executables by step name; names of steps of other modes are ignored.
    """
    steps = tuple(
        replace(step, sentence=f"{step.sentence}; {_runs(step, plan)} {hooks[step.name]}")
        if step.name in hooks
        else step
        for step in plan.steps
    )
    guards = [
        _unusable(step.name, hooks[step.name])
        for step in steps
        if step.name in hooks and shutil.which(hooks[step.name]) is None
    ]
    return replace(plan, steps=steps, guards=(*plan.guards, *guards))


def _unusable(step: StepName, executable: str) -> Guard:
    """The guard for a hook that cannot be run."""
    why, todo = "is not an existing file", f"set mmtool.hook.{step} to one executable file, without arguments"
    if Path(executable).is_file():
        why, todo = "is not executable", f"chmod +x {shell_word(executable)}"
    sentence = f"the hook of step {step}, {executable}, {why}"
    return Guard("hook_not_executable", sentence, then(todo))


@dataclass(frozen=True, slots=True)
class Hooks:
    """The hooks of an operation.

    Attributes:
        executables: By the names of steps.
        about: The environment variables that each of them gets.
        seconds: How long one may take.
        say: Called with each line that one writes.
    """

    executables: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)
    seconds: float = SECONDS
    say: Callable[[str], None] = talk

    def take_back(self, plan: FailoverPlan, name: StepName) -> None:
        """Run a step's hook with ``MMTOOL_ACTION=undo``; do nothing if the step has no hook.

        Raises:
            RefusedError: The hook failed.
            GateError: The hook took longer than ``seconds``.
        """
        if name in self.executables:
            step = next(step for step in plan.steps if step.name is name)
            told = environment_of(plan, step, tuple(group.group for group in plan.groups), plan.groups)
            row: Row = {"operation_id": plan.operation_id, "mode": plan.mode, "flow": plan.flow}
            self.run(Operation(plan), step, {**told, "MMTOOL_ACTION": _UNDO}, row)

    def run(self, operation: Operation, step: Step, told: Mapping[str, str], about: Row) -> None:
        """Run a step's hook, and wait until it exits.

        Args:
            operation: The operation that runs the hook; its phase selects the error.
            step: The step; it must have a hook.
            told: The hook's environment variables, from `environment_of`.
            about: The operation's row, which the hook reads on stdin as JSON.

        Raises:
            RefusedError: The hook failed before the point of no return.
            GateError: The hook took longer than ``seconds`` before the point of no return.
            CheckFailedError: The hook failed or took too long after the point of no return.
        """
        executable = self.executables[step.name]
        undoes = " called to undo the step," if told.get("MMTOOL_ACTION") == _UNDO else ""
        what = f"the hook of step {step.name}, {executable},{undoes}"
        row = json.dumps(about, ensure_ascii=False, default=plain).encode()

        def listen(lines: IO[bytes]) -> None:
            for line in lines:
                said = f"hook {step.name}: {line.decode(errors='replace').rstrip()}"
                self.say(Notice(said, Event.HOOK_OUTPUT, hook=step.name))

        try:
            code = _run(executable, {**os.environ, **self.about, **told}, row, self.seconds, listen)
        except subprocess.TimeoutExpired as error:
            why = f"took more than {self.seconds:g} s and was stopped"
            raise _failed(operation, f"{what} {why}", _TOO_LONG, GateError) from error
        except OSError as error:
            todo = f"set mmtool.hook.{step.name} to a program, or to a script whose first line names its interpreter"
            raise _failed(operation, f"{what} cannot be started: {error.strerror}", todo) from error
        if code > 0:
            raise _failed(operation, f"{what} exited with {code}", _EXITED)
        if code < 0:
            raise _failed(operation, f"{what} was killed by {signal.Signals(-code).name}", _KILLED)


_UNDO = "undo"
_EXITED = "correct the hook: its output is above"
_KILLED = "find out what killed the hook: its output is above"
_TOO_LONG = "make the hook return sooner: let it start slow work in the background"


def _failed(
    operation: Operation, what: str, todo: str, before: type[MmtoolError] = RefusedError
) -> MmtoolError:
    """The error of a hook, by the operation's phase; ``before`` is its type before the point of no return."""
    if not operation.point_of_no_return_passed:
        return before(what, remedy=then(todo), code="hook_failed")
    again = f"run `mmtool failover resume {operation.plan.operation_id} -c FILE --execute`"
    remedy = f"{then(todo, again)}: this runs the hook again, and then the steps after it"
    return CheckFailedError(what, remedy=remedy, code="hook_failed")


def _runs(step: Step, plan: FailoverPlan) -> str:
    """How a step's sentence introduces its hook: a fence by hook, and a promotion, is that hook and nothing else."""
    by_hook = plan.fence.kind is FenceKind.HOOK
    is_the_step = step.name is StepName.STOP_MIRROR or (step.name is StepName.FENCE and by_hook)
    return "this hook is" if is_the_step else "then run the hook"


def hooks_of(settings: FlowSettings, reason: str) -> Hooks:
    """The hooks that a flow's configuration names, with the environment that all of them get."""
    here, there = settings.source, settings.target
    about = {
        "MMTOOL_SOURCE": here.alias,
        "MMTOOL_TARGET": there.alias,
        "MMTOOL_SOURCE_BOOTSTRAP": here.bootstrap_servers,
        "MMTOOL_TARGET_BOOTSTRAP": there.bootstrap_servers,
        "MMTOOL_REASON": reason.replace("\0", "?"),
    }
    return Hooks(settings.hooks, about)


def environment_of(
    plan: FailoverPlan, step: Step, groups: Iterable[str], plans: Iterable[GroupPlan]
) -> dict[str, str]:
    """The environment variables of a step's hook: operation, mode, step, groups and topics.

    For the fence step the topics are the fence's, since no offset is translated before the drain. A list of 100,000
    bytes or more is left out.
    """
    topics = plan.fence.topics if step.name is StepName.FENCE else topics_of(plans)
    lists = {"MMTOOL_GROUPS": _lines(groups), "MMTOOL_TOPICS": _lines(topics)}
    return {
        "MMTOOL_OPERATION_ID": plan.operation_id,
        "MMTOOL_MODE": plan.mode,
        "MMTOOL_STEP": step.name,
        "MMTOOL_ACTION": "do",
        **{name: text for name, text in lists.items() if len(text.encode()) < _LONGEST_LIST},
    }


def _lines(names: Iterable[str]) -> str:
    """One name in each line, printable: a line break in a name would be a second one, a NUL ends a variable."""
    return "\n".join(map(printable, names))


def _run(
    executable: str,
    environment: Mapping[str, str],
    row: bytes,
    seconds: float,
    listen: Callable[[IO[bytes]], None],
) -> int:
    """Run an executable, and return its exit code; a negative one is the signal that ended it.

    The process runs in a session of its own, so Ctrl-C does not reach it directly: after the point of no return it
    continues.

    Args:
        executable: The executable.
        environment: All of its environment variables.
        row: What it reads on stdin.
        seconds: How long it may take.
        listen: Reads what it writes.

    Raises:
        OSError: The executable cannot be started.
        subprocess.TimeoutExpired: The process took longer than ``seconds``, and was ended.
        KeyboardInterrupt: Ctrl-C, or SIGTERM; the process was ended.
    """
    started: list[tuple[subprocess.Popen[bytes], threading.Thread]] = []
    gate, abandoned = threading.Lock(), threading.Event()

    def start() -> None:
        """In another thread: an interrupt inside `Popen` would leave a process that nobody knows."""
        process = subprocess.Popen(
            [shutil.which(executable) or executable],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        listener = threading.Thread(target=listen, args=(process.stdout,), daemon=True)
        listener.start()
        threading.Thread(target=_tell, args=(process.stdin, row), daemon=True).start()
        with gate:
            if not abandoned.is_set():
                started.append((process, listener))
                return
        _end(process)

    with ThreadPoolExecutor(1) as pool:
        try:
            pool.submit(start).result()
            return started[0][0].wait(seconds)
        except BaseException:
            with gate:
                abandoned.set()
            for process, _ in started:
                _end(process)
            raise
        finally:
            for _, listener in started:
                listener.join(_GRACE_SECONDS)  # what it has left in the background may keep its output open


def _tell(pipe: IO[bytes], row: bytes) -> None:
    """Write the row to the hook's stdin; a hook that does not read it is no error."""
    with suppress(OSError), pipe:
        pipe.write(row)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and its process group, by SIGTERM, then SIGKILL."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signum)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
            return
