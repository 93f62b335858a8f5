"""Hooks: real executables that run with a step, what they are told, and what it means when they fail."""

import os
import signal
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from kit.operations import KilledError, Killing, heard
from kit.scene import Scene, half_read
from mmtool.errors import UsageError
from mmtool.failover.modes import planned_mode
from mmtool.failover.operation.hooks import environment_of
from mmtool.failover.operation.journal import Journalist
from mmtool.failover.operation.operation import StepState
from mmtool.failover.operation.records import recorded
from mmtool.failover.operation.recovery import roll_forward
from mmtool.plan.groups.facts import GroupSelection

APP = GroupSelection(("app",))


@pytest.fixture
def hook(tmp_path):
    """Writes an executable; ``{tmp}`` in its script is a folder of the test's."""

    def write(script, name="hook.sh", mode=0o755):
        path = tmp_path / name
        path.write_text("#!/bin/sh\n" + script.format(tmp=tmp_path))
        path.chmod(mode)
        return path

    return write


@pytest.fixture
def ran(tmp_path):
    """A planned move with these hooks, by the names of steps; what it says goes into ``said``."""

    def run(seconds=60.0, log=None, **hooks):
        scene = half_read(tmp_path)
        hooks = {name: str(path) for name, path in hooks.items()}
        scene.settings = scene.settings.model_copy(update={"hooks": hooks})
        rehearsal = planned_mode.rehearse(scene.look(), APP)
        context = scene.context(rehearsal, "INC-7")
        said = []
        context = replace(context, hooks=replace(context.hooks, say=said.append, seconds=seconds))
        ended = planned_mode.execute(rehearsal, context if log is None else heard(context, log))
        return SimpleNamespace(scene=scene, rehearsal=rehearsal, ended=ended, said=said, context=context)

    return run


@pytest.mark.long
def test_a_hook_that_reads_nothing_and_leaves_something_running_holds_nobody_up(ran, hook):
    began = time.monotonic()
    done = ran(drain=hook("sleep 30 & exit 0"))
    assert (done.ended.operation.error, time.monotonic() - began < 20) == (None, True)


def test_a_hook_runs_when_the_steps_work_is_done_and_before_that_is_on_record(ran, hook, tmp_path):
    class Log(Killing):
        def changed(self, operation, step, state):
            if (step.name, state) == ("drain", StepState.DONE):
                assert (tmp_path / "ran").exists()
            super().changed(operation, step, state)

    done = ran(log=Log(1_000), drain=hook("touch {tmp}/ran"))
    assert (done.ended.operation.error, done.scene.drained != []) == (None, True)


def test_a_hook_that_takes_too_long_is_ended_with_all_that_it_started(ran, hook, tmp_path):
    slow = hook("sleep 60 & echo $! > {tmp}/pid; wait")
    done = ran(seconds=0.5, drain=slow)
    assert (done.ended.operation.error.exit_code, done.scene.target.groups.committed) == (4, {})
    pid = int((tmp_path / "pid").read_text())
    assert wait_for(lambda: not is_alive(pid))


def wait_for(seen, seconds=10.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not seen():
        time.sleep(0.05)
    return seen()


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_too_long_behind_the_point_of_no_return_is_seven(ran, hook):
    error = ran(seconds=0.5, hand_over=hook("sleep 60")).ended.operation.error
    assert (error.exit_code, error.remedy.startswith("make the hook return sooner")) == (7, True)
    assert error.remedy.endswith("--execute`: this runs the hook again, and then the steps after it")


def test_ctrl_c_before_the_point_of_no_return_ends_the_hook_and_the_operation(ran, hook, tmp_path):
    threading.Thread(target=lambda: interrupt_when(tmp_path / "pid")).start()
    done = ran(drain=hook("echo $$ > {tmp}/pid; sleep 60"))
    assert (done.ended.operation.error.exit_code, done.scene.target.groups.committed) == (130, {})
    assert wait_for(lambda: not is_alive(int((tmp_path / "pid").read_text())))


@pytest.mark.parametrize("is_running", [False, True])
def test_ctrl_c_while_the_hook_is_being_started_ends_it_as_well(ran, hook, monkeypatch, is_running):
    pids = []

    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)

    class InterruptedPopen(subprocess.Popen):
        def __init__(self, *args, **options):
            if not is_running:
                interrupt()
            super().__init__(*args, **options)
            pids.append(self.pid)
            if is_running:
                interrupt()

    monkeypatch.setattr(subprocess, "Popen", InterruptedPopen)
    done = ran(drain=hook("sleep 60"))
    assert done.ended.operation.error.exit_code == 130
    assert wait_for(lambda: pids and not is_alive(pids[0]))


