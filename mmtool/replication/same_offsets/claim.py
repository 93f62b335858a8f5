"""The producer ids of mirrors with the source's own offsets: asked for once, and used by every owner of the flow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.kafka.state.state_log import read_control
from mmtool.kafka.wire.cluster import retrying
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.transactions import InitProducerIdRequest
from mmtool.plan.records.documents import OffsetWritersRecord
from mmtool.replication.ownership.internal_topics import write_documents
from mmtool.runtime.threads import in_thread

if TYPE_CHECKING:
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.replication.driver.context import FlowContext


async def offset_writers(flow: FlowContext) -> OffsetWritersRecord | None:
    """The flow's ids, taken at its first claim; None for a flow that translates offsets. Call it behind that claim.

    Raises:
        UnreachableError, NotAuthorisedError, RefusedError: The target does not answer, or denies a part.
    """
    if flow.settings.offsets != "same":
        return None
    control = await in_thread(read_control, flow.settings.target, flow.identity)
    if control.offset_writers is not None:
        return control.offset_writers
    record = OffsetWritersRecord(await _new_id(flow.target), await _new_id(flow.target))
    await write_documents(flow, flow.identity.control_topic, [record])
    return record


async def _new_id(cluster: WireCluster) -> int:
    async def attempt() -> tuple[int, int]:
        answer = await cluster.ask_any(InitProducerIdRequest(None, 0))
        cluster.check_denied(answer.error_code, "IDEMPOTENT_WRITE on the cluster")
        return answer.error_code, answer.producer_id

    code, found = await retrying(attempt, what="asking for a producer id", alias=cluster.alias)
    assert code == Code.NONE, code
    return int(found)
