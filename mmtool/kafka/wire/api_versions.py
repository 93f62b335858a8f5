"""The request that a broker answers before a login: ApiVersions (18)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmtool.kafka.wire.codec import NO_TAGS, Cursor, compact_string, int16, int32, read_whole, string
from mmtool.kafka.wire.codes import Code

if TYPE_CHECKING:
    from collections.abc import Mapping

_API_KEY = 18
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
    head = int16(_API_KEY) + int16(version) + int32(0) + string(client_id)
    software = NO_TAGS + compact_string("mmtool") + compact_string("0") + NO_TAGS
    frame = head + (software if with_features else b"")
    return int32(len(frame)) + frame


def read_api_versions(frame: bytes, *, with_features: bool) -> SpokenApis | None:
    """Decode an ApiVersions response without its size prefix; None where the broker does not support version 3.

    The header of this response has no tags in any version: the client does not know the broker's versions yet.

    Raises:
        UnreadableResponseError: the response breaks the protocol.
    """
    return read_whole("ApiVersions", lambda: _apis(Cursor(frame), with_features=with_features))


def _apis(cursor: Cursor, *, with_features: bool) -> SpokenApis | None:
    cursor.int32()  # correlation id
    if cursor.int16() == Code.UNSUPPORTED_VERSION:
        return None
    if not with_features:
        return SpokenApis(dict(cursor.array(lambda: _range(cursor))), {})
    versions = dict(cursor.compact_array(lambda: _tagged_range(cursor)))
    cursor.int32()  # throttle
    features = cursor.tagged().get(_SUPPORTED_TAG)
    if features is None:
        return SpokenApis(versions, {})
    return SpokenApis(versions, dict(features.compact_array(lambda: _feature(features))))


def _range(cursor: Cursor) -> tuple[int, tuple[int, int]]:
    return cursor.int16(), (cursor.int16(), cursor.int16())


def _tagged_range(cursor: Cursor) -> tuple[int, tuple[int, int]]:
    found = _range(cursor)
    cursor.tags()
    return found


def _feature(cursor: Cursor) -> tuple[str, int]:
    name, _lowest, highest = cursor.compact_string() or "", cursor.int16(), cursor.int16()
    cursor.tags()
    return name, highest
