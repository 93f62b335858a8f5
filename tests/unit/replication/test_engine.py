"""What the driver says when Spark does not come up."""

from __future__ import annotations

import asyncio

import pytest

from mmtool.errors import MmtoolError
from mmtool.replication.engine import Engine
from mmtool.replication.run_options import RunOptions


def test_a_spark_that_dies_while_it_starts_is_told_in_one_line_with_the_remedy():
    async def scene():
        engine = Engine([], RunOptions(), asyncio.Event(), lambda _: None, lambda _: None)
        starting = asyncio.get_running_loop().create_future()
        starting.set_exception(ConnectionRefusedError(111, "Connection refused"))
        await engine._up(starting)

    with pytest.raises(MmtoolError, match=r"Spark did not start: .*Connection refused") as raised:
        asyncio.run(scene())
    assert "run the same command again" in str(raised.value.remedy)
