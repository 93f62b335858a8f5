"""Write dead letters: records that the target accepts in no batch (``mmtool.on.oversize = dead-letter``).

A dead letter is the unchanged record, with headers that name its topic, partition and offset. Each is written once,
also after a crash: the newest dead letters of the partition are read before one is written, and an owner that claims
after a hung process fences it with its own first dead letter. Only a process that hung between its read and its write,
and continued before that, can have written one twice: both name the same offset.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmtool.config import ClusterSettings
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.batches import ReadyBatch, decode, view_of
from mmtool.kafka.batches.rebuild import encode
from mmtool.kafka.batches.records import body_of, fields_of, read_columns
from mmtool.kafka.clients import blocking_wire
from mmtool.kafka.logs.sequence_append import KafkaAppender
from mmtool.kafka.state.own_log import known_everywhere
from mmtool.kafka.wire.cluster import WireCluster
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.scan import log_bounds, read_range
from mmtool.plan.topics.facts import CreateTopic, GrowTopic
from mmtool.runtime.threads import in_thread
from mmtool.translation.names import DEAD_LETTER_SUFFIX
from mmtool.translation.types import ClusterId, TopicId, TopicPartition, UpstreamOffset

SOURCE_HEADERS = b"mmtool.source."
"""Prefix of the header names that state a dead letter's source cluster, topic, partition and offset."""
_SECONDS = 15.0
_NEXT_OWNER = (
    "another process runs the flow now and copies this partition; `mmtool status -c FILE` shows that process"
)
_NEWEST = 100
"""Newest records that are searched for a dead letter.

Each partition's dead letters are written in the order of their offsets, by one process."""

_CONFIGS = {"cleanup.policy": "delete", "retention.ms": "-1", "max.message.bytes": str((1 << 31) - 1)}
"""Configs of a dead-letter topic: it accepts any record that the source accepted, and deletes none by itself."""


def dead_letter_topic(mirror: str, partitions: int, replication_factor: int) -> CreateTopic:
    """The definition of the topic for the dead letters of a mirror, with as many partitions."""
    return CreateTopic("", mirror + DEAD_LETTER_SUFFIX, partitions, replication_factor, _CONFIGS)


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter.

    Attributes:
        cluster: The source's id.
        place: On the source.
        target: The topic on the target that refused it.
        batch: A batch with this record alone.
    """

    cluster: ClusterId
    topic_id: TopicId
    place: TopicPartition
    target: str
    batch: ReadyBatch

    @property
    def offset(self) -> UpstreamOffset:
        """The record's offset on the source."""
        return self.batch.upstream_start

    @property
    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """The headers that state the record's source cluster, topic, topic id, partition and offset."""
        told = {
            "cluster": self.cluster,
            "topic": self.place.topic,
            "topic.id": self.topic_id,
            "partition": self.place.partition,
            "offset": self.offset,
        }
        return tuple((SOURCE_HEADERS + name.encode(), str(value).encode()) for name, value in told.items())

    def written(self) -> ReadyBatch:
        """A batch of the record alone, with the source headers after its own."""
        view = view_of(self.batch.payload)
        columns = read_columns(view)
        key, value, headers = fields_of(columns.bodies[0])
        columns.bodies = [body_of(key, value, (*headers, *self.headers))]
        columns.offsets = [self.offset]
        return encode(columns, view.header.codec, self.batch.upstream_next)


class KafkaDeadLetters:
    """A `LetterPort`. Blocking.

    Args:
        target: The cluster.
        transactional_id: One for each shard of a flow.
        replication_factor: Of topics that are made.
    """

    def __init__(self, target: ClusterSettings, transactional_id: str, replication_factor: int) -> None:
        self._target = target
        self._factor = replication_factor
        self._appender = KafkaAppender(target, transactional_id, _SECONDS, _NEXT_OWNER)
        self._wire = blocking_wire(target, "dead-letters", "consumer", _SECONDS)
        self._ready: set[TopicPartition] = set()
        self._unanswered: dict[TopicPartition, Letter] = {}

    def post(self, letter: Letter) -> None:
        place = TopicPartition(letter.target + DEAD_LETTER_SUFFIX, letter.place.partition)
        if place not in self._ready:
            self._wire.ask(
                lambda cluster: self._make(cluster, letter.target, place), f"creating topic {place.topic}"
            )
            self._settle(place, letter)
            if self._is_there(place, letter):
                return
        self._ready.discard(place)
        self._unanswered[place] = letter
        self._appender.append(place, letter.written())
        del self._unanswered[place]
        self._ready.add(place)

    def _settle(self, place: TopicPartition, letter: Letter) -> None:
        """Find out whether the previous letter, which got no answer, was written; otherwise settle its sequence number.

        The same letter is sent again with the same number; before another one a new epoch begins.
        """
        before = self._unanswered.get(place)
        if before is None:
            return
        if self._is_there(place, before):
            self._appender.landed(place, 1)
            del self._unanswered[place]
        elif before.headers != letter.headers:
            self._appender.begin_again()
            self._unanswered.clear()  # nor do the numbers of other partitions count any more

    def _is_there(self, place: TopicPartition, letter: Letter) -> bool:
        return self._wire.ask(lambda cluster: _holds(cluster, place, letter), f"reading {place}")

    async def _make(self, cluster: WireCluster, target: str, place: TopicPartition) -> None:
        """Create the dead-letter topic, or grow it, to as many partitions as the mirror has."""
        found = await cluster.refresh([target, place.topic])
        wanted = len(found[target].partitions)
        known = found.get(place.topic)
        have = len(known.partitions) if known is not None and known.error_code == Code.NONE else 0
        if have > place.partition:
            return
        admin = TopicAdmin(self._target)
        if have and self._target.creates_topics:
            await in_thread(admin.grow, [GrowTopic("", place.topic, have, wanted)])
        else:
            topic = dead_letter_topic(target, wanted, self._factor)
            await in_thread(admin.create_needed, [topic], f"*{DEAD_LETTER_SUFFIX}", "replication.factor")
        await known_everywhere(cluster, [place.topic])


async def _holds(cluster: WireCluster, place: TopicPartition, letter: Letter) -> bool:
    """Whether the partition holds the letter, written by an earlier process or by a request without an answer."""
    topic_id = cluster.topic_id(place.topic)
    start, end = (await log_bounds(cluster, [place])).get(place, (0, 0))
    if topic_id is None or start == end:
        return False
    since = max(start, end - _NEWEST)
    views = read_range(cluster, place.topic, topic_id, place.partition, since, end, read_committed=False)
    async for view in views:
        if not view.header.is_control and any(
            set(letter.headers) <= set(record.headers) for record in decode(view)
        ):
            return True
    return False
