"""A source's records as a flow mirrors them, for what compares them with the records of its mirrors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from mmtool.errors import RefusedError
from mmtool.plan.topics.facts import HaltReason
from mmtool.transforms.process import TransformProcess
from mmtool.transforms.shipment import Shipment

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.config import FlowSettings
    from mmtool.kafka.batches import BatchView
    from mmtool.plan.flow.transforms import TransformSpec
    from mmtool.translation.types import TopicPartition


class UnmadeError(RefusedError):
    """What was mirrored of a record is not known now; ``reason`` says why, and what can be done."""

    code = "transform_failed"

    def __init__(self, reason: HaltReason) -> None:
        super().__init__(reason.cause, remedy=reason.cure)
        self.reason = reason


def _other_version(version: str, now: str) -> HaltReason:
    """Why records of one version of a transform are not compared by another."""
    return HaltReason(
        f"the records were mirrored by {version or 'no transform'}, and the flow has {now or 'no transform'} now",
        f"set the transform, its code and its settings as they were for {version or 'no transform'}, start `mmtool"
        " replicate`, stop it, and change them then",
    )


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
        """Check that the flow has this version of a topic's transform now.

        Raises:
            UnmadeError: It has another one.
        """
        if version != self.version(topic):
            raise UnmadeError(_other_version(version, self.version(topic)))

    async def made(self, place: TopicPartition, view: BatchView, start: int, version: str) -> BatchView:
        """What is mirrored of a batch of the source, from an offset on, by a version of the topic's transform.

        Raises:
            UnmadeError: The flow has another version, or the function does not take a record.
        """
        if not version:
            return view
        self.check(place.topic, version)
        spec = self.spec(place.topic)
        assert spec is not None
        found = await self._process.apply(spec, place, [view], start)
        if found.failed is not None:
            raise UnmadeError(found.failed)
        return found.views[0]

    async def close(self) -> None:
        """End the process of the function."""
        await self._process.close()
