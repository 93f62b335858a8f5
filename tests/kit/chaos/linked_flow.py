"""A seed's flow between the place's clusters: its command goes through the links, and whoever judges past them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.bench import Bench
from kit.chaos.group import Watcher
from kit.chaos.place import SIDES
from kit.chaos.sides import Sides
from kit.exactness import stored_maps
from mmtool.lab.topics import create_topic
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kit.chaos.place import Place
    from kit.processes import MmtoolProcess
    from mmtool.translation.partition_map import PartitionMap

PARTITIONS = 3
_COMPACTED = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}


class LinkedFlow:
    """Of topics that are its own.

    Args:
        place: The clusters, all well.
        directory: For files of this run.
        stem: What the names of its topics begin with, and of nobody else's.
        topics: By their whole names.
        settings: More lines of the properties file.
        compacted: More topics, whose records are not asked for by `sides`.

    Attributes:
        properties: The file of whoever goes through the links.
        settings: Past them.
        sides: What is in both clusters' logs.
        places: The target's partitions by the source's.
    """

    def __init__(
        self,
        place: Place,
        directory: Path,
        stem: str,
        topics: Sequence[str],
        settings: Mapping[str, str],
        compacted: Sequence[str] = (),
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._replicas = place.brokers
        self.source, self.target = (place.cluster(side) for side in SIDES)
        self._bench = Bench(place.fleet, directory)
        self.properties = self._bench.properties(f"{stem}.*", **settings, **place.bootstraps)
        self.settings = self._bench.flow(self._bench.properties(f"{stem}.*", **settings))
        self.remotes = {topic: self.settings.remote_topic(topic) for topic in topics}
        self.compacted = {topic: self.settings.remote_topic(topic) for topic in compacted}
        self.sides = Sides(self.source.bootstrap, self.target.bootstrap, self.remotes)
        self.places = {
            TopicPartition(topic, p): TopicPartition(remote, p)
            for topic, remote in self.remotes.items()
            for p in range(PARTITIONS)
        }

    def create_topics(self) -> None:
        """On the source, for records of any age."""
        for topic in self.remotes:
            create_topic(self.source.bootstrap, topic, PARTITIONS, self._replicas, **{"retention.ms": "-1"})
        for topic in self.compacted:
            create_topic(self.source.bootstrap, topic, PARTITIONS, self._replicas, **_COMPACTED)

    def start(self) -> MmtoolProcess:
        """Its ``replicate``."""
        return self._bench.start(self.properties)

    def maps(self) -> dict[tuple[str, int], PartitionMap]:
        """As they are stored now."""
        return stored_maps(self.settings, self.source, self.target)

    def watcher(self, group: str, read_to: Mapping[TopicPartition, int]) -> Watcher:
        """Of a group that works on the source, and how far it has read there."""
        return Watcher(self.source.bootstrap, self.target.bootstrap, group, self.places, read_to)
