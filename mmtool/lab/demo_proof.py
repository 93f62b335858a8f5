"""The demo's proof: the records that a group read on both clusters, compared with the log itself.

Pure: it gets records and compares them whole (key, value with its number, headers, timestamp). It uses no offset
and no state or output of mmtool.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.lab.checker import compare_consumption, compare_histories
from mmtool.lab.records import numbered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.lab.checker import History, Verdict

    Log = Mapping[str, Mapping[int, History]]


@dataclass(frozen=True, slots=True)
class GroupProof:
    """The comparison for one group, in records.

    Attributes:
        committed: Records in the log, which the group had to read.
        read_before: Read on the source.
        read_after: Read on the target.
        skipped: In the log and never read.
        reread: Read more often than they are in the log.
        foreign: Read and not in the log: another group's, aborted, or changed on the way.
        reordered: A partition's records came in another order.
    """

    group: str
    committed: int
    read_before: int
    read_after: int
    skipped: int
    reread: int
    foreign: int
    reordered: bool

    @property
    def holds(self) -> bool:
        """Whether the group read every committed record exactly once, in order."""
        return (self.skipped, self.reread, self.foreign, self.reordered) == (0, 0, 0, False)

    @property
    def verdict(self) -> str:
        """``exact``, or what is wrong with the records that the group read."""
        wrong = {"skipped": self.skipped, "re-read": self.reread, "foreign": self.foreign}
        said = [f"{number} {what}" for what, number in wrong.items() if number]
        return ", ".join([*said, *(["reordered"] if self.reordered else [])]) or "exact"


def prove(group: str, log: Log, before: Log, after: Log) -> GroupProof:
    """Compare what a group read on both clusters with ``log``, which it should have read from beginning to end.

    ``log``, ``before`` (read on the source) and ``after`` (on the target) are records by topic and partition,
    topics by the source's names.
    """
    verdicts = [
        verdict
        for topic in {*log, *before, *after}
        for verdict in compare_consumption(
            log.get(topic, {}), before.get(topic, {}), after.get(topic, {})
        ).values()
    ]
    return GroupProof(
        group,
        committed=_records(log),
        read_before=_records(before),
        read_after=_records(after),
        skipped=sum(verdict.missing for verdict in verdicts),
        reread=sum(verdict.duplicated for verdict in verdicts),
        foreign=sum(verdict.foreign for verdict in verdicts),
        reordered=any(verdict.reordered for verdict in verdicts),
    )


def differences(expected: Log, found: Log) -> dict[str, Verdict]:
    """The verdicts of the partitions that differ between ``expected`` and ``found``, by ``topic-partition``."""
    return {
        f"{topic}-{partition}": verdict
        for topic in sorted({*expected, *found})
        for partition, verdict in compare_histories(expected.get(topic, {}), found.get(topic, {})).items()
        if not verdict.is_identical
    }


def numbers(partitions: Mapping[int, History]) -> dict[int, list[int]]:
    """The numbers in the records of one topic, by the partition that is written in the records.

    Raises:
        ValueError: A record has no number.
    """
    found: dict[int, list[int]] = {}
    for content in (content for history in partitions.values() for content in history):
        partition, number = numbered(content.value or b"")
        found.setdefault(partition, []).append(number)
    return found


def _records(log: Log) -> int:
    return sum(len(history) for partitions in log.values() for history in partitions.values())
