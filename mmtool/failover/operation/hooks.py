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
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mmtool.errors import CheckFailedError, GateError, RefusedError
from mmtool.events import Event, Notice
from mmtool.failover.operation.operation import Operation
from mmtool.output import talk
from mmtool.plan.failover.failover_plan import Guard
from mmtool.plan.failover.steps import StepName, topics_of

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
"""How long a hook may take."""
_GRACE_SECONDS = 2.0
_LONGEST_LIST = 100_000
"""Bytes of one environment variable; Linux takes 128 KiB at the most."""


def with_hooks(plan: FailoverPlan, hooks: Mapping[str, str]) -> FailoverPlan:
    """The plan with the hooks of its steps in their sentences; one that cannot be run forbids it.

    Args:
        plan: Without hooks.
        hooks: Executables by the names of steps, of this mode or another.
    """
    steps = tuple(
        replace(step, sentence=f"{step.sentence}; then run the hook {hooks[step.name]}")
        if step.name in hooks
        else step
        for step in plan.steps
    )
    guards = [
        Guard("hook_not_executable", f"the hook of step {step.name}, {hooks[step.name]}, {why}")
        for step in steps
        if step.name in hooks and (why := _unusable(hooks[step.name]))
    ]
    return replace(plan, steps=steps, guards=(*plan.guards, *guards))


def _unusable(executable: str) -> str:
    """Why it cannot be run; empty where it can."""
    if shutil.which(executable) is not None:
        return ""
    return (
        "is not executable" if Path(executable).is_file() else ("does not exist (a hook takes no arguments)")
    )


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
        """Run a step's hook again, told to undo what it did, perhaps in part; nothing where the step has none.

        Raises:
            RefusedError: It failed.
            GateError: It took too long.
        """
        if name in self.executables:
            step = next(step for step in plan.steps if step.name is name)
            told = environment_of(plan, step, tuple(group.group for group in plan.groups), plan.groups)
            row: Row = {"operation_id": plan.operation_id, "mode": plan.mode, "flow": plan.flow}
            self.run(Operation(plan), step, {**told, "MMTOOL_ACTION": "undo"}, row)

    def run(self, operation: Operation, step: Step, told: Mapping[str, str], about: Row) -> None:
        """Run a step's hook to its end.

        Args:
            operation: The hook is part of it.
            step: One that has a hook.
            told: Its environment, as `environment_of` has it.
            about: The operation's row, on its stdin.

        Raises:
            RefusedError: It failed before the point of no return.
            GateError: It took too long before that.
            CheckFailedError: Either of that behind it.
        """
        executable = self.executables[step.name]
        what = f"the hook of step {step.name}, {executable},"
        row = json.dumps(about, ensure_ascii=False).encode()
        called = _Called(f"hook {step.name}", executable, self.say)
        try:
            code = called.run({**os.environ, **self.about, **told}, row, self.seconds)
        except subprocess.TimeoutExpired as error:
            why = f"took more than {self.seconds:g} s and was stopped"
            raise _failed(operation, f"{what} {why}", GateError) from error
        except OSError as error:
            raise _failed(operation, f"{what} cannot be started: {error.strerror}", RefusedError) from error
        if code:
            why = f"exited with {code}" if code > 0 else f"was killed by {signal.Signals(-code).name}"
            raise _failed(operation, f"{what} {why}", RefusedError)


def _failed(operation: Operation, what: str, before: type[MmtoolError]) -> MmtoolError:
    if operation.point_of_no_return_passed:
        name = operation.plan.operation_id
        return CheckFailedError(
            what,
            remedy=f"`mmtool failover resume {name} --execute` runs the hook again, and the steps after it",
            code="hook_failed",
        )
    remedy = "correct the hook (its output is above), then run the same command again; no offset was written"
    return before(what, remedy=remedy, code="hook_failed")


def hooks_of(settings: FlowSettings, reason: str) -> Hooks:
    """The hooks of a flow's configuration, for an operation that is done for a reason."""
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
    """What a hook reads in its environment.

    A fence's topics are known before the mirror has caught up, and so before offsets are.
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
    return "\n".join(name.replace("\0", "?") for name in names)


@dataclass(frozen=True, slots=True)
class _Called:
    """One run of one hook.

    Attributes:
        name: What stands before each of its lines.
    """

    name: str
    executable: str
    say: Callable[[str], None]

    def run(self, environment: Mapping[str, str], row: bytes, seconds: float) -> int:
        """Its exit code; negative for a signal.

        It is in a session of its own, so that Ctrl-C is our decision: behind the point of no return it goes on.

        Raises:
            OSError: It cannot be started.
            subprocess.TimeoutExpired: It took too long, and was ended.
            KeyboardInterrupt: So was it.
        """
        process = subprocess.Popen(
            [shutil.which(self.executable) or self.executable],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        listener = threading.Thread(target=self._listen, args=(process.stdout,), daemon=True)
        teller = threading.Thread(target=_tell, args=(process.stdin, row), daemon=True)
        listener.start()
        teller.start()
        try:
            return process.wait(seconds)
        except BaseException:
            _end(process)
            raise
        finally:
            listener.join(_GRACE_SECONDS)  # what it has left in the background may keep its output open

    def _listen(self, lines: IO[bytes]) -> None:
        for line in lines:
            said = f"{self.name}: {line.decode(errors='replace').rstrip()}"
            self.say(Notice(said, Event.HOOK_OUTPUT, hook=self.name.removeprefix("hook ")))


def _tell(pipe: IO[bytes], row: bytes) -> None:
    """A hook need not read what it is told."""
    with suppress(OSError), pipe:
        pipe.write(row)


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all that it has started."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signum)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
            return
