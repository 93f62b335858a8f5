"""What forbids a move of groups, and what it costs while the source does not answer: stated before it is confirmed.

`EmergencyFacts` is all that the target alone knows of a flow. `state_lags` compares the state topics of Kafka Streams
applications with their offsets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.plan.words import counted, joined, moment
from mmtool.translation.types import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mmtool.plan.groups.applications import AppState, StateTopic
    from mmtool.plan.groups.facts import GroupFacts
    from mmtool.plan.groups.offsets import PartitionFacts
    from mmtool.plan.words import Names
    from mmtool.translation.blocks import SeenOffset
    from mmtool.translation.types import DownstreamOffset, TopicPartition


@dataclass(frozen=True, slots=True)
class Loss:
    """Records of the source that the target does not have, or that a group passes over, counted in offsets.

    Attributes:
        most: Up to the source's end now; UNKNOWN where the mirror has not seen that end within the last seconds.
        least: Up to the source's last seen end.
        seen_ms: When that end was seen, in ms since 1970; UNKNOWN where none was seen.
    """

    most: int | Unknown = UNKNOWN
    least: int = 0
    seen_ms: int | Unknown = UNKNOWN

    @property
    def is_possible(self) -> bool:
        """Whether records may be lost: their number is unknown or above 0."""
        return self.most is UNKNOWN or self.most > 0

    def words(self, source: str) -> str:
        """The number of records, with what was seen of it where it is unknown."""
        if self.most is not UNKNOWN:
            return f"at most {counted(self.most, 'record')}" if self.most else "0 records"
        least = f"at least {self.least:,}" if self.least else ""
        seen = "" if self.seen_ms is UNKNOWN else f"{source} last seen at {moment(self.seen_ms)}"
        known = ": ".join(filter(None, (least, seen)))
        return f"an unknown number of records{known and f' ({known})'}"


def total_loss(losses: Iterable[Loss]) -> Loss:
    """The loss in several partitions; ``seen_ms`` is the latest one of those whose loss is unknown."""
    of_all = list(losses)
    numbers = [one.most for one in of_all if one.most is not UNKNOWN]
    seen = [one.seen_ms for one in of_all if one.most is UNKNOWN and one.seen_ms is not UNKNOWN]
    return Loss(
        sum(numbers) if len(numbers) == len(of_all) else UNKNOWN,
        sum(one.least for one in of_all),
        max(seen, default=UNKNOWN),
    )


@dataclass(frozen=True, slots=True)
class Risk:
    """The costs of one partition of one group.

    Attributes:
        lost: Records that are lost with the source, or that the group passes over.
        reread: Records that the group reads again, at the most: all that the target holds behind the translated offset,
            for the group may have read on after it was last seen.
        expected: How many of ``reread`` the group is expected to read again, by its commit rate; UNKNOWN where none was
            measured.
        age_seconds: The age of the group's last known offset; UNKNOWN where there is none.
    """

    lost: Loss
    reread: int | Unknown
    age_seconds: float | Unknown
    expected: int | Unknown = UNKNOWN


@dataclass(frozen=True, slots=True)
class Guard:
    """A stable word, the sentence, and a remedy where the sentence has none."""

    code: str
    sentence: str
    remedy: str = ""

    def __str__(self) -> str:
        return joined(self.sentence, self.remedy)


def no_authorizer(cluster: str, effect: str, remedy: str) -> Guard:
    """The guard of an ACL operation on a cluster where ACLs do nothing; ``effect`` says what follows."""
    told = f"{cluster} has no authorizer (authorizer.class.name is not set): {effect}"
    return Guard("no_authorizer", told, remedy)


REPORT_SECONDS = 5.0
"""Workers report the source's end of each partition at least this often."""

SEEN_GRACE_SECONDS = 5.0
"""How long an end that was seen counts as the present one after the interval in which it is seen again."""


@dataclass(frozen=True, slots=True)
class LastWord:
    """The last knowledge of a group's offset that is stored on the target.

    Attributes:
        downstream: Its translation at that time, by mmtool or MirrorMaker 2.
        known_ms: The latest time at which the offset was still current, in ms since 1970.
    """

    downstream: DownstreamOffset
    known_ms: int


