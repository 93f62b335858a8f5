"""The `CanaryPort` of a real flow: the canary topic, created and written on the source, read on the target."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaException, Producer

from mmtool.config import ClusterSettings, FlowSettings
from mmtool.errors import MmtoolError, UnreachableError
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.clients import librdkafka_config, new_client
from mmtool.kafka.errors import failure_of
from mmtool.kafka.ports import CanaryRecord
from mmtool.kafka.state.log_reader import read_log
from mmtool.plan.records.identity import CANARY_TOPIC
from mmtool.plan.topics.facts import CreateTopic
from mmtool.plan.words import counted

_CONFIGS = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "retention.ms": str(24 * 60 * 60 * 1000),
    "segment.ms": str(60 * 60 * 1000),  # an old record goes once the segment that holds it is closed
    "segment.bytes": str(1 << 20),  # the least that Kafka 4 takes
}


def canary_topic(flow: FlowSettings) -> CreateTopic:
    """The definition of the canary topic on a flow's source."""
    return CreateTopic(CANARY_TOPIC, CANARY_TOPIC, 1, flow.offset_syncs_replication_factor, _CONFIGS)


class KafkaCanary:
    """A `CanaryPort`."""

    def __init__(self, flow: FlowSettings, timeout_seconds: float) -> None:
        """Take the flow's settings and the longest time of one request, in seconds."""
        self._flow = flow
        self._seconds = timeout_seconds

    def create(self) -> None:
        admin, key = TopicAdmin(self._flow.source), "offset-syncs.topic.replication.factor"
        admin.create_needed([canary_topic(self._flow)], CANARY_TOPIC, key)

    def produce(self, records: Sequence[CanaryRecord]) -> list[CanaryRecord]:
        failed: list[Any] = []
        placed: list[CanaryRecord] = []

        def told(sent: CanaryRecord, error: Any, message: Any) -> None:
            if error is not None:
                failed.append(error)
            else:  # the client has dropped the headers by now
                placed.append(sent._replace(timestamp_ms=message.timestamp()[1], offset=message.offset()))

        source = self._flow.source
        config = {
            **librdkafka_config(source, role="producer", client_id_suffix="-canary"),
            "acks": "all",
            "enable.idempotence": False,  # no producer id: by that mirrors tell a canary from what was mirrored in
            "linger.ms": 0,
            "message.timeout.ms": int(self._seconds * 1000),
        }
        producer = new_client(Producer, config, source)
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

    def read(self, topic: str, start: int) -> list[CanaryRecord]:
        target, seconds = self._flow.target, self._seconds
        records = read_log(
            target, topic, start={0: start}, committed=True, patience_seconds=seconds, stall_seconds=seconds
        )
        return [
            CanaryRecord(
                record.key,
                record.value or b"",
                tuple((name.decode(), value or b"") for name, value in record.headers),
                record.timestamp_ms,
                record.offset,
            )
            for record in records
        ]


def _unwritten(source: ClusterSettings, error: Any) -> MmtoolError:
    return failure_of(source, error, f"writing to {CANARY_TOPIC}", right=f"WRITE on topic {CANARY_TOPIC}")
