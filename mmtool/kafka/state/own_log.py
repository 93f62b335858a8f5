"""Create mmtool's internal topics with their configs, encode records for them, and append to them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping

from mmtool import __version__
from mmtool.config import ClusterSettings
from mmtool.errors import MmtoolError, RefusedError
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.batches import BatchError, BatchView, Codec, ReadyBatch, Record, decode
from mmtool.kafka.batches.rebuild import encode
from mmtool.kafka.batches.records import RecordColumns, body_of
from mmtool.kafka.errors import remedy_of_refusal, unreachable
from mmtool.kafka.wire.cluster import ConnectionLostError, WireCluster, retrying
from mmtool.kafka.wire.codes import RETRY_AFTER_METADATA, Code, name_of
from mmtool.kafka.wire.metadata import TopicMetadata
from mmtool.kafka.wire.produce import ProducePartition, ProduceRequest
from mmtool.plan.records.identity import (
    JOURNAL_TOPIC,
    PRODUCERS_TOPIC,
    RUNS_PARTITIONS,
    FlowIdentity,
    is_runs_topic,
)
from mmtool.plan.topics.configs import ConfigEntry
from mmtool.plan.topics.facts import CreateTopic
from mmtool.plan.words import counted
from mmtool.runtime.threads import in_thread
from mmtool.translation.types import TopicId, UpstreamOffset

Headers = tuple[tuple[bytes, bytes | None], ...]

MARK: Headers = ((b"mmtool", __version__.encode()),)
"""The header of mmtool's heartbeats, offset syncs and checkpoints; MirrorMaker 2's have none (decision 16).

MM2's readers look at keys and values only."""

_BATCH_BYTES = 512 << 10  # well below the default max.message.bytes of 1 MiB


def own_batches(
    records: Iterable[tuple[bytes, bytes | None]], timestamp_ms: int, headers: Headers = ()
) -> list[ReadyBatch]:
    """Encode (key, value) pairs as batches of at most half a MiB, in order; a null value is a tombstone.

    Each record gets the same ``headers``. A single record that is larger is compressed: otherwise a broker would refuse
    the journal entry of a group with some thousand partitions.
    """
    groups: list[list[bytes]] = []
    size = 0
    for key, value in records:
        body = body_of(key, value, headers)
        size += len(body)
        if not groups or size > _BATCH_BYTES:
            groups.append([])
            size = len(body)
        groups[-1].append(body)
    batches = []
    for bodies in groups:
        count = len(bodies)
        columns = RecordColumns(list(range(count)), [timestamp_ms] * count, [0] * count, bodies)
        codec = Codec.ZSTD if sum(map(len, bodies)) > _BATCH_BYTES else Codec.NONE
        batches.append(encode(columns, codec, UpstreamOffset(count)))
    return batches


def foreign_records(views: Iterable[BatchView]) -> list[Record]:
    """The records of an MM2 topic that mmtool did not write; a batch that cannot be read is left out.

    A batch has one writer, so its first record's headers decide.
    """
    found: list[Record] = []
    for view in views:
        try:
            records = [] if view.header.is_control else list(decode(view))
        except BatchError:
            continue
        if records and MARK[0][0] not in dict(records[0].headers):
            found += records
    return found


# The broker's time on every record: a writer whose clock is wrong is taken all the same (since Kafka 3.6 an hour ahead
# is too far), and cleaners count from when it was written.
_STATE_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "max.compaction.lag.ms": "600000",
    "min.cleanable.dirty.ratio": "0.1",
    "message.timestamp.type": "LogAppendTime",
}
_TIMEOUT_MS = 15_000
_PATIENCE_SECONDS = 30.0
_LOOKS = 50
_LOOK_SECONDS = 0.1


def internal_topics(identity: FlowIdentity, replication_factor: int) -> list[CreateTopic]:
    """The internal topics that a flow needs, all of them on its target.

    The journal of operations is one of them, so that an emergency needs neither the right nor the time to create it.
    """
    single = (identity.control_topic, PRODUCERS_TOPIC, JOURNAL_TOPIC)
    partitions = {identity.runs_topic: RUNS_PARTITIONS, **dict.fromkeys(single, 1)}
    return [state_topic(name, replication_factor, count) for name, count in partitions.items()]


def state_topic(name: str, replication_factor: int, partitions: int = 1) -> CreateTopic:
    """The request to create a compacted internal topic: the last record of each key counts."""
    return CreateTopic("", name, partitions, replication_factor, _STATE_CONFIGS)


def check_counts(alias: str, wanted: Iterable[CreateTopic], found: Mapping[str, TopicMetadata]) -> None:
    """Check that existing internal topics have the number of partitions that mmtool relies on.

    A lease is the assignment of a topic's only partition: with two partitions, two processes could hold it.

    Raises:
        RefusedError: a topic has too few partitions, or several where it must have one.
    """
    for topic in wanted:
        there = found.get(topic.name)
        count = 0 if there is None else len(there.partitions)
        if count and (count < topic.partitions or topic.partitions == 1 < count):
            raise RefusedError(
                f"topic {topic.name} on {alias} has {counted(count, 'partition')} instead of {topic.partitions}:"
                " another program created the topic, or added partitions",
                remedy=_recreate(topic.name),
                code="state_topic",
            )


