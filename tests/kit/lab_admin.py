"""Admin operations on a running cluster of the lab."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
)

from mmtool.lab.ports import wait_until
from mmtool.lab.topics import compare_histories, histories, read_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.lab.topics import Isolation, RecordsVerdict

_SECONDS = 20.0


def alter_topic(bootstrap: str, topic: str, **config: str | None) -> None:
    """Set properties of a topic, written with underscores for dots; None removes one."""
    _alter(bootstrap, "topic", topic, config)


def alter_broker(bootstrap: str, node: int, **config: str | None) -> None:
    """As `alter_topic`, for a running broker."""
    _alter(bootstrap, "broker", str(node), config)


def grow_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Add partitions to a topic, up to ``partitions``."""
    admin = _admin(bootstrap)
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(_SECONDS)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic, and wait until the brokers do not list it any more."""
    admin = _admin(bootstrap)
    admin.delete_topics([topic], operation_timeout=_SECONDS)[topic].result(_SECONDS)
    wait_until(
        lambda: topic not in admin.list_topics(timeout=_SECONDS).topics,
        f"topic {topic} to be deleted",
        _SECONDS,
    )


def delete_records(bootstrap: str, topic: str, below: int, partition: int = 0) -> None:
    """Delete the records before offset ``below``, where the log then starts, as after retention."""
    admin = _admin(bootstrap)
    for deleted in admin.delete_records([TopicPartition(topic, partition, below)]).values():
        deleted.result(_SECONDS)


def _alter(bootstrap: str, kind: str, name: str, config: dict[str, str | None]) -> None:
    entries = [
        ConfigEntry(
            key.replace("_", "."),
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for key, value in config.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin = _admin(bootstrap)
    admin.incremental_alter_configs([resource])[resource].result(_SECONDS)


def _admin(bootstrap: str) -> AdminClient:
    """An admin client; callers keep it in a variable, because it must outlive its futures."""
    return AdminClient({"bootstrap.servers": bootstrap, "client.id": "mmtool-lab-operator", "log_level": 2})


def leaders_of(bootstrap: str, topic: str) -> dict[int, int]:
    """The broker that leads each partition; -1 where none does, as in Kafka."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    found = admin.list_topics(topic, _SECONDS).topics[topic].partitions
    return {number: partition.leader for number, partition in found.items()}


def configs_of(bootstrap: str, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    """The properties that are set on each topic itself."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    asked = admin.describe_configs([ConfigResource("topic", topic) for topic in topics])
    of_topic = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {
        resource.name: {
            name: entry.value for name, entry in answer.result(_SECONDS).items() if entry.source == of_topic
        }
        for resource, answer in asked.items()
    }


def compare_topics(
    source_bootstrap: str,
    source_topic: str,
    target_bootstrap: str,
    target_topic: str,
    *,
    source_isolation: Isolation = "read_committed",
) -> dict[int, RecordsVerdict]:
    """Compare two topics: a verdict for each partition in which either side has records.

    The target is read uncommitted: an aborted record that was mirrored must not hide.

    Raises:
        GateError: One topic could not be read to its end within a minute.
    """
    source = histories(read_topic(source_bootstrap, source_topic, isolation=source_isolation))
    target = histories(read_topic(target_bootstrap, target_topic, isolation="read_uncommitted"))
    return compare_histories(source, target)
