"""What every request of ours has in common, in the shape that aiokafka's connection sends.

aiokafka's own request classes stop at Fetch v11, Produce v8 and InitProducerId v0 and copy every record
field; ours read answers without copies and know topic ids (KIP-516). aiokafka's connection only needs
``prepare``, ``build_request_header``, ``encode``, ``parse_response_header`` and ``RESPONSE_TYPE.decode``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from mmtool.kafka.wire.codec import NO_TAGS, Cursor, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import BytesIO

A = TypeVar("A")


class UnsupportedByBrokerError(Exception):
    """The broker does not speak any version of a request that we can use."""


class WireRequest(ABC, Generic[A]):
    """One request and how its answer is read.

    Attributes:
        API_KEY: Kafka's number of the API.
        VERSIONS: The versions that we speak, ascending. The highest one that the broker shares is used.
        FLEXIBLE_FROM: The first version with compact types and tagged fields (KIP-482).
    """

    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[tuple[int, ...]]
    FLEXIBLE_FROM: ClassVar[int] = 1 << 15

    @abstractmethod
    def body(self, version: int) -> bytes:
        """The request without its header."""

    @abstractmethod
    def answer(self, version: int, cursor: Cursor) -> A:
        """Reads the answer behind its header."""

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> _Versioned[A]:
        """The request in the newest version that both sides know.

        Raises:
            UnsupportedByBrokerError: when they share none.
        """
        low, high = versions.get(self.API_KEY, (0, -1))
        for version in reversed(self.VERSIONS):
            if low <= version <= high:
                return _Versioned(self, version)
        raise UnsupportedByBrokerError(
            f"{type(self).__name__} is spoken in versions {self.VERSIONS}, the broker has {low} to {high}"
        )


@dataclass(slots=True)
class _Header:
    payload: bytes
    correlation_id: int = 0

    def encode(self) -> bytes:
        return self.payload


class _Versioned(Generic[A]):
    """A request in one version, as aiokafka's connection wants it."""

    __slots__ = ("_request", "_version")

    def __init__(self, request: WireRequest[A], version: int) -> None:
        self._request = request
        self._version = version

    @property
    def _flexible(self) -> bool:
        return self._version >= self._request.FLEXIBLE_FROM

    def build_request_header(self, correlation_id: int, client_id: str) -> _Header:
        head = int16(self._request.API_KEY) + int16(self._version) + int32(correlation_id) + string(client_id)
        return _Header(head + NO_TAGS if self._flexible else head)

    def encode(self) -> bytes:
        return self._request.body(self._version)

    def parse_response_header(self, buffer: BytesIO) -> _Header:
        correlation_id = int.from_bytes(buffer.read(4), "big", signed=True)
        if self._flexible:
            buffer.read(1)  # no broker sends tags in a response header
        return _Header(b"", correlation_id)

    @property
    def RESPONSE_TYPE(self) -> _Versioned[A]:  # noqa: N802  aiokafka's name
        return self

    def decode(self, buffer: BytesIO) -> A:
        # getvalue() shares the bytes that the socket filled (getbuffer() would copy them first)
        return self._request.answer(self._version, Cursor(memoryview(buffer.getvalue())[buffer.tell() :]))

    def __repr__(self) -> str:
        return f"{type(self._request).__name__} v{self._version}"
