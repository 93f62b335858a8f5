"""A command that owns a flow for a moment lets it go, and says what comes first where it could not have it."""

from __future__ import annotations

import asyncio

import pytest

from mmtool.errors import MmtoolError, OwnedElsewhereError, UnreachableError
from mmtool.kafka.wire.cluster import ConnectionLostError, UnreadableLogError
from mmtool.replication.flow_state.borrowed_flow import borrowed, joined
from mmtool.replication.pump.in_flight import FencedError, InDoubtError

STOP_FIRST = "stop the process that owns the flow"


@pytest.fixture
def ended():
    """What a command ends with whose work raises this, and how often it let the flow go."""

    def of(error):
        closed = []

        async def close():
            closed.append(1)

        async def work():
            raise error

        async def command():
            async with borrowed("a->b", close, "run it again"):
                await joined(work())

        with pytest.raises(MmtoolError) as caught:
            asyncio.run(command())
        return caught.value, len(closed)

    return of


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FencedError("newer epoch"), (10, "another process took ownership of flow a->b", STOP_FIRST)),
        (InDoubtError("no answer"), (9, "flow a->b: no answer", "run it again")),
        (ConnectionLostError("closed"), (9, "flow a->b: closed", "run it again")),
        (UnreadableLogError("batch 7"), (9, "flow a->b: batch 7", "make another replica the leader")),
        (OwnedElsewhereError("flow a->b is run by c", remedy="x"), (10, "flow a->b is run by c", STOP_FIRST)),
        (UnreachableError("cluster b is away", remedy="wait"), (9, "cluster b is away", "wait")),
    ],
    ids=["fenced", "in doubt", "cut off", "damaged log", "owned", "unreachable"],
)
def test_a_command_ends_with_what_comes_first_and_the_flow_is_let_go(ended, error, said):
    found, closed = ended(error)
    code, message, remedy = said
    assert (found.exit_code, closed) == (code, 1)
    assert found.message.startswith(message)
    assert found.remedy.startswith(remedy)


@pytest.mark.parametrize("error", [RuntimeError("cut off"), asyncio.CancelledError()])
def test_whatever_ends_the_work_the_flow_is_let_go(error):
    closed = []

    async def close():
        closed.append(1)

    async def command():
        async with borrowed("a->b", close, ""):
            raise error

    with pytest.raises(type(error)):
        asyncio.run(command())
    assert closed == [1]
