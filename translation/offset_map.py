"""The offset maps of a flow's partitions as one value, which a program takes with it to translate offsets elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from mmtool.translation.answers import Reason
from mmtool.translation.columns import Answers, Columns
from mmtool.translation.translate import translate_in_pair_many, translate_many
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike

    from mmtool.translation.answers import Answer, Refused, SourceLog, TargetLog
    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.runs import Offsets
    from mmtool.translation.types import Unknown


@dataclass(frozen=True, slots=True)
class MappedPartition:
    """A partition that a flow mirrors, with all that its offsets are translated by.

    Attributes:
        map: Its offset runs.
        target: The bounds of the target's log, read after the runs.
        source: The bounds of the source's log, where it answered.
        back: The offset runs of the reverse flow, where producers of both clusters write to the topic.
    """

    map: PartitionMap
    target: TargetLog
    source: SourceLog | Unknown
    back: PartitionMap | None = None

    def translate_many(self, offsets: Offsets) -> Columns:
        """Translate a column of offsets of the source."""
        if self.back is None:
            return translate_many(self.map, offsets, target=self.target, source=self.source)
        return translate_in_pair_many(self.map, self.back, offsets, target=self.target, source=self.source)


class OffsetMap:
    """What translates offsets of a flow's source into offsets of its target, as of the time when it was read.

    A plain value without connections, addresses or credentials: it can be pickled, kept, and sent to other processes.
    It never changes. Records that are mirrored later are past it, and their offsets are refused (``beyond_mirror``).
    """

    __slots__ = ("_mirrors", "_numbers")

    def __init__(self, mirrors: Mapping[TopicPartition, MappedPartition | Refused]) -> None:
        self._mirrors = dict(mirrors)
        self._numbers = {topic: n for n, topic in enumerate(sorted({place.topic for place in self._mirrors}))}

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions of the source that the map has, by topic and number."""
        return tuple(sorted(self._mirrors))

    @property
    def target_topics(self) -> dict[str, str]:
        """The topics of the target by those of the source that they mirror; topics without offset runs are left out."""
        mirrors = (mirror for mirror in self._mirrors.values() if isinstance(mirror, MappedPartition))
        return {mirror.map.about.source_topic: mirror.map.about.target_topic for mirror in mirrors}

    def translate(self, topic: str, partition: int, offset: int) -> Answer:
        """Translate one offset.

        Args:
            topic: Its name on the source.
            partition: Its number.
            offset: The next offset to read on the source, as a consumer group commits it.

        Returns:
            `Exact` or `Bounded` with an offset of the target, else `Refused`.
        """
        return self.translate_many([topic], [partition], [offset])[0]

    def translate_many(self, topics: Sequence[str], partitions: ArrayLike, offsets: ArrayLike) -> Answers:
        """Translate columns of offsets; the cost is per batch and partition, not per offset.

        Args:
            topics: Names on the source, shape (n,).
            partitions: Numbers, integers of shape (n,).
            offsets: The next offsets to read on the source, integers of shape (n,); they may be a masked array.

        Returns:
            n answers, in the order of the columns. Masked and negative offsets are refused as ``no_commit``.

        Raises:
            TypeError: Partitions or offsets are not integers.
            ValueError: The columns differ in length, or have more than one dimension.
        """
        numbers = _integers("partitions", partitions)
        commits = _integers(
            "offsets", offsets, "; pass an array of integers, with -1 where a group has no commit"
        )
        if not (len(topics),) == numbers.shape == commits.shape:
            raise ValueError(
                f"three columns of one length are needed: topics has {len(topics)} elements, partitions the shape"
                f" {numbers.shape}, offsets {commits.shape}"
            )
        is_none = np.ma.getmaskarray(np.ma.asarray(offsets)) | (commits < 0)
        unknown = len(self._numbers)
        topic_numbers = np.fromiter(map(self._numbers.get, topics, repeat(unknown)), np.int64, len(topics))
        parts = (
            (rows, self._answers(topics[rows[0]], int(numbers[rows[0]]), np.maximum(commits[rows], 0)))
            for rows in _rows_by_partition(topic_numbers, numbers)
        )
        answers = Columns.gathered(len(topics), parts)
        return Answers(answers.except_where(is_none, Reason.NO_COMMIT))

    def _answers(self, topic: str, partition: int, offsets: Offsets) -> Columns:
        known = self._mirrors.get(TopicPartition(topic, partition))
        if isinstance(known, MappedPartition):
            return known.translate_many(offsets)
        if known is not None:
            return Columns.refused(known.reason, len(offsets))
        is_lost = topic in self._numbers  # the topic was created again with fewer partitions
        return Columns.refused(Reason.BEYOND_SOURCE_END if is_lost else Reason.NOT_MIRRORED, len(offsets))

    def __repr__(self) -> str:
        runs = sum(
            len(mirror.map.runs) for mirror in self._mirrors.values() if isinstance(mirror, MappedPartition)
        )
        return f"OffsetMap({len(self._mirrors)} partitions, {runs} runs)"


def _integers(name: str, column: ArrayLike, hint: str = "") -> Offsets:
    values = np.asarray(column)
    if not values.size:
        return np.zeros(0, dtype=np.int64)
    if not np.can_cast(values.dtype, np.int64):
        raise TypeError(f"{name} must be integers of at most 64 bits, not {values.dtype}{hint}")
    return values.astype(np.int64)


def _rows_by_partition(topics: Offsets, partitions: Offsets) -> Iterator[Offsets]:
    """The indices of the elements of each partition."""
    if not len(topics):
        return iter(())
    order = np.lexsort((partitions, topics))
    changes = (np.diff(topics[order]) != 0) | (np.diff(partitions[order]) != 0)
    return iter(np.split(order, np.flatnonzero(changes) + 1))
