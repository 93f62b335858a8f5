"""How long each step of a start took, told once."""

import os
import random

import psutil
import pytest

from mmtool.replication.driver.timeline import StartStep, Timeline
from mmtool.replication.spark.assignment import ReportRow, WorkerTimes
from mmtool.runtime.process import started_ms

ENDED = {step: 1000 * at for at, step in enumerate(StartStep, 1)}


def row(**times):
    nothing = (None,) * len(ReportRow._fields)
    return ReportRow(*nothing)._replace(times=WorkerTimes(**times))


def noted(tell, ended):
    timeline = Timeline(tell, began_ms=0)
    for step, at_ms in ended.items():
        timeline.note(step, at_ms)
    return timeline


def test_a_step_took_the_time_since_the_last_of_those_that_it_comes_after():
    shuffled = random.sample(sorted(ENDED.items()), len(ENDED))
    took = {row["step"]: (row["at_seconds"], row["seconds"]) for row in noted(print, dict(shuffled)).rows()}
    assert list(took) == list(StartStep)
    assert took[StartStep.LEASE] == (4.0, 1.0)
    assert took[StartStep.JVM] == (6.0, 3.0)  # beside lease and recovery
    assert took[StartStep.JOB] == (7.0, 1.0)  # after the JVM, the later one of both


def test_the_first_acknowledged_record_of_any_worker_ends_the_start_once():
    told = []
    timeline = noted(told.append, {StartStep.RECOVERY: 500, StartStep.JVM: 400})
    timeline.worked([row(began_ms=700), row(began_ms=600, fetched_ms=800)])
    assert told == []  # a round without a record
    for later in (900, 1900):
        timeline.worked([row(began_ms=later), row(began_ms=later, fetched_ms=later, answered_ms=later + 50)])
    timeline.close()
    ((*_, job, fetched, answered),) = told
    assert [job["at_seconds"], fetched["at_seconds"], answered["seconds"]] == [0.6, 0.8, 0.15]


def test_a_start_that_ends_early_is_told_as_far_as_it_came():
    told = []
    noted(told.append, {StartStep.PROCESS: 300, StartStep.CONFIGURATION: 350}).close()
    assert [(row["step"], row["seconds"]) for row in told[0]] == [("process", 0.3), ("configuration", 0.05)]


def test_the_system_tells_when_this_process_was_started():
    assert started_ms() / 1000 == pytest.approx(psutil.Process(os.getpid()).create_time(), abs=1.5)
