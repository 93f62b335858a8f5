"""Blocking work of an event loop that must not hold up its end."""

import asyncio
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from mmtool.config.live import Chosen, LiveFile
from mmtool.replication.driver import engine
from mmtool.replication.driver.supervisor import RunOptions
from mmtool.runtime.threads import Once, in_thread, run_loop, within


def test_what_work_returns_or_raises_comes_back():
    def fails():
        raise OSError("no route")

    assert asyncio.run(in_thread(max, 1, 2)) == 2
    with pytest.raises(OSError, match="no route"):
        asyncio.run(in_thread(fails))


def test_the_end_of_a_loop_does_not_wait_for_work_that_was_given_up():
    release = threading.Event()

    async def gives_up():
        work = asyncio.create_task(in_thread(release.wait, 30))
        await asyncio.sleep(0.05)
        work.cancel()

    began = time.monotonic()
    asyncio.run(gives_up())
    release.set()
    assert time.monotonic() - began < 5


_HANGING = """
import socket, time
from mmtool.config import ClusterSettings
from mmtool.errors import UnreachableError
from mmtool.kafka.clients import wire_cluster
from mmtool.kafka.wire.blocking_client import BlockingWireClient
socket.getaddrinfo = lambda *_, **__: time.sleep(20)
wire = BlockingWireClient(wire_cluster(ClusterSettings(alias="a", bootstrap_servers="a.example:1")), 0.2)
try:
    wire.ask(lambda cluster: cluster.refresh(()), "asking")
except UnreachableError as error:
    print(error)
"""


def test_a_name_that_nobody_resolves_does_not_hold_up_a_command_s_end():
    began = time.monotonic()
    ran = subprocess.run([sys.executable, "-c", _HANGING], capture_output=True, text=True, check=True)
    assert ran.stdout == "cluster a: asking failed: no answer within 0.2 s\n"
    assert time.monotonic() - began < 15


@pytest.fixture
def resolver(monkeypatch):
    """One that answers of no name but one."""
    release = threading.Event()

    def look_up(host, *_, **__):
        if host != "known.example":
            release.wait(30)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield
    release.set()


def test_a_name_that_nobody_resolves_does_not_hold_up_a_stop(resolver, monkeypatch):
    class Engine:
        def __init__(self, flows, tick):
            pass

        async def run(self):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await asyncio.get_running_loop().getaddrinfo("hangs.example", 1)

    monkeypatch.setattr(engine, "Engine", Engine)
    monkeypatch.setattr(engine, "java_binary", lambda: None)
    file = LiveFile(Path("mm2.properties"), lambda: Chosen(()))
    began = time.monotonic()
    outcome = engine.replicate(file, RunOptions(), show=print, say=print, warn=print)
    assert (outcome.error, time.monotonic() - began < 10) == (None, True)


def test_names_that_nobody_resolves_keep_no_other_one_waiting(resolver):
    async def look_up():
        loop = asyncio.get_running_loop()
        hanging = [asyncio.create_task(loop.getaddrinfo("hangs.example", n)) for n in range(100)]
        await asyncio.sleep(0.05)
        found = await within(10, loop.getaddrinfo("known.example", 1))
        for task in hanging:
            task.cancel()
        return found

    assert run_loop(look_up()) == []


def test_work_that_several_threads_want_is_done_once_and_its_failure_is_told_to_each():
    done, begun = [], threading.Barrier(3)

    def work():
        done.append(1)
        time.sleep(0.05)
        raise OSError("no route")

    once, said = Once(work), []

    def ask():
        begun.wait()
        with suppress(OSError):
            once()
        said.append(1)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(done), len(said)) == (1, 3)
    with pytest.raises(OSError, match="no route"):
        once()
