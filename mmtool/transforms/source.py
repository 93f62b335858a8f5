"""A source's records as a flow mirrors them, for what compares them with the records of its mirrors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from mmtool.errors import RefusedError
from mmtool.plan.topics.facts import HaltReason
from mmtool.transforms.process import Transformed, TransformProcess
from mmtool.transforms.shipment import Shipment

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.config import FlowSettings
    from mmtool.kafka.batches import BatchView
    from mmtool.plan.flow.transforms import TransformSpec
    from mmtool.translation.types import TopicPartition


NO_TRANSFORM = "no transform"
"""The version of records that were copied as they are, in sentences."""


class UnmadeError(RefusedError):
    """What was mirrored of a record is not known now; ``reason`` says why, and what can be done."""

    code = "transform_failed"

    def __init__(self, reason: HaltReason) -> None:
        super().__init__(reason.cause, remedy=reason.cure)
        self.reason = reason


class OtherVersionError(UnmadeError):
    """The records were mirrored by another ``version`` of the transform."""

    def __init__(self, version: str, now: str) -> None:
        super().__init__(
            HaltReason(
                f"the records were mirrored by {version or NO_TRANSFORM}, and the flow has {now or NO_TRANSFORM} now",
                f"set the transform, its code and its settings as they were for {version or NO_TRANSFORM}, start"
                " `mmtool replicate`, stop it, and change them then",
            )
        )
        self.version = version


class SourceTransforms:
    """The transforms of a flow's topics, each in the version that the flow has now.

    Args:
        of: What is done to the records of a source topic; None where they are copied as they are.
    """

    def __init__(self, of: Callable[[str], TransformSpec | None]) -> None:
        self._of = of
        self._process = TransformProcess()
        self._specs: dict[str, TransformSpec | None] = {}

    @classmethod
    def of(cls, settings: FlowSettings) -> Self:
        """Those of a flow; the code of its function is read at once."""
        return cls(Shipment(settings).of)

    def spec(self, topic: str) -> TransformSpec | None:
        """What is done to the records of a source topic; None where they are copied as they are."""
        if topic not in self._specs:
            self._specs[topic] = self._of(topic)
        return self._specs[topic]

    def version(self, topic: str) -> str:
        """The version of a topic's transform; empty without one."""
        spec = self.spec(topic)
        return "" if spec is None else spec.version

    def check(self, topic: str, version: str) -> None:
        """Check that the flow has this version of a topic's transform now, or one that covers it.

        Raises:
            OtherVersionError: It has another one.
        """
        spec = self.spec(topic)
        if version if spec is None else not spec.makes(version):
            raise OtherVersionError(version, self.version(topic))

    async def tried(
        self, place: TopicPartition, view: BatchView, offsets: range, version: str
    ) -> Transformed:
        """What is mirrored of a batch of the source, up to the first record that the function does not take.

        Args:
            place: The partition.
            view: The batch.
            offsets: Of the records that count: the function does not see others.
            version: By which version of the topic's transform they were mirrored; empty without one.

        Raises:
            OtherVersionError: The flow has another version.
        """
        if not version:
            return Transformed([view])
        self.check(place.topic, version)
        spec = self.spec(place.topic)
        assert spec is not None
        return await self._process.apply(spec, place, [view], offsets.start, offsets.stop)

    async def made(self, place: TopicPartition, view: BatchView, offsets: range, version: str) -> BatchView:
        """As `tried`, of the whole batch.

        Raises:
            OtherVersionError: The flow has another version.
            UnmadeError: The function does not take a record.
        """
        found = await self.tried(place, view, offsets, version)
        if found.failed is not None:
            raise UnmadeError(found.failed)
        return found.views[0]

    async def close(self) -> None:
        """End the process of the function."""
        await self._process.close()
