"""The base class of the batch wire's requests.

aiokafka's own request classes stop at Fetch v11, Produce v8 and InitProducerId v0 and copy every record
field; these read answers without copies and support topic ids (KIP-516).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from mmtool.kafka.wire.codec import NO_TAGS, Cursor, int16, int32, read_whole, string

if TYPE_CHECKING:
    from collections.abc import Mapping

A = TypeVar("A")


class UnsupportedByBrokerError(Exception):
    """The broker supports no version of a request that mmtool can use."""


class WireRequest(ABC, Generic[A]):
    """One request, and the decoder of its answer.

    Attributes:
        API_KEY: Kafka's number of the API.
        VERSIONS: The supported versions, ascending. The highest one that the broker shares is used.
        FLEXIBLE_FROM: The first version with compact types and tagged fields (KIP-482).
    """

    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[tuple[int, ...]]
    FLEXIBLE_FROM: ClassVar[int] = 1 << 15

    @abstractmethod
    def body(self, version: int) -> bytes:
        """Encode the request without its header."""

    def pieces(self, version: int) -> list[bytes | bytearray]:
        """Encode the request without its header, in pieces where joining them would copy megabytes."""
        return [self.body(version)]

    @abstractmethod
    def answer(self, version: int, cursor: Cursor) -> A:
        """Decode the response after its header."""

    def usable(self) -> tuple[int, ...]:
        """The versions, of `VERSIONS` and ascending, that can express this request."""
        return self.VERSIONS

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> Prepared[A]:
        """Prepare the request in the newest version that mmtool and the broker share.

        Raises:
            UnsupportedByBrokerError: when they share no version.
        """
        low, high = versions.get(self.API_KEY, (0, -1))
        for version in reversed(self.usable()):
            if low <= version <= high:
                return Prepared(self, version)
        supported = f"{low} to {high}" if low <= high else "none"
        raise UnsupportedByBrokerError(
            f"{type(self).__name__}: mmtool uses versions {self.VERSIONS}, the broker supports {supported}"
        )


class Prepared(Generic[A]):
    """A request in one version."""

    __slots__ = ("_request", "_version")

    def __init__(self, request: WireRequest[A], version: int) -> None:
        self._request = request
        self._version = version

    @property
    def _flexible(self) -> bool:
        return self._version >= self._request.FLEXIBLE_FROM

    def pieces(self, correlation_id: int, client_id: str) -> list[bytes | bytearray]:
        head = int16(self._request.API_KEY) + int16(self._version) + int32(correlation_id) + string(client_id)
        return [head + NO_TAGS if self._flexible else head, *self._request.pieces(self._version)]

    def read(self, frame: memoryview) -> A:
        """Decode a response with its header, in which no broker sends tags.

        Raises:
            UnreadableResponseError: the response breaks the protocol.
        """
        cursor = Cursor(frame[5 if self._flexible else 4 :])
        return read_whole(self, lambda: self._request.answer(self._version, cursor))

    def __repr__(self) -> str:
        return f"{type(self._request).__name__} v{self._version}"
