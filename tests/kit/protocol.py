"""Kafka's protocol in hex digits, as its guide can be copied into a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from mmtool.kafka.wire.codec import Cursor

if TYPE_CHECKING:
    from mmtool.kafka.wire.request import WireRequest

A = TypeVar("A")


def raw(*parts: str) -> bytes:
    """Hex digits, spaces allowed, to bytes."""
    return bytes.fromhex("".join(parts))


def read(request: WireRequest[A], version: int, *parts: str) -> tuple[A, int]:
    """What a request makes of an answer, and how many bytes of it were left over."""
    data = raw(*parts)
    cursor = Cursor(data, is_flexible=version >= request.FLEXIBLE_FROM)
    answer = request.answer(version, cursor)
    return answer, len(data) - cursor._at
