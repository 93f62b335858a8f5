"""Send records too large for the target topic to its dead-letter topic, so that mirroring continues."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from mmtool.errors import MmtoolError, UnreachableError
from mmtool.kafka.logs.dead_letters import KafkaDeadLetters, Letter
from mmtool.runtime.threads import in_thread, to_its_end

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mmtool.replication.pump.mirror import PartitionMirror
    from mmtool.replication.spark.assignment import FlowAssignment

_PAUSE_SECONDS = 0.2


class LetterPort(Protocol):
    """The producer of dead-letter records."""

    def post(self, letter: Letter) -> None:
        """Write a dead letter to all in-sync replicas of its topic, unless it is there already.

        Raises:
            UnreachableError: The target does not answer; the caller retries.
            MmtoolError: The target refuses the record.
        """


class DeadLetters:
    """Writes the dead letters of one flow's mirrors, one after the other.

    Args:
        flow: What is mirrored.
        mirrors: Whose letters.
        freed: Called with the bytes that went.
        wake: Called for a mirror that may continue, once its dead letters are in the stored offset runs.
        books: Called where that is waited for.
        ports: To the target, by shard; opened at the first letter.
    """

    def __init__(
        self,
        flow: FlowAssignment,
        mirrors: Sequence[PartitionMirror],
        freed: Callable[[int], None],
        wake: Callable[[PartitionMirror], None],
        books: Callable[[], None],
        ports: Callable[[int], LetterPort] | None = None,
    ) -> None:
        self._flow = flow
        self._mirrors = mirrors
        self._freed = freed
        self._wake = wake
        self._books = books
        self._open = ports or (
            lambda shard: KafkaDeadLetters(
                flow.settings.target, flow.identity.letters_id(shard), flow.settings.replication_factor
            )
        )
        self._ports: dict[int, LetterPort] = {}
        self._posted: set[PartitionMirror] = set()

    async def run(self) -> None:
        """Write dead letters until cancelled; a write in progress is completed first."""
        while True:
            for mirror in self._mirrors:
                if mirror.letter is not None:
                    await to_its_end(self._post(mirror))
            for mirror in [mirror for mirror in self._posted if not mirror.awaits_books]:
                self._posted.discard(mirror)
                self._wake(mirror)
            if self._posted:
                self._books()
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _post(self, mirror: PartitionMirror) -> None:
        batch, about = mirror.letter, mirror.assignment
        assert batch is not None
        letter = Letter(self._flow.identity.source_id, about.topic_id, about.place, about.target_topic, batch)
        before = mirror.held_bytes
        try:
            await in_thread(self._port(about.shard).post, letter)
        except UnreachableError:
            return  # it is still the mirror's letter
        except MmtoolError as error:
            mirror.halt(
                f"the record at source offset {letter.offset} cannot be written to the dead-letter topic:"
                f" {error.message}{f': {error.remedy}' if error.remedy else ''}"
            )
        else:
            mirror.posted(batch)
            self._posted.add(mirror)
        self._freed(before - mirror.held_bytes)

    def _port(self, shard: int) -> LetterPort:
        if shard not in self._ports:
            self._ports[shard] = self._open(shard)
        return self._ports[shard]
