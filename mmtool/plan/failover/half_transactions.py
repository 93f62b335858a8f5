"""Find transactions of the source of which a mirror holds only a part.

A mirror copies each partition by itself, and no record before its transaction has committed. Where mirroring stopped,
one partition may hold its records of a transaction and another may not.

A  the records of one producer id and epoch are one transaction, unless they are several in one partition: then those
   of several partitions whose times overlap belong together, which is likely and not certain (before KIP-890 an epoch
   has many transactions)
B  aborted transactions are in no mirror, and are not reported
C  the target alone stores neither producer ids nor markers: it can say in which partitions a transaction may be
   incomplete, and not which transaction
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from mmtool.plan.words import few

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from mmtool.plan.failover.risks import EmergencyFacts
    from mmtool.plan.words import Names
    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.types import TopicPartition


class Arrived(StrEnum):
    """How much of a transaction's records in one partition is on the target."""

    ALL = "all"
    PART = "part"
    NONE = "none"


class Share(NamedTuple):
    """A transaction's records in one partition of the source.

    Attributes:
        first, last: Their offsets.
        first_ms: The first record's timestamp.
        end_ms: The marker's timestamp, or of an open transaction the last record's.
        committed: False when it was aborted, None while it is open.
    """

    place: TopicPartition
    producer_id: int
    epoch: int
    first: int
    last: int
    first_ms: int
    end_ms: int
    committed: bool | None

    def arrived(self, frontier: int) -> Arrived:
        """How much of the share is before ``frontier``, the source offset that the mirror fetches next."""
        if self.last < frontier:
            return Arrived.ALL
        return Arrived.NONE if self.first >= frontier else Arrived.PART


class ShareRow(TypedDict):
    """The part of a transaction that is in one partition.

    Attributes:
        topic: Its name on the source.
        partition: Its number.
        first_offset: The first record's offset on the source.
        last_offset: The last record's offset on the source.
        arrived: How much of it is on the target.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    arrived: Arrived


class HalfTransactionRow(TypedDict):
    """A transaction that is only partly on the target.

    Attributes:
        producer_id: Its producer's id.
        producer_epoch: Its producer's epoch.
        certain: Whether the parts certainly belong to one transaction; false where that is only likely.
        partitions: Its parts.
    """

    producer_id: int
    producer_epoch: int
    certain: bool
    partitions: list[ShareRow]


@dataclass(frozen=True, slots=True)
class HalfTransaction:
    """One transaction of which only a part is on the target.

    Attributes:
        shares: By partition, and how much of each is on the target.
        certain: The shares are known to be of one transaction (A).
    """

    producer_id: int
    epoch: int
    shares: tuple[tuple[Share, Arrived], ...]
    certain: bool

    def document(self) -> HalfTransactionRow:
        """The transaction as JSON values."""
        return {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "certain": self.certain,
            "partitions": [
                {
                    "topic": share.place.topic,
                    "partition": share.place.partition,
                    "first_offset": share.first,
                    "last_offset": share.last,
                    "arrived": arrived,
                }
                for share, arrived in self.shares
            ],
        }

    def __str__(self) -> str:
        parts = ", ".join(
            f"{_offsets(share)} of {share.place} (mirrored: {arrived})" for share, arrived in self.shares
        )
        doubt = "" if self.certain else "; these are likely parts of one transaction, but this is not certain"
        return f"producer id {self.producer_id}, epoch {self.epoch}: {parts}{doubt}"


def _offsets(share: Share) -> str:
    return f"offset {share.first}" if share.first == share.last else f"offsets {share.first}-{share.last}"


def half_transactions(
    shares: Iterable[Share], frontiers: Mapping[TopicPartition, int]
) -> list[HalfTransaction]:
    """The transactions of which some records are on the target and some are not.

    Args:
        shares: The transactions' records in mirrored partitions; a transaction with missing shares looks smaller.
        frontiers: The source offset that the mirror fetches next, by partition.
    """
    by_producer: dict[tuple[int, int], list[Share]] = defaultdict(list)
    for share in shares:
        if share.committed is not False and share.place in frontiers:
            by_producer[share.producer_id, share.epoch].append(share)
    found = []
    for (producer_id, epoch), some in sorted(by_producer.items()):
        certain = len({share.place for share in some}) == len(some)
        for together in [some] if certain else _transactions(some):
            arrived = tuple((share, share.arrived(frontiers[share.place])) for share in sorted(together))
            how = {how for _, how in arrived}
            if Arrived.PART in how or how == {Arrived.ALL, Arrived.NONE}:
                found.append(HalfTransaction(producer_id, epoch, arrived, certain))
    return found


def _transactions(shares: list[Share]) -> Iterator[list[Share]]:
    """Split one producer's shares into its transactions, which follow each other in time (A)."""
    together: list[Share] = []
    end_ms = 0
    for share in sorted(shares, key=lambda share: (share.first_ms, share.end_ms)):
        if together and (share.first_ms > end_ms or share.place in {other.place for other in together}):
            yield together
            together = []
        end_ms = max(end_ms, share.end_ms) if together else share.end_ms
        together.append(share)
    if together:
        yield together


