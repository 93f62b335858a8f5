"""What a broker supports, and what it permits: ApiVersions (18), and requests on trial that change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmtool.kafka.wire.codec import NO_TAGS, Cursor, compact_string, int16, int32, read_whole, string
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.request import WireRequest
from mmtool.kafka.wire.schema import only, row
from mmtool.kafka.wire.transactions import InitProducerIdRequest

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


_NO_TIMEOUT_MS = 0


def claim_trial(transactional_id: str) -> InitProducerIdRequest:
    """An InitProducerId request with timeout 0, which brokers refuse; the error code shows WRITE on the id."""
    return InitProducerIdRequest(transactional_id, _NO_TIMEOUT_MS)


class HeartbeatTrial(WireRequest[int], api=12, versions=(1, 2), name="Heartbeat"):
    """A heartbeat (API 12) with a member id that no group has; its error code shows READ on the group."""

    group: str
    BODY = row("group:string _generation:int32=-1 _member:string=empty")
    ANSWER = row("_throttle:int32 error_code:int16", only)