@pytest.mark.long
def test_behind_it_the_hook_is_let_finish(ran, hook, tmp_path):
    threading.Thread(target=lambda: interrupt_when(tmp_path / "pid")).start()
    done = ran(hand_over=hook("echo $$ > {tmp}/pid; sleep 1; echo flipped"))
    assert (done.ended.operation.error, done.said) == (None, ["hook hand_over: flipped"])


def interrupt_when(path):
    wait_for(lambda: path.exists() and path.read_text().strip())
    os.kill(os.getpid(), signal.SIGINT)


def test_a_hook_that_is_not_executable_forbids_the_plan(tmp_path, hook):
    scene = Scene(tmp_path, f"mmtool.hook.hand_over = {hook('exit 0', mode=0o644)}\n")
    scene.has("orders", 10)
    scene.commits("app", "orders", 5)
    refusal = planned_mode.rehearse(scene.look(), APP).refusal
    assert (refusal.code, refusal.remedy[:8]) == ("hook_not_executable", "chmod +x")


def test_a_name_without_a_folder_is_looked_up_in_path(ran):
    assert ran(drain="true").ended.operation.error is None


def test_a_list_that_no_environment_takes_is_left_to_the_row(tmp_path):
    plan = planned_mode.rehearse(half_read(tmp_path).look(), APP).plan
    many = [f"group-{n:040}" for n in range(5_000)]
    assert [
        "MMTOOL_GROUPS" in environment_of(plan, plan.steps[0], names, ()) for names in (["app"], many)
    ] == [True, False]


def test_a_crash_between_a_hook_and_its_record_runs_it_again(hook, tmp_path):
    class Log(Killing):
        def _word(self):
            pass

        def changed(self, operation, step, state):
            if step.name == "report":  # hand_over is done, and that it is was never written down
                raise KilledError

    class Deaf(Journalist):
        def changed(self, operation, step, state):
            if (step.name, state) != ("hand_over", StepState.DONE):
                Journalist.changed(self, operation, step, state)

    scene = half_read(tmp_path)
    path = hook("echo once more >> {tmp}/times")
    scene.settings = scene.settings.model_copy(update={"hooks": {"hand_over": str(path)}})
    rehearsal = planned_mode.rehearse(scene.look(), APP)
    context = scene.context(rehearsal)
    deaf = Deaf(context.journal.port, context.journal.about)
    with pytest.raises(KilledError):
        planned_mode.execute(rehearsal, heard(replace(context, journal=deaf), Log(0)))
    (found,) = recorded(scene.journal.entries())
    context = scene.context(rehearsal, since=found)
    roll_forward(found, context)
    assert (tmp_path / "times").read_text().count("once more") == 2


@pytest.mark.parametrize(
    ("name", "meant"), [("handover", "did you mean hand_over?"), ("xyz", "these steps exist: ")]
)
def test_a_step_that_does_not_exist_is_a_problem_of_the_file(tmp_path, name, meant):
    with pytest.raises(UsageError, match=f"{name} is no step that a hook can follow") as refused:
        Scene(tmp_path, f"mmtool.hook.{name} = /bin/true\n")
    assert meant in refused.value.message