@dataclass(frozen=True, slots=True)
class EmergencyFacts:
    """All that the target knows of a flow.

    Attributes:
        groups: Each with its last known commits; its state on the source is unknown.
        unknown: Requested groups that have no checkpoint, with the nearest name of one that has.
        words: The last known offsets, by group and partition of the source.
        partitions: Every partition of the flow that the target knows, by its name on the source.
        source_ends: The last seen end offsets of the source.
        look_seconds: How often the flow looks at the source: ``emit.checkpoints.interval.seconds``.
        born_there: Producers may have written to the flow's topics on the target (identical names, both directions):
            offset runs of one direction alone do not say which records a group has read.
        rates: Offsets per second that groups were last seen to commit, by group and partition of the source.
        removed: Commits that the source no longer has of a group that it has, each with a sentence.
        now_ms: When these facts were read, in ms since 1970.
    """

    groups: tuple[GroupFacts, ...]
    unknown: Mapping[str, str | None]
    words: Mapping[tuple[str, TopicPartition], LastWord]
    partitions: Mapping[TopicPartition, PartitionFacts]
    source_ends: Mapping[TopicPartition, SeenOffset]
    now_ms: int
    born_there: bool = False
    look_seconds: float = REPORT_SECONDS
    rates: Mapping[tuple[str, TopicPartition], float] = field(default_factory=dict)
    removed: Mapping[str, Mapping[TopicPartition, str]] = field(default_factory=dict)

    def loss(self, place: TopicPartition) -> Loss:
        """The loss in a partition, in offsets: some may be markers, or compacted away."""
        end, known = self.source_ends.get(place), self.partitions[place].map
        if end is None or known is None:
            return Loss()
        least = max(0, end.offset - known.upstream_frontier)
        return Loss(least if self.is_present(end.at_ms) else UNKNOWN, least, end.at_ms)

    def is_present(self, seen_ms: int) -> bool:
        """Whether what was seen then still counts as present: for one interval, and a few seconds of grace.

        A time that is as far ahead of this host's clock says nothing either.
        """
        limit = max(self.look_seconds, REPORT_SECONDS) + SEEN_GRACE_SECONDS
        return abs(self.now_ms - seen_ms) <= limit * 1000

    @property
    def seen_ms(self) -> int | Unknown:
        """When the end of any partition of the source was seen last, in ms since 1970; UNKNOWN where none was."""
        return max((end.at_ms for end in self.source_ends.values()), default=UNKNOWN)


_OLDER = "may start with older state than its offsets"


@dataclass(frozen=True, slots=True)
class StateLag:
    """One changelog or repartition topic compared with the offsets of its application.

    Attributes:
        lost: Records of the topic that the target does not have.
        ahead_seconds: How much later a partition's end was seen than an offset, at the most; negative where every one
            was seen earlier.
        late_seconds: The same the other way round: how much later an offset was known than a partition's end was seen.
    """

    topic: StateTopic
    lost: Loss
    ahead_seconds: float | Unknown
    late_seconds: float | Unknown

    def sentence(self, names: Names) -> str:
        """The comparison as a sentence, for the operator who confirms."""
        name, group = self.topic.name, self.topic.group
        if self.lost.most is UNKNOWN:
            return (
                f"state of {group}: it is unknown how many records of {name} on {names.source} are missing on"
                f" {names.target}: {group} {_OLDER}"
            )
        if self.lost.most:
            return (
                f"state of {group}: {names.target} lacks up to {counted(self.lost.most, 'record')} of {name} that"
                f" {names.source} was seen to hold: {group} {_OLDER}"
            )
        return (
            f"state of {group}: {names.target} holds every record of {name} that {names.source} was seen to"
            f" hold{self._age}"
        )

    @property
    def _age(self) -> str:
        """How the state's age compares with that of the offsets, as a further sentence; empty where it is unknown."""
        newer, older = (
            "" if seconds is UNKNOWN or seconds <= 0 else f"{seconds:,.1f} s {word}"
            for seconds, word in ((self.ahead_seconds, "newer"), (self.late_seconds, "older"))
        )
        group = self.topic.group
        again = f"records that {group} reads again change the state a second time"
        if newer and older:
            return (
                f". Compared with the offsets of group {group}, this state is between {older} and {newer}:"
                f" {group} {_OLDER}, or {again}"
            )
        if newer:
            return f". This state is up to {newer} than the offsets of group {group}: {again}"
        return (
            f". This state is up to {older} than the offsets of group {group}: {group} {_OLDER}"
            if older
            else ""
        )


def state_lags(state: AppState, facts: EmergencyFacts) -> Iterator[StateLag]:
    """Yield the comparison of each state topic that moves."""
    for topic in state.topics:
        if topic.lost:
            continue
        places = [place for place in facts.partitions if place.topic == topic.name]
        known = [facts.words[key].known_ms for key in facts.words if key[0] == topic.group]
        seen = [facts.source_ends[place].at_ms for place in places if place in facts.source_ends]
        whole = known and seen and len(seen) == len(places)
        ahead, late = (
            ((max(seen) - min(known)) / 1000, (max(known) - min(seen)) / 1000)
            if whole
            else (UNKNOWN, UNKNOWN)
        )
        lost = total_loss(map(facts.loss, places)) if places else Loss()
        yield StateLag(topic, lost, ahead, late)
