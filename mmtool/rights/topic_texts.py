"""Needed topics as text: ``kafka-topics.sh`` commands, and Strimzi's KafkaTopic documents."""

from __future__ import annotations

import json
import re
from collections import Counter
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING

from mmtool.plain_text import shell_line
from mmtool.plan.topics.facts import CLEANUP_POLICY
from mmtool.rights.render import strimzi_head

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mmtool.plan.topics.requirements import NeededTopic

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_MOST_LETTERS = 253
_KUBERNETES_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)


def kafka_topics(topics: Sequence[NeededTopic], bootstrap: Mapping[str, str]) -> str:
    """Commands that create the topics, and change those that differ; what is ready is left as it is.

    Args:
        topics: By cluster.
        bootstrap: The bootstrap servers of each alias.
    """
    lines: list[str] = []
    for alias, of_cluster in groupby(topics, key=lambda topic: topic.cluster):
        lines.append(f"# cluster {alias}")
        for topic in of_cluster:
            lines += _commands(topic, bootstrap[alias])
    return "".join(f"{line}\n" for line in lines)


def _commands(topic: NeededTopic, servers: str) -> Iterator[str]:
    def command(tool: str, *words: str) -> str:
        return shell_line((tool, "--bootstrap-server", servers, *words))

    count, named = ("--partitions", str(topic.partitions)), ("--topic", topic.topic)
    factor = () if topic.replication_factor < 0 else ("--replication-factor", str(topic.replication_factor))
    configs = [word for name, value in topic.configs.items() for word in ("--config", f"{name}={value}")]
    yield command("kafka-topics.sh", "--create", "--if-not-exists", *named, *count, *factor, *configs)
    if topic.has_partitions is None or not topic.reason:
        return
    yield f"# {topic.reason}"
    if topic.has_partitions < topic.partitions:
        yield command("kafka-topics.sh", "--alter", *named, *count)
    elif topic.has_partitions > topic.partitions == 1 and topic.policy is None:
        yield "# no command removes partitions: if the topic has no records, delete it, then create it again"
    if topic.policy is not None:
        added = f"{CLEANUP_POLICY}=[{topic.policy}]"
        yield command(
            "kafka-configs.sh",
            *("--alter", "--entity-type", "topics", "--entity-name", topic.topic, "--add-config", added),
        )


def strimzi_topics(topics: Sequence[NeededTopic]) -> str:
    """A KafkaTopic document for each topic, whether it exists or not; two clusters may be in one namespace.

    Args:
        topics: By cluster.
    """
    clusters = Counter(topic.topic for topic in topics)
    return "".join(
        f"{line}\n"
        for topic in topics
        for line in _document(
            topic, f"{topic.topic}.{topic.cluster}" if clusters[topic.topic] > 1 else topic.topic
        )
    )


def _document(topic: NeededTopic, name: str) -> Iterator[str]:
    yield from strimzi_head("KafkaTopic", _resource_name(name), topic.cluster)
    yield f"  topicName: {json.dumps(topic.topic)}"
    yield f"  partitions: {max(topic.partitions, topic.has_partitions or 0)}"
    if topic.replication_factor > 0:
        yield f"  replicas: {topic.replication_factor}"
    yield f"  config: {json.dumps(topic.configs)}"


def _resource_name(topic: str) -> str:
    """A name that Kubernetes accepts: the topic's, or one made of it with a checksum that keeps it unique."""
    if _KUBERNETES_NAME.fullmatch(topic) and len(topic) <= _MOST_LETTERS:
        return topic
    words = "-".join(re.findall(r"[a-z0-9]+", topic.lower())) or "topic"
    return f"{words[:200]}-{sha256(topic.encode()).hexdigest()[:10]}"
