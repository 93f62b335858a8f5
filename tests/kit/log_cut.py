"""Make a log of three brokers lose the records at its end by an unclean leader election."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from confluent_kafka.admin import AdminClient, NewTopic

from kit.load import Load, produce
from mmtool.lab.ports import wait_until

if TYPE_CHECKING:
    from mmtool.lab.cluster import Cluster

STAYS, DIES = 1, 0
"""The brokers of the partition's two replicas; the third broker keeps the quorum with either of them."""

_PATIENCE_SECONDS = 60.0


@dataclass
class LogCut:
    """A topic of one partition that loses records, step by step. A context manager; at its end all brokers are up.

    Args:
        cluster: Of three brokers, all of them up.
        topic: That is not there yet.
    """

    cluster: Cluster
    topic: str

    def __post_init__(self) -> None:
        self._admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 2})
        config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        topic = NewTopic(self.topic, 1, replica_assignment=[[DIES, STAYS]], config=config)
        self._admin.create_topics([topic])[self.topic].result(30)
        self._wait_until_it_leads(DIES)
        self._down = set[int]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for broker in sorted(self._down):
            self.cluster.start_broker(broker)

    def write(self, count: int, first: int) -> None:
        """Write numbered records, from ``first`` on."""
        produce(self.cluster.bootstrap, Load(self.topic, count, 1, 100, first_sequence=first))

    def only_one_replica(self) -> None:
        """Stop one replica: records that are written from now on will be lost."""
        self.cluster.stop_broker(STAYS)
        self._down = {STAYS}

    def lose_it(self) -> None:
        """Kill the replica that has these records, and let the other one lead."""
        self.cluster.kill_broker(DIES)
        self._down = {DIES, STAYS}
        self.cluster.start_broker(STAYS)
        self._down = {DIES}
        self._wait_until_it_leads(STAYS)

    def heal(self) -> None:
        """Start the killed replica again, which follows the new leader."""
        self.cluster.start_broker(DIES)
        self._down = set()

    def _wait_until_it_leads(self, broker: int) -> None:
        def led() -> bool:
            found = self._admin.list_topics(self.topic, 10).topics[self.topic].partitions
            return bool(found) and found[0].leader == broker

        wait_until(led, f"broker {broker} to lead {self.topic}", _PATIENCE_SECONDS)
