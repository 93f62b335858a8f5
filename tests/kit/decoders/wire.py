"""Responses of brokers: of every request, of the listeners' examination, and the frames that they come in."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import mmtool.kafka.wire
from kit.decoders.answers import Composer, answers, read_answer, requests
from kit.decoders.table import Decoder
from mmtool.kafka.wire import api_versions
from mmtool.kafka.wire.codec import UnreadableResponseError, int32
from mmtool.kafka.wire.connection import Connection
from mmtool.kafka.wire.metadata import MetadataRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mmtool.kafka.wire.codec import Cursor

_SHARED = (
    "mmtool.kafka.wire.codec", "mmtool.kafka.wire.request", "mmtool.kafka.wire.acls", "mmtool.kafka.wire.schema",
)  # fmt: skip


def rows() -> Iterator[Decoder]:
    for module in pkgutil.iter_modules(mmtool.kafka.wire.__path__):
        importlib.import_module(f"mmtool.kafka.wire.{module.name}")
    for kind in requests():
        yield Decoder(
            f"response to {kind.__name__}",
            (kind.__module__, *_SHARED),
            partial(answers, kind),
            partial(read_answer, kind),
            (UnreadableResponseError,),
        )
    yield Decoder(
        "ApiVersions",
        ("mmtool.kafka.wire.api_versions", "mmtool.kafka.admin.listeners"),
        _first_answers,
        _read_first,
        (UnreadableResponseError,),
    )
    yield Decoder("frames of a connection", ("mmtool.kafka.wire.connection",), _frames, _read_frames)


def _first_answers() -> Iterator[bytes]:
    reads: tuple[Callable[[Cursor], object], ...] = (
        partial(api_versions._apis, with_features=True),
        partial(api_versions._apis, with_features=False),
    )
    for which, read in enumerate(reads):
        for seed in range(4):
            composer = Composer(seed, is_flexible=which == 0)
            read(composer)
            yield bytes((which,)) + bytes(composer.written)


def _read_first(data: bytes) -> None:
    which, frame = (data[0] if data else 0) % 2, data[1:]
    api_versions.read_api_versions(frame, with_features=which == 0)


def _frames() -> Iterator[bytes]:
    for answer in answers(MetadataRequest):
        if answer[0] == MetadataRequest.VERSIONS[-1]:
            frame = int32(1) + b"\x00" + answer[1:]
            yield int32(len(frame)) + frame


def _read_frames(data: bytes) -> None:
    """Every request ends: answered, or with ConnectionError; the transport is closed after nonsense."""
    asyncio.run(_answered(data))


async def _answered(data: bytes) -> None:
    transport: Any = SimpleNamespace(closed=False, write=len, set_protocol=id)
    transport.close = partial(setattr, transport, "closed", True)
    transport.set_write_buffer_limits = dict
    opened = SimpleNamespace(
        _versions={MetadataRequest.API_KEY: (0, 99)},
        _writer=SimpleNamespace(transport=transport),
        _reader=None,
        _read_task=SimpleNamespace(cancel=int),
    )
    connection = Connection(opened, "me", 5.0)
    asked = asyncio.gather(*(connection.send(MetadataRequest(())) for _ in range(2)), return_exceptions=True)
    await asyncio.sleep(0)
    at = 0
    while at < len(data) and connection.connected():
        room = connection.get_buffer(-1)
        count = min(len(room), len(data) - at)
        room[:count] = data[at : at + count]
        connection.buffer_updated(count)
        at += count
    connection.close()
    for ended in await asked:
        assert not isinstance(ended, BaseException) or isinstance(ended, ConnectionError)
