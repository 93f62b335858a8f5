"""Record the topics that an owner refuses to mirror, so that `status` and waiting operations can see why."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.plan.records.documents import RefusedRecord
from mmtool.replication.ownership.internal_topics import write_documents

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from mmtool.kafka.state.control_view import ControlView
    from mmtool.replication.driver.context import FlowContext


class Refusals:
    """The recorded refusals of a flow, kept up to date.

    Args:
        flow: Whose topics.
        owner: The owner that records them.
    """

    def __init__(self, flow: FlowContext, owner: str) -> None:
        self._flow = flow
        self._owner = owner
        self._told: dict[bytes, RefusedRecord] = {}

    def start(self, control: ControlView) -> None:
        """Take over the refusals that earlier owners recorded; the next `tell` removes those that have ended."""
        self._told = dict(control.refusals)

    async def tell(self, reasons: Mapping[str, str], gone: Container[str] = ()) -> None:
        """Record the topics that are refused now, and remove the others; writes nothing if nothing has changed.

        Mirroring does not wait for it: what the target does not take now is written at the next refresh.

        Args:
            reasons: The reason for each refused topic.
            gone: Topics that the source no longer has.
        """
        words = {
            word.key: word
            for topic, why in reasons.items()
            for word in [RefusedRecord(self._owner, topic, why, topic in gone)]
        }
        news = [word for key, word in words.items() if self._told.get(key) != word]
        over = self._told.keys() - words.keys()
        if news or over:
            with suppress(MmtoolError, ConnectionLostError):
                await write_documents(
                    self._flow, self._flow.identity.control_topic, news, tombstones=sorted(over)
                )
                self._told = words
