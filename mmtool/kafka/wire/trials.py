"""Requests that a broker always refuses, and whose error code shows whether a right is missing.

Brokers check rights first. The next check is made to fail, so that nothing is claimed, joined or written.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmtool.kafka.wire.codec import Cursor, int32, string
from mmtool.kafka.wire.request import WireRequest
from mmtool.kafka.wire.transactions import InitProducerIdRequest

_NO_TIMEOUT_MS = 0
_NOBODY = ""


def claim_trial(transactional_id: str) -> InitProducerIdRequest:
    """An InitProducerId request with timeout 0, which brokers refuse; the error code shows WRITE on the id."""
    return InitProducerIdRequest(transactional_id, _NO_TIMEOUT_MS)


@dataclass(frozen=True, slots=True)
class HeartbeatTrial(WireRequest[int]):
    """A heartbeat (API 12) with a member id that no group has; its error code shows READ on the group."""

    API_KEY = 12
    VERSIONS = (1, 2)

    group: str

    def body(self, version: int) -> bytes:  # noqa: ARG002  both versions are alike
        return string(self.group) + int32(-1) + string(_NOBODY)

    def answer(self, version: int, cursor: Cursor) -> int:  # noqa: ARG002  both versions are alike
        cursor.int32()
        return cursor.int16()
