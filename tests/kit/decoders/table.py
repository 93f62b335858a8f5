"""The table of decoders: each with valid samples, a call, and the only errors that may come of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Samples = Callable[[], Iterable[bytes]]


@dataclass(frozen=True)
class Decoder:
    """One decoder of bytes that others wrote.

    Attributes:
        name: For people.
        modules: The modules whose reading it tries.
        make: Makes valid encodings.
        read: Decodes bytes, and uses what came out as far as reading it goes.
        errors: What ``read`` may raise; nothing else.
        seal: Makes checksums fit again that damage broke, so that what lies behind them is tried as well.
        is_slow: A case takes milliseconds, as where numbers of cryptography are computed.
        seconds_per_byte: What a byte may take, measured generously: with all memory traced, and other work beside.
    """

    name: str
    modules: tuple[str, ...]
    make: Samples
    read: Callable[[bytes], Any]
    errors: tuple[type[Exception], ...] = ()
    seal: Callable[[bytes], bytes] = bytes
    is_slow: bool = False
    seconds_per_byte: float = 50e-6

    @cached_property
    def samples(self) -> list[bytes]:
        return list(self.make())


def packed(*parts: bytes) -> bytes:
    """Some fields as one, each but the last behind its length in two bytes."""
    *firsts, last = parts
    return b"".join(len(part).to_bytes(2) + part for part in firsts) + last


def parts(data: bytes, count: int = 2) -> list[bytes]:
    """The fields of `packed`, whatever happened to them."""
    found = []
    for _ in range(count - 1):
        length = int.from_bytes(data[:2])
        found.append(data[2 : 2 + length])
        data = data[2 + length :]
    return [*found, data]
