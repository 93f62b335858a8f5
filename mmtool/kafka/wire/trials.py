"""Requests that a broker always refuses, and whose error code shows whether a right is missing.

Brokers check rights first. The next check is made to fail, so that nothing is claimed, joined or written.
"""

from __future__ import annotations

from mmtool.kafka.wire.request import WireRequest
from mmtool.kafka.wire.schema import only, row
from mmtool.kafka.wire.transactions import InitProducerIdRequest

_NO_TIMEOUT_MS = 0


def claim_trial(transactional_id: str) -> InitProducerIdRequest:
    """An InitProducerId request with timeout 0, which brokers refuse; the error code shows WRITE on the id."""
    return InitProducerIdRequest(transactional_id, _NO_TIMEOUT_MS)


class HeartbeatTrial(WireRequest[int], api=12, versions=(1, 2), name="Heartbeat"):
    """A heartbeat (API 12) with a member id that no group has; its error code shows READ on the group."""

    group: str
    BODY = row("group:string _generation:int32=-1 _member:string=empty")
    ANSWER = row("_throttle:int32 error_code:int16", only)
