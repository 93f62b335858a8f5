"""Create mmtool's internal topics with their configs, and append to them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError, RefusedError, UnreachableError
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.state.own_records import own_batches
from mmtool.kafka.wire.cluster import ConnectionLostError, retrying
from mmtool.kafka.wire.codes import RETRY_AFTER_METADATA, Code, name_of
from mmtool.kafka.wire.produce import ProducePartition, ProduceRequest
from mmtool.plan.records.identity import JOURNAL_TOPIC, PRODUCERS_TOPIC, RUNS_PARTITIONS
from mmtool.plan.topics.facts import CreateTopic
from mmtool.runtime.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mmtool.config import ClusterSettings
    from mmtool.kafka.state.own_records import Headers
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.kafka.wire.metadata import TopicMetadata
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.plan.topics.configs import ConfigEntry
    from mmtool.translation.types import TopicId

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
    """mmtool's own topics of a flow, all of them on its target.

    With the journal of failovers: on the night when it is needed nobody has to be allowed to make it, or wait for it.
    """
    single = (identity.control_topic, PRODUCERS_TOPIC, JOURNAL_TOPIC)
    partitions = {identity.runs_topic: RUNS_PARTITIONS, **dict.fromkeys(single, 1)}
    return [state_topic(name, replication_factor, count) for name, count in partitions.items()]


def state_topic(name: str, replication_factor: int, partitions: int = 1) -> CreateTopic:
    """A topic of which the last record of each key counts."""
    return CreateTopic("", name, partitions, replication_factor, _STATE_CONFIGS)


def check_counts(alias: str, wanted: Iterable[CreateTopic], found: Mapping[str, TopicMetadata]) -> None:
    """That topics of ours which somebody else made, or grew, have the partitions that we rely on.

    Whoever holds the only partition of one is the only one who may write there: with two, two could.

    Raises:
        RefusedError: One has not.
    """
    for topic in wanted:
        there = found.get(topic.name)
        count = 0 if there is None else len(there.partitions)
        if count and (count < topic.partitions or topic.partitions == 1 < count):
            raise RefusedError(
                f"topic {topic.name} on {alias} has {count} partitions instead of {topic.partitions}: mmtool did not"
                " create it",
                remedy="if the topic has no records, delete it: mmtool creates it with the right number of partitions",
                code="state_topic",
            )


def check_kept(alias: str, found: Mapping[str, Mapping[str, ConfigEntry]]) -> None:
    """That topics of ours keep the last record of each key, as far as their properties are shown to us.

    Raises:
        RefusedError: One deletes what is old.
    """
    for name, entries in found.items():
        policy = entries.get("cleanup.policy")
        if policy is not None and policy.value not in {None, _STATE_CONFIGS["cleanup.policy"]}:
            raise RefusedError(
                f"topic {name} on {alias} has cleanup.policy={policy.value}: Kafka would delete"
                " what mmtool stores in it",
                remedy=f"kafka-configs.sh --bootstrap-server HOST:PORT --alter --topic {name} --add-config"
                " cleanup.policy=compact",
                code="state_topic",
            )


async def known_everywhere(cluster: WireCluster, topics: list[str]) -> dict[str, TopicMetadata]:
    """Waits, ten seconds at most, until every broker has heard of topics that were made a moment ago."""
    await cluster.refresh(topics)
    for _ in range(2 * _LOOKS):
        if await cluster.known_by_all(topics):
            break
        await asyncio.sleep(_LOOK_SECONDS)
    return await cluster.refresh(topics)


async def make_missing(
    cluster: WireCluster, settings: ClusterSettings, topic: str, replication_factor: int
) -> None:
    """Makes a topic of ours where it is not there yet, and waits until every broker has heard of it.

    Raises:
        ConnectionLostError, UnreachableError: the cluster does not answer.
        NotAuthorisedError, RefusedError: it does not make one.
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
    """Appends (key, value) pairs to a partition of a topic of ours or of MM2's, all with the same ``headers``.

    Acknowledged by all in-sync replicas.

    Raises:
        UnreachableError, NotAuthorisedError, MmtoolError: the cluster does not take them.
    """
    for batch in own_batches(records, int(time.time() * 1000), headers):
        topic_id = await _topic_id(cluster, topic)
        code = await append(cluster, ProducePartition(topic, topic_id, partition, batch.payload))
        cluster.check_denied(code, f"WRITE on topic {topic}")
        if code != Code.NONE:
            raise refused(cluster, topic, code)


def refused(cluster: WireCluster, topic: str, code: int) -> MmtoolError:
    """What to raise where a cluster does not take a record of ours. Only a wrong clock gives one a wrong timestamp."""
    said = f"cluster {cluster.alias} refuses a record of {topic}: {name_of(code)}"
    if code != Code.INVALID_TIMESTAMP:
        return MmtoolError(said)
    return MmtoolError(
        f"{said}: this host's clock is too far from the broker's",
        remedy="correct this host's clock, then run the same command again",
    )


async def _topic_id(cluster: WireCluster, topic: str) -> TopicId:
    """The topic's id, waited for where the topic was made a moment ago, or a cluster is away for one."""
    away = ""
    for _ in range(_LOOKS):
        topic_id = cluster.topic_id(topic)
        if topic_id is not None:
            return topic_id
        try:
            away = ""
            await cluster.refresh([topic])
        except ConnectionLostError as error:
            away = str(error)
        await asyncio.sleep(_LOOK_SECONDS)
    if away:
        raise UnreachableError(
            f"topic {topic} on cluster {cluster.alias}: {away}", remedy="run the same command again"
        )
    raise MmtoolError(f"topic {topic} is missing on cluster {cluster.alias}")


async def append(cluster: WireCluster, entry: ProducePartition, seconds: float = _PATIENCE_SECONDS) -> int:
    """Appends one batch to its leader, trying again with the same bytes while that can help; the error code.

    Raises:
        UnreachableError: when nothing comes of it for so many seconds.
    """

    async def attempt() -> tuple[int, None]:
        request = ProduceRequest([entry], _TIMEOUT_MS)
        answer = await cluster.send_to_leader(entry.topic, entry.partition, request, purpose="books")
        code = answer.partitions[0].error_code
        if code in RETRY_AFTER_METADATA:
            await cluster.refresh([entry.topic])
        return code, None

    code, _ = await retrying(attempt, what=f"topic {entry.topic} on cluster {cluster.alias}", seconds=seconds)
    return int(code)
