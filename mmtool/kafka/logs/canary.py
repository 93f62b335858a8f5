"""The `CanaryPort` of a real flow: the canary topic, created and written on the source, read on the target."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from mmtool.errors import UnreachableError
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.errors import failure_of
from mmtool.kafka.kept_clients import lent_reader
from mmtool.kafka.ports import CanaryRecord
from mmtool.plan.records.identity import CANARY_TOPIC
from mmtool.plan.topics.facts import CreateTopic
from mmtool.plan.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmtool.config import ClusterSettings, FlowSettings
    from mmtool.errors import MmtoolError

_POLL_SECONDS = 0.1
_CONFIGS = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "retention.ms": str(24 * 60 * 60 * 1000),
    "segment.ms": str(60 * 60 * 1000),  # an old record goes once the segment that holds it is closed
    "segment.bytes": str(1 << 20),  # the least that Kafka 4 takes
}


class KafkaCanary:
    """A `CanaryPort`."""

    def __init__(self, flow: FlowSettings, timeout_seconds: float) -> None:
        """Take the flow's settings and the longest time of one request, in seconds."""
        self._flow = flow
        self._seconds = timeout_seconds

    def create(self) -> None:
        factor = self._flow.offset_syncs_replication_factor
        topic = CreateTopic(CANARY_TOPIC, CANARY_TOPIC, 1, factor, _CONFIGS)
        admin = TopicAdmin(self._flow.source)
        admin.create_needed([topic], CANARY_TOPIC, "offset-syncs.topic.replication.factor")

    def produce(self, records: Sequence[CanaryRecord]) -> list[CanaryRecord]:
        from confluent_kafka import KafkaException, Producer

        from mmtool.kafka.clients import new_client

        failed: list[Any] = []
        placed: list[CanaryRecord] = []

        def told(sent: CanaryRecord, error: Any, message: Any) -> None:
            if error is not None:
                failed.append(error)
            else:  # the client has dropped the headers by now
                placed.append(sent._replace(timestamp_ms=message.timestamp()[1], offset=message.offset()))

        source = self._flow.source
        producer = new_client(Producer, self._producer_config(), source)
        try:
            for one in records:
                producer.produce(
                    CANARY_TOPIC,
                    value=one.value,
                    key=one.key,
                    partition=0,
                    on_delivery=partial(told, one),
                    timestamp=one.timestamp_ms,
                    headers=list(one.headers),
                )
            left = producer.flush(self._seconds)
        except KafkaException as error:
            raise _unwritten(source, error.args[0]) from error
        if failed:
            raise _unwritten(source, failed[0])
        if left:
            raise UnreachableError(
                f"cluster {source.alias} did not acknowledge {counted(left, 'record')} of {CANARY_TOPIC} within"
                f" {self._seconds:g} s",
                remedy=f"check that every partition of {CANARY_TOPIC} on {source.alias} has a leader and enough in-sync"
                " replicas",
            )
        return sorted(placed, key=lambda record: record.offset or 0)

    def _producer_config(self) -> dict[str, Any]:
        from mmtool.kafka.clients import librdkafka_config

        return {
            **librdkafka_config(self._flow.source, role="producer", client_id_suffix="-canary"),
            "acks": "all",
            "enable.idempotence": False,  # no producer id: by that mirrors tell a canary from what was mirrored in
            "linger.ms": 0,
            "message.timeout.ms": int(self._seconds * 1000),
        }

    def read(self, topic: str, start: int) -> list[CanaryRecord]:
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        target = self._flow.target
        try:
            with lent_reader(target, committed=True) as consumer:
                place = TopicPartition(topic, 0, start)
                _, end = consumer.get_watermark_offsets(place, timeout=self._seconds, cached=False)
                if start >= end:
                    return []
                consumer.assign([place])
                return _until_the_end(consumer, self._seconds)
        except KafkaException as error:
            unknown = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION)  # noqa: SLF001  public
            if error.args[0].code() in unknown:
                return []
            raise failure_of(
                target, error.args[0], f"reading {topic}", right=f"READ on topic {topic}"
            ) from error


def _unwritten(source: ClusterSettings, error: Any) -> MmtoolError:
    return failure_of(source, error, f"writing to {CANARY_TOPIC}", right=f"WRITE on topic {CANARY_TOPIC}")


def _until_the_end(consumer: Any, seconds: float) -> list[CanaryRecord]:
    """Read records until the partition ends, or until ``seconds`` have passed."""
    from confluent_kafka import KafkaError, KafkaException

    from mmtool.kafka.state.log_reader import is_final

    found: list[CanaryRecord] = []
    for _ in range(max(1, int(seconds / _POLL_SECONDS))):
        message = consumer.poll(_POLL_SECONDS)
        while message is not None:
            error = message.error()
            if error is None:
                found.append(_record_of(message))
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  librdkafka's public name for it
                return found
            elif is_final(error):
                raise KafkaException(error)
            message = consumer.poll(0)
    return found


def _record_of(message: Any) -> CanaryRecord:
    headers = tuple((name, value or b"") for name, value in message.headers() or ())
    return CanaryRecord(
        message.key() or b"", message.value() or b"", headers, message.timestamp()[1], message.offset()
    )
