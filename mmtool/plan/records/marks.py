"""Marks that failovers leave in a flow's control topic for its owner; they outlive processes and hosts."""

from __future__ import annotations

from dataclasses import dataclass, field

from mmtool.plan.groups.facts import GroupKind
from mmtool.plan.records.documents import Document, UnreadableDocumentError
from mmtool.plan.words import moment
from mmtool.translation.types import UNKNOWN, TopicPartition, Unknown

FAILED_OVER_REMEDY = (
    "`mmtool failover failback -c FILE -g GROUP --execute` moves a group back; if the groups stay on the target,"
    " `mmtool failover release -c FILE --topic TOPIC --execute` lets `mmtool replicate` mirror the topic again"
)


@dataclass(frozen=True, slots=True)
class FailedOverRecord(Document):
    """A topic that has failed over to the target: it is not mirrored until it is released.

    The mark is by name: a topic that was deleted on the source and made again is held as well.

    Attributes:
        topic: Its name on the source.
        failed_over: False once it was released.
        operation_id: The operation that wrote this.
        by: The operator, as ``user@host``.
        since_ms: When, by that host's clock.
    """

    PREFIX = "failed_over/"
    BY = ("topic",)

    topic: str
    failed_over: bool
    operation_id: str
    by: str
    since_ms: int

    @property
    def sentence(self) -> str:
        """The mark's operator, time and operation, as a sentence."""
        return f"failed over by {self.by} since {moment(self.since_ms)} (operation {self.operation_id})"


@dataclass(frozen=True, slots=True)
class MovedGroupRecord(Document):
    """A group that now belongs to the target: the flow's offset sync no longer commits for it there.

    Attributes:
        moved: False once it has moved back to the source, or its move was undone.
        operation_id: The operation that wrote this.
        by: The operator, as ``user@host``.
        since_ms: When, by that host's clock.
    """

    PREFIX = "moved/"
    BY = ("group",)

    group: str
    moved: bool
    operation_id: str
    by: str
    since_ms: int

    @property
    def sentence(self) -> str:
        """The move's operator, time and operation, as a sentence."""
        return f"moved by {self.by} at {moment(self.since_ms)} (operation {self.operation_id})"


def note_move(moved: dict[str, MovedGroupRecord], word: MovedGroupRecord) -> None:
    """Apply a stored record to the marks in force: the last record of each group counts."""
    if word.moved:
        moved[word.group] = word
    else:
        moved.pop(word.group, None)


@dataclass(frozen=True, slots=True)
class GroupNameRecord(Document):
    """A group's other name on the target, under which its offsets are committed there (``mmtool.group.map``).

    It is written before the first commit, and stays when the map changes.
    """

    PREFIX = "group_name/"
    BY = ("group",)

    group: str
    target_group: str


@dataclass(frozen=True, slots=True)
class LookRecord(Document):
    """How fresh the checkpoints are when none of them has changed.

    Attributes:
        looked_ms: The owner of the flow read the source's commits after this moment of its clock, and has written
            every checkpoint that followed from them.
        untold: Groups for which the source did not answer at that time, and the ``looked_ms`` of the last time when it
            did; None where it never did.
        kinds: The kinds of groups with checkpoints that are no consumer groups.
    """

    PREFIX = "looked"

    looked_ms: int
    untold: dict[str, int | None] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)

    @property
    def known_kinds(self) -> dict[str, GroupKind]:
        """The kinds, without those that only a later mmtool knows."""
        return {group: GroupKind(kind) for group, kind in self.kinds.items() if kind in set(GroupKind)}

    def asked_ms(self, group: str) -> int | Unknown:
        """When the source last reported the group's commits, in ms of the owner's clock; UNKNOWN where it never did."""
        last = self.untold.get(group, self.looked_ms)
        return UNKNOWN if last is None else last


@dataclass(frozen=True, slots=True)
class RemovedRecord(Document):
    """Commits that a group no longer has on the source, while the target still has their checkpoints.

    The group was deleted, its offsets expired, or some of them were deleted. The checkpoints themselves stay as they
    are: clients of MM2 that read their topic stop at a tombstone.

    Attributes:
        seen_ms: By topic on the source and the partition's number in digits: the last time, by the owner's clock, at
            which the source still had the commit; None where no owner saw it there.
    """

    PREFIX = "removed/"
    BY = ("group",)

    group: str
    seen_ms: dict[str, dict[str, int | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not all(number.isdecimal() for of_topic in self.seen_ms.values() for number in of_topic):
            raise UnreadableDocumentError("the number of a partition is not in digits")

    @property
    def places(self) -> list[TopicPartition]:
        """The partitions whose commits the source no longer has, by their topics' names on the source."""
        return [TopicPartition(topic, int(n)) for topic, of_topic in self.seen_ms.items() for n in of_topic]

    def has(self, place: TopicPartition) -> bool:
        """Whether the source no longer has the group's commit of a partition."""
        return str(place.partition) in self.seen_ms.get(place.topic, {})

    def last_ms(self, place: TopicPartition) -> int | None:
        """When the source last had the commit of a partition; None where that is unknown."""
        return self.seen_ms.get(place.topic, {}).get(str(place.partition))

    def sentence(self, source: str, place: TopicPartition) -> str:
        """Why the commit of a partition counts no more, and when the source last had it."""
        last = self.last_ms(place)
        seen = "" if last is None else f", where it was last seen at {moment(last)}"
        return f"the group no longer has this commit on {source}{seen}"


@dataclass(frozen=True, slots=True)
class VerifiedRecord(Document):
    """The offsets up to which both sides of a partition were last compared and found the same.

    Attributes:
        topic: On the source.
        target_topic_id: Of the topic that it was compared with.
        upstream: The source's next record that was not compared.
        downstream: The same position on the target.
        by: The operator, as ``user@host``.
        at_ms: When, by that host's clock.
        start: The source's first offset that was compared; None where an older mmtool wrote this.
    """

    PREFIX = "verified/"
    BY = ("topic_id", "partition")

    topic: str
    topic_id: str
    target_topic_id: str
    partition: int
    upstream: int
    downstream: int
    by: str
    at_ms: int
    start: int | None = None

    def offsets(self, target_topic_id: str) -> range:
        """The offsets around which records were compared, where the target's topic is still the same; else none."""
        is_any = self.start is not None and self.start < self.upstream
        if not is_any or self.upstream != self.downstream or self.target_topic_id != target_topic_id:
            return range(0)
        return range(self.start or 0, self.upstream + 1)