@dataclass(frozen=True, slots=True)
class TransactionsOnTarget:
    """What the target alone knows of the source's transactions (C).

    Attributes:
        topics: Topics of the source with missing offsets, such as markers and aborted records leave. Compaction, and
            records that came from the target, leave gaps as well.
        behind: Partitions of these topics that end before the last seen end of the source, or whose end was not seen.
            One of them may be inside its first transaction, without a gap of its own.
        has_runs: The target stores offset runs of the topics at all; MirrorMaker 2 leaves none.
    """

    topics: tuple[str, ...]
    behind: tuple[TopicPartition, ...]
    has_runs: bool


def transactions_on_target(
    facts: EmergencyFacts, selected: Collection[str] | None = None
) -> TransactionsOnTarget:
    """Where transactions may be incomplete on the target, by the stored offset runs alone.

    Args:
        facts: The facts of the flow that the target stores.
        selected: Topics of the source; None for all.
    """
    known = facts.partitions.items()
    maps = {
        place: one.map for place, one in known if one.map and (selected is None or place.topic in selected)
    }
    ends = facts.source_ends
    topics = {place.topic for place, known in maps.items() if _has_gaps(known)}
    behind = (
        place
        for place, known in maps.items()
        if place.topic in topics and (place not in ends or ends[place].offset > known.upstream_frontier)
    )
    return TransactionsOnTarget(tuple(sorted(topics)), tuple(sorted(behind)), has_runs=bool(maps))


def _has_gaps(known: PartitionMap) -> bool:
    """Whether offsets before the frontier have no record on the target, besides those that an operator skipped."""
    chosen = sum(gap.end - gap.start for gap in known.gaps)
    return known.upstream_frontier - known.known_from - known.runs.records > chosen


def told_by_target(known: TransactionsOnTarget, names: Names) -> str:
    """The sentence about incomplete transactions, as far as the target alone knows them."""
    command = f"list such transactions with `mmtool verify -c FILE -s {names.source} -t {names.target} --transactions`"
    later = f"when {names.source} answers, {command}"
    if not known.has_runs:
        return (
            f"{names.target} stores no exact offset map (offset runs) of the selected topics of {names.flow}, so mmtool"
            f" cannot find now which transactions are on {names.target} in part: {later}"
        )
    if known.behind:
        return (
            f"transactions may be on {names.target} in part: {few(known.behind)} may lack records of {names.source};"
            f" {names.target} does not store which transaction a record belongs to: {later}"
        )
    if known.topics:
        return (
            f"{few(known.topics)} may hold transactions, and {names.target} has every record that {names.source} was"
            f" last seen to hold: transactions that ended after that may be on {names.target} in part; {later}"
        )
    return (
        f"the mirrored records on {names.target} hold no complete transaction of {names.source}: a transaction's marker"
        f" leaves a gap in the source offsets, and these records have no gap; only {names.source} can show whether"
        f" {names.target} has a part of a transaction: {later}"
    )