def _recreate(topic: str) -> str:
    """The remedy for an internal topic that must be created again."""
    if topic in {PRODUCERS_TOPIC, JOURNAL_TOPIC}:
        return (
            "if the topic has no records, delete it: mmtool creates it again; if it has records, they are lost with the"
            " topic, and no command can restore them: first end open operations (`mmtool failover list -c FILE`)"
        )
    other, restores = (
        ("control", "them")
        if is_runs_topic(topic)
        else ("offset-runs", "all of them but failed-over marks and pauses: these are lost")
    )
    return (
        f"stop `mmtool replicate`; delete this topic, but not the {other} topic of the flow; if the topic had records,"
        f" run `mmtool flow rebuild -c FILE -s SOURCE -t TARGET --execute`, which restores {restores}; then start"
        " `mmtool replicate`, which creates the topic if it does not exist"
    )


def check_kept(alias: str, found: Mapping[str, Mapping[str, ConfigEntry]]) -> None:
    """Check that internal topics are compacted, where their configs may be read.

    Raises:
        RefusedError: a topic's ``cleanup.policy`` is another one.
    """
    for name, entries in found.items():
        policy = entries.get("cleanup.policy")
        if policy is not None and policy.value not in {None, _STATE_CONFIGS["cleanup.policy"]}:
            raise RefusedError(
                f"topic {name} on {alias} has cleanup.policy={policy.value}: Kafka would delete"
                " what mmtool stores in it",
                remedy=f"run `kafka-configs.sh --bootstrap-server HOST:PORT --alter --topic {name} --add-config"
                f" cleanup.policy=compact` with HOST:PORT of a broker of {alias}",
                code="state_topic",
            )


async def known_everywhere(cluster: WireCluster, topics: list[str]) -> dict[str, TopicMetadata]:
    """Wait, ten seconds at most, until every broker knows new topics; return their metadata."""
    await cluster.refresh(topics)
    for _ in range(2 * _LOOKS):
        if await cluster.known_by_all(topics):
            break
        await asyncio.sleep(_LOOK_SECONDS)
    return await cluster.refresh(topics)


async def make_missing(
    cluster: WireCluster, settings: ClusterSettings, topic: str, replication_factor: int
) -> None:
    """Create a compacted internal topic if it is missing, and wait until every broker knows it.

    Raises:
        ConnectionLostError, UnreachableError: the cluster does not answer.
        NotAuthorisedError, RefusedError: the cluster does not create the topic.
    """
    found = (await cluster.refresh([topic])).get(topic)
    if found is not None and found.error_code == Code.NONE:
        return
    wanted = [state_topic(topic, replication_factor)]
    await in_thread(TopicAdmin(settings).create_internal, wanted)
    await known_everywhere(cluster, [topic])


async def append_records(
    cluster: WireCluster,
    topic: str,
    records: Iterable[tuple[bytes, bytes | None]],
    headers: Headers = (),
    *,
    partition: int = 0,
) -> None:
    """Append (key, value) pairs to a partition of an internal topic or of MM2's, all with the same ``headers``.

    Acknowledged by all in-sync replicas.

    Raises:
        UnreachableError, NotAuthorisedError, MmtoolError: the cluster refuses them.
    """
    for batch in own_batches(records, int(time.time() * 1000), headers):
        topic_id = await topic_id_of(cluster, topic)
        code = await append(cluster, ProducePartition(topic, topic_id, partition, batch.payload))
        cluster.check_denied(code, f"WRITE on topic {topic}")
        if code != Code.NONE:
            raise refused(cluster, topic, code)


def refused(cluster: WireCluster, topic: str, code: int) -> MmtoolError:
    """The error for a record of mmtool's that the broker refused; its timestamp is this host's time."""
    said = f"cluster {cluster.alias} refuses a record of {topic}: {name_of(code)}"
    if code != Code.INVALID_TIMESTAMP:
        return MmtoolError(said, remedy=remedy_of_refusal(name_of(code), cluster.alias, f"topic {topic}"))
    return MmtoolError(
        f"{said} (the clocks of this host and of the broker differ too much)",
        remedy="correct the clock that is wrong, then run the same command again",
    )


async def topic_id_of(cluster: WireCluster, topic: str) -> TopicId:
    """A topic's id, waited for while the topic is new or the cluster does not answer."""
    away: ConnectionLostError | None = None
    for _ in range(_LOOKS):
        topic_id = cluster.topic_id(topic)
        if topic_id is not None:
            return topic_id
        try:
            away = None
            await cluster.refresh([topic])
        except ConnectionLostError as error:
            away = error
        await asyncio.sleep(_LOOK_SECONDS)
    if away:
        raise unreachable(cluster.alias, f"looking up topic {topic}", away)
    raise MmtoolError(
        f"topic {topic} is missing on cluster {cluster.alias}",
        remedy="run the same command again: the command creates the topic, or says what was lost with the topic",
    )


async def append(cluster: WireCluster, entry: ProducePartition, seconds: float = _PATIENCE_SECONDS) -> int:
    """Append one batch to its leader, with retries of the same bytes; return the error code.

    Raises:
        UnreachableError: when errors stay retriable, or the connection lost, for ``seconds``.
    """

    async def attempt() -> tuple[int, None]:
        request = ProduceRequest([entry], _TIMEOUT_MS)
        answer = await cluster.send_to_leader(entry.topic, entry.partition, request, purpose="books")
        code = answer.partitions[0].error_code
        if code in RETRY_AFTER_METADATA:
            await cluster.refresh([entry.topic])
        return code, None

    code, _ = await retrying(
        attempt,
        what=f"writing to topic {entry.topic} on {cluster.alias}",
        alias=cluster.alias,
        seconds=seconds,
    )
    return int(code)
