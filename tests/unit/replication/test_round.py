"""A round ends when its job does; one whose pumps never come back is given up, and says so."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from mmtool.errors import MmtoolError
from mmtool.replication.driver import round as round_module
from mmtool.replication.driver.round import Round
from mmtool.replication.spark.assignment import TaskAssignment
from mmtool.replication.spark.log import GivenUpError, HungError, spark_is_gone

ROUND_SECONDS = 0.05
GIVEN_UP = "the workers did not stop in time; cancelling the Spark job"


class CancelledJobError(Exception):
    pass


class Job:
    """Spark, with a job of so many seconds; None is for ever."""

    def __init__(self, seconds):
        self._seconds, self._cancelled = seconds, threading.Event()

    def run(self, _tasks):
        if self._cancelled.wait(self._seconds):
            raise CancelledJobError
        return ["a row"]

    def cancel(self):
        self._cancelled.set()


class FrozenJob:
    """Spark, whose JVM answers nothing any more."""

    def __init__(self):
        self.thawed = threading.Event()

    def run(self, _tasks):
        self.thawed.wait()
        raise CancelledJobError

    def cancel(self):
        self.thawed.wait()


class Deaf:
    """A flow whose target refuses its words, or has no topic for them any more."""

    differs = has_slot_news = False
    worker_rate = None
    flow = SimpleNamespace(identity=SimpleNamespace(flow="east->west"))

    def may_go_on(self):
        return {}

    async def tell(self, *_):
        raise MmtoolError("topic mmtool-control.east.internal is missing on cluster west")


class Renewed(Deaf):
    """A flow whose password was changed since its tasks began."""

    old = SimpleNamespace(source="old password", target="b", throttle_bytes_per_second=None)
    new = SimpleNamespace(source="new password", target="b", throttle_bytes_per_second=None)
    flow = SimpleNamespace(identity=Deaf.flow.identity, settings=new)

    async def tell(self, *_):
        pass


def ran(job, *, lasts=600.0, replan=False, stop=False, silent=False, runs=()):
    """What a round gave, or failed with, and what it said."""
    said = []

    async def run():
        wanted = asyncio.Event()
        if replan:
            wanted.set()
        this = Round(
            number=1,
            runs=list(runs),
            spark=job,
            flows=SimpleNamespace(topics=SimpleNamespace(is_due=False), replan=wanted, say=said.append),
            must_stop=lambda: stop,
            show=lambda: None,
            again=SimpleNamespace(due=lambda *_: False),
            slots=SimpleNamespace(
                begin=lambda *_: None, end=lambda *_: None, ends_round=lambda _: silent, may_hang=silent
            ),
        )
        try:
            flows = [
                SimpleNamespace(identity=run.flow.identity, settings=run.old, bytes_per_second=None)
                for run in runs
                if isinstance(run, Renewed)
            ]
            return await this.run([TaskAssignment(0, lasts, 1 << 20, tuple(flows))])
        except GivenUpError as error:
            return error

    return asyncio.run(asyncio.wait_for(run(), 20)), said


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(round_module, "_TICK_SECONDS", 0.01)


def test_a_job_that_ends_is_left_to_its_end(monkeypatch):
    monkeypatch.setattr(round_module, "_HUNG_SECONDS", 5.0)
    assert ran(Job(0.3), lasts=ROUND_SECONDS) == (["a row"], [])


@pytest.mark.parametrize(
    ("limit", "how"),
    [
        ("_HUNG_SECONDS", {"lasts": ROUND_SECONDS}),
        ("_HUNG_SECONDS", {"replan": True}),
        ("_STOP_SECONDS", {"stop": True}),
        ("_STOP_SECONDS", {"silent": True}),
        ("_RENEWED_SECONDS", {"replan": True, "runs": [Renewed()]}),
    ],
    ids=["its time is up", "another plan", "it is to stop", "a task is silent", "an old password"],
)
def test_a_job_that_does_not_end_is_given_up(monkeypatch, limit, how):
    monkeypatch.setattr(round_module, limit, 0.2)
    outcome, said = ran(Job(None), **how)
    assert (type(outcome), type(outcome.__cause__)) == (GivenUpError, CancelledJobError)
    assert (said, spark_is_gone(outcome)) == ([GIVEN_UP], False)


@pytest.mark.parametrize(
    ("limit", "how"),
    [("_STOP_SECONDS", {"stop": True}), ("_HUNG_SECONDS", {"lasts": ROUND_SECONDS})],
    ids=["a stop", "the end of a round"],
)
def test_a_jvm_that_hangs_itself_holds_up_nothing_and_gets_no_other_round(monkeypatch, limit, how):
    monkeypatch.setattr(round_module, limit, 0.1)
    monkeypatch.setattr(round_module, "_CANCEL_SECONDS", 0.1)
    job = FrozenJob()
    try:
        outcome, said = ran(job, **how)
    finally:
        job.thawed.set()
    assert (type(outcome), said, spark_is_gone(outcome)) == (HungError, [GIVEN_UP], True)


@pytest.mark.parametrize("how", [{"stop": True}, {"replan": True}], ids=["stop", "replan"])
def test_a_word_that_the_target_does_not_take_is_said_once_and_ends_no_round(monkeypatch, how):
    """What became of the control topic is for its pumps to see, and for who takes the flow again to say."""
    monkeypatch.setattr(round_module, "_AGAIN_SECONDS", 0.01)
    outcome, said = ran(Job(0.3), runs=[Deaf()], **how)
    why = "topic mmtool-control.east.internal is missing on cluster west"
    assert outcome == ["a row"]
    assert [f"cannot be sent to its workers: {why}; mmtool keeps trying" in told for told in said] == [True]
