"""Blocking work of an event loop that must not hold up its end."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from mmtool.threads import in_thread


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
