"""A connection whose broker answers what cannot be read: nobody waits for an answer that will not come."""

from __future__ import annotations

import asyncio
import struct
import time
from types import SimpleNamespace

import pytest

from kit.resident import resident_growth
from mmtool.kafka.wire.connection import Connection
from mmtool.kafka.wire.metadata import MetadataRequest

VERSIONS = {MetadataRequest.API_KEY: (7, 7)}
SECONDS = 5.0


class Socket:
    """A transport that answers the first request with these bytes, behind a correlation id."""

    def __init__(self, number, body):
        self.answer = struct.pack(">i", number) + body

    def set_protocol(self, protocol):
        self.protocol = protocol

    def set_write_buffer_limits(self, **_limits):
        pass

    def write(self, _data):
        if self.answer:
            framed, self.answer = struct.pack(">i", len(self.answer)) + self.answer, b""
            self.protocol.get_buffer(-1)[: len(framed)] = framed
            asyncio.get_running_loop().call_soon(self.protocol.buffer_updated, len(framed))

    def close(self):
        pass


def connected(socket):
    stream = SimpleNamespace(transport=socket)
    task = SimpleNamespace(cancel=lambda: None)
    opened = SimpleNamespace(_versions=VERSIONS, _writer=stream, _reader=None, _read_task=task)
    return Connection(opened, "me", SECONDS, clock=time.monotonic)


@pytest.mark.parametrize(("number", "body"), [(1, b""), (7, b""), (1, b"\x00" * 7)])
def test_an_answer_that_cannot_be_read_fails_its_own_request_at_once_as_well(number, body):
    """It is cut, or is of another request; the next request is of the same connection."""

    async def scene():
        connection = connected(Socket(number, body))
        asked = (connection.send(MetadataRequest(())) for _ in range(2))
        return await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), SECONDS / 2)

    assert [type(ended) for ended in asyncio.run(scene())] == [ConnectionError] * 2


def test_a_response_that_claims_a_gigabyte_takes_no_memory_before_it_comes():
    connection = connected(Socket(1, b""))
    with resident_growth() as growth:
        connection.get_buffer(-1)[:8] = struct.pack(">ii", 1 << 30, 1)
        connection.buffer_updated(8)
    assert growth.most < 8 << 20
    assert len(connection.get_buffer(-1)) == (1 << 30) - 4
