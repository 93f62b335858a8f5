"""Threads that are asked to end."""

from __future__ import annotations

import threading
import time

from mmtool.lab.load import Worker, end_together


def test_all_are_asked_before_any_is_waited_for():
    asked = threading.Barrier(3)

    def body(worker):
        worker().stopping.wait(5)
        asked.wait(5)  # only when the others have been asked too

    workers = [Worker(f"w{i}", lambda i=i: body(lambda: workers[i])) for i in range(3)]
    for worker in workers:
        worker.start()
    end_together(workers)
    assert [worker.ended(0) for worker in workers] == [True] * 3
    for worker in workers:
        worker.check()


def test_clients_have_closed_when_it_returns_however_they_ended():
    closed = []

    def fails():
        try:
            worker.stopping.wait(5)
            time.sleep(0.1)
            raise OSError("gone")
        finally:
            closed.append("client")

    worker = Worker("failing", fails).start()
    end_together([worker])
    assert closed == ["client"]


def test_one_that_never_began_is_not_waited_for():
    end_together([Worker("never", lambda: None)])


def test_one_that_does_not_end_is_left_behind_in_time():
    release = threading.Event()
    workers = [Worker(f"stuck-{i}", release.wait).start() for i in range(2)]
    began = time.monotonic()
    end_together(workers, seconds=0.2)
    assert 0.2 <= time.monotonic() - began < 2
    release.set()
