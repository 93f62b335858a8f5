"""Whether a topic or a leader is missing, or only not known yet; and whether a topic is still the mirrored one."""

from __future__ import annotations

import asyncio
import time
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

from mmtool.kafka.wire.codes import Code
from mmtool.plan.topics.facts import HaltReason, forget_deleted, source_made_again

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.kafka.wire.metadata import TopicMetadata
    from mmtool.translation.types import TopicId


K = TypeVar("K")
T = TypeVar("T")

_LOOK_SECONDS = 0.2


class AbsenceCheck(Generic[K]):
    """Repeats the request while a topic or leader is newly missing; one that was missing before causes no wait.

    Attributes:
        missing: What was missing at the last check.
        is_first: Whether no check was made before.
    """

    def __init__(self) -> None:
        self.missing: frozenset[K] = frozenset()
        self.is_first = True

    async def of(self, look: Callable[[], Awaitable[tuple[T, Collection[K]]]], seconds: float) -> T:
        """The result of ``look``, repeated while something is newly missing, for up to ``seconds``.

        Args:
            look: Returns a result, and what is missing in it.
            seconds: How long to repeat the request.
        """
        deadline = time.monotonic() + seconds
        while True:
            found, missing = await look()
            if self.missing.issuperset(missing) or time.monotonic() >= deadline:
                self.missing, self.is_first = frozenset(missing), False
                return found
            await asyncio.sleep(_LOOK_SECONDS)


_GONE_AFTER_SECONDS = 10.0  # a broker may not have heard of a young topic yet
_LOOK_AGAIN_SECONDS = 0.5


class Presence(Enum):
    """What a cluster's metadata says of a topic."""

    THERE = "is there"
    UNSEEN = "is not seen at the moment"
    DELETED = "was deleted"
    RECREATED = "was deleted and created again"

    @property
    def is_gone(self) -> bool:
        """Whether the mirrored topic no longer exists, so that waiting does not bring it back."""
        return self in (Presence.DELETED, Presence.RECREATED)


def source_gone(topic: str, presence: Presence, kept_in: str = "") -> HaltReason:
    """The sentence that a mirrored source topic is gone (`Presence.is_gone`), with what helps.

    Args:
        topic: Its name.
        presence: How it is gone.
        kept_in: The target topic whose records have the source's own offsets; empty where they are translated.
    """
    if presence is Presence.RECREATED:
        return source_made_again(topic, kept_in)
    return HaltReason(
        f"source topic {topic} was deleted, and its mirror on the target stays as it is",
        forget_deleted(topic),
    )


def presence_of(topic_id: TopicId, found: TopicMetadata | None) -> Presence:
    """The presence of the topic with ``topic_id`` (KIP-516), by the metadata ``found`` for its name.

    A topic that was known by its name because it had no id is the same topic after it gets one.
    """
    if found is None or found.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION:
        return Presence.DELETED
    if found.error_code != Code.NONE:
        return Presence.UNSEEN  # a right was taken away, or no leader was elected yet: it may still be there
    return Presence.THERE if topic_id in (found.topic_id, found.name) else Presence.RECREATED


class TopicWatch:
    """Remembers since when topics have been missing: one that a broker does not know is not at once deleted."""

    def __init__(self) -> None:
        self._missing_since: dict[str, float] = {}

    def presence(self, name: str, topic_id: TopicId, found: TopicMetadata | None) -> Presence:
        """The `presence_of` topic ``name``, but DELETED only after it has been missing for 10 seconds."""
        presence = presence_of(topic_id, found)
        if presence is not Presence.DELETED:
            if presence is not Presence.UNSEEN:
                self._missing_since.pop(name, None)
            return presence
        since = self._missing_since.setdefault(name, time.monotonic())
        return presence if time.monotonic() - since > _GONE_AFTER_SECONDS else Presence.UNSEEN


async def gone_for_good(
    cluster: WireCluster, topics: Collection[tuple[str, TopicId]]
) -> set[tuple[str, TopicId]]:
    """The topics that were deleted or recreated; waits up to 10 s while a broker does not know one of them.

    Args:
        cluster: The cluster on which they were.
        topics: The topics, by name and id.

    Raises:
        ConnectionLostError: no broker answers.
    """
    watch = TopicWatch()
    while topics:
        found = await cluster.refresh({name for name, _ in topics})
        gone = {(name, one) for name, one in topics if watch.presence(name, one, found.get(name)).is_gone}
        if all(at in gone or presence_of(at[1], found.get(at[0])) is not Presence.DELETED for at in topics):
            return gone
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)
    return set()
