"""The base class of the batch wire's requests, and ApiVersions (18): which versions of them a broker supports.

aiokafka's own request classes stop at Fetch v11, Produce v8 and InitProducerId v0 and copy every record
field; these read answers without copies and support topic ids (KIP-516).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, dataclass_transform

from mmtool.errors import RefusedError
from mmtool.kafka.errors import TOO_OLD
from mmtool.kafka.wire.codec import NO_TAGS, Cursor, compact_string, int16, int32, read_whole, string
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.schema import FieldType, Form, Read, Write

A = TypeVar("A")

_SINCE = {47: "2.4", 60: "2.8", 61: "2.8", 65: "3.0", 66: "3.0", 90: "4.2", 91: "4.2", 92: "4.2"}
"""The Kafka release of APIs that older brokers lack although mmtool supports these brokers."""


class UnsupportedByBrokerError(RefusedError):
    """A broker of a cluster supports no version of a request that mmtool can use."""


class NoCommonVersionError(Exception):
    """mmtool and the broker of a connection share no version of a request.

    Args:
        request: The class of the request.
        usable: The versions that mmtool can use, ascending.
        offered: Lowest and highest version of the broker; None where it does not have the API.
    """

    def __init__(
        self, request: type[WireRequest[Any]], usable: tuple[int, ...], offered: tuple[int, int] | None
    ) -> None:
        name = request.API
        self._api = request.API_KEY
        self._is_too_new = offered is not None and offered[1] > usable[0]
        if offered is None:
            why = f"it does not have the {name} API, which mmtool needs"
        elif self._is_too_new:
            uses = ", ".join(map(str, usable))
            why = f"its {name} API has versions {offered[0]} to {offered[1]}, mmtool uses {uses}"
        else:
            why = f"its {name} API goes up to version {offered[1]}, mmtool needs {usable[0]} or later"
        super().__init__(why)

    def of(self, alias: str) -> UnsupportedByBrokerError:
        """The error of the cluster that the broker belongs to."""
        age, remedy = "old", TOO_OLD.format(alias=alias)
        if self._is_too_new:
            age, remedy = "new", "upgrade mmtool"
        elif self._api in _SINCE:
            remedy = f"upgrade the brokers of {alias} to Kafka {_SINCE[self._api]} or later"
        return UnsupportedByBrokerError(f"a broker of {alias} is too {age}: {self}", remedy=remedy)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class WireRequest(Generic[A]):
    """One request, and the decoder of its answer. A class that names its ``api`` is a frozen dataclass.

    Attributes:
        API: Kafka's name of the API: that of the class without "Request", where it gives no other ``name``.
        API_KEY: Kafka's number of the API.
        VERSIONS: The supported versions, ascending. The highest one that the broker shares is used.
        FLEXIBLE_FROM: The first version with compact types and tagged fields (KIP-482).
        BODY: The schema of the request without its header: a row of the dataclass's fields.
        ANSWER: The schema of the response after its header.
    """

    API: ClassVar[str]
    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[tuple[int, ...]]
    FLEXIBLE_FROM: ClassVar[int] = 1 << 15
    BODY: ClassVar[FieldType]
    ANSWER: ClassVar[FieldType]

    def __init_subclass__(
        cls,
        api: int | None = None,
        versions: tuple[int, ...] = (),
        flexible: int = FLEXIBLE_FROM,
        name: str = "",
    ) -> None:
        cls.API = name or cls.__name__.removesuffix("Request")
        if api is not None:
            cls.API_KEY, cls.VERSIONS, cls.FLEXIBLE_FROM = api, versions, flexible
            dataclass(frozen=True)(cls)

    def body(self, version: int) -> bytes:
        """Encode the request without its header."""
        return self._schemas(version)[0](vars(self))

    @classmethod
    @cache
    def _schemas(cls, version: int) -> tuple[Write, Read]:
        form = Form(version, version >= cls.FLEXIBLE_FROM)
        return cls.BODY.writer(form), cls.ANSWER.reader(form)

    def pieces(self, version: int) -> list[bytes | bytearray]:
        """Encode the request without its header, in pieces where joining them would copy megabytes."""
        return [self.body(version)]

    def answer(self, version: int, cursor: Cursor) -> A:
        """Decode the response after its header."""
        answer: A = self._schemas(version)[1](cursor)
        return answer

    def usable(self) -> tuple[int, ...]:
        """The versions, of `VERSIONS` and ascending, that can express this request."""
        return self.VERSIONS

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> Prepared[A]:
        """Prepare the request in the newest version that mmtool and the broker share.

        Raises:
            NoCommonVersionError: when they share no version.
        """
        offered = versions.get(self.API_KEY)
        low, high = offered or (0, -1)
        for version in reversed(self.usable()):
            if low <= version <= high:
                return Prepared(self, version)
        raise NoCommonVersionError(type(self), self.usable(), offered)


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
        cursor = Cursor(frame[5 if self._flexible else 4 :], is_flexible=self._flexible)
        return read_whole(self, lambda: self._request.answer(self._version, cursor))

    def __repr__(self) -> str:
        return f"{type(self._request).__name__} v{self._version}"


_API_VERSIONS = 18
_WITH_FEATURES = 3
_SUPPORTED_TAG = 0


class SpokenApis(NamedTuple):
    """The APIs and features that a broker supports.

    Attributes:
        versions: Lowest and highest version of each API, by Kafka's number.
        features: Highest level of each feature that its release knows (KIP-584), as ``metadata.version``; none from
            brokers before 2.7, and from those with ZooKeeper.
    """

    versions: Mapping[int, tuple[int, int]]
    features: Mapping[str, int]


def api_versions_frame(client_id: str, *, with_features: bool) -> bytes:
    """Encode an ApiVersions request with its size prefix, in version 3, or 0 for brokers before 2.4."""
    version = _WITH_FEATURES if with_features else 0
    head = int16(_API_VERSIONS) + int16(version) + int32(0) + string(client_id)
    software = NO_TAGS + compact_string("mmtool") + compact_string("0") + NO_TAGS
    frame = head + (software if with_features else b"")
    return int32(len(frame)) + frame


def read_api_versions(frame: bytes, *, with_features: bool) -> SpokenApis | None:
    """Decode an ApiVersions response without its size prefix; None where the broker does not support version 3.

    The header of this response has no tags in any version: the client does not know the broker's versions yet.

    Raises:
        UnreadableResponseError: the response breaks the protocol.
    """
    cursor = Cursor(frame, is_flexible=with_features)
    return read_whole("ApiVersions", lambda: _apis(cursor, with_features=with_features))


def _apis(cursor: Cursor, *, with_features: bool) -> SpokenApis | None:
    cursor.int32()  # correlation id
    if cursor.int16() == Code.UNSUPPORTED_VERSION:
        return None
    versions = dict(cursor.array(lambda: _range(cursor)))
    if not with_features:
        return SpokenApis(versions, {})
    cursor.int32()  # throttle
    features = cursor.tags().get(_SUPPORTED_TAG)
    return SpokenApis(versions, {} if features is None else dict(features.array(lambda: _feature(features))))


def _range(cursor: Cursor) -> tuple[int, tuple[int, int]]:
    api, lowest, highest = cursor.int16(), cursor.int16(), cursor.int16()
    cursor.tags()
    return api, (lowest, highest)


def _feature(cursor: Cursor) -> tuple[str, int]:
    name, _lowest, highest = cursor.string() or "", cursor.int16(), cursor.int16()
    cursor.tags()
    return name, highest
