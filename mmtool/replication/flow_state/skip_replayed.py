"""Move a flow past the diverged records that a failback has replayed, as ``flow seek`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import OwnedElsewhereError, RefusedError
from mmtool.insight.partitions import partition_facts
from mmtool.plan.flow.moves import Action
from mmtool.plan.groups.offsets import Direction
from mmtool.plan.words import AGAIN
from mmtool.replication.flow_state.borrowed_flow import STOP_OWNER, owned, owner_now
from mmtool.replication.flow_state.flow_moves import execute, rehearse_seek

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mmtool.insight.flow_now import FlowNow
    from mmtool.translation.types import TopicPartition, UpstreamOffset


class FlowPassing:
    """The `PassingPort` that moves the flow.

    Args:
        say: Called with sentences for the operator.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def check(self, flow: FlowNow) -> None:
        if (owner := owner_now(flow)) is not None:
            raise owned(
                flow.identity.name,
                owner,
                "; no `mmtool replicate` may run this flow while --diverged replay makes it skip the diverged records",
            )

    def pass_over(self, flow: FlowNow, to: Mapping[TopicPartition, UpstreamOffset]) -> None:
        left = _left(flow, to)
        if not left:
            return
        found = rehearse_seek(flow.narrowed_to({place.topic for place in left}), left)
        if found.refusal is not None:
            raise found.refusal
        for move in found.moves.values():
            if move.action not in (Action.SKIP, Action.KEEP):
                raise RefusedError(
                    f"{move.facts.source}: the flow cannot skip the diverged records that were replayed: the log"
                    f" on {flow.identity.target_alias} does not match the stored state",
                    remedy=f"run `mmtool flow rebuild {flow.identity.options} --topic {move.facts.source.topic}"
                    f" --execute`, then {AGAIN}",
                    code="ambiguous",
                )
        try:
            execute(found, self._say, is_held=True, again=AGAIN)
        except OwnedElsewhereError as error:
            raise OwnedElsewhereError(error.message, remedy=f"{STOP_OWNER}, then {AGAIN}") from error


def _left(flow: FlowNow, to: Mapping[TopicPartition, UpstreamOffset]) -> dict[TopicPartition, UpstreamOffset]:
    """The offsets that the flow has not passed yet, by its stored state now.

    No record is mirrored a second time.
    """
    topics = {place.topic for place in to}
    partitions = partition_facts(flow, Direction.FORWARD, topics=topics, complete=True)
    known = {facts.source: facts.map for facts in partitions.values()}
    return {
        place: offset
        for place, offset in to.items()
        if (found := known.get(place)) is None or found.upstream_frontier < offset
    }
