"""The consumer groups of a real cluster, through librdkafka's admin client.

The client lives as long as this object: librdkafka drops the answers of a client that is gone. Requests about
many groups are sent together and awaited one by one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as LibraryPartition
from confluent_kafka.admin import AdminClient

from mmtool.errors import RefusedError
from mmtool.kafka.clients import librdkafka_config
from mmtool.kafka.errors import failure_of
from mmtool.kafka.ports import Problem
from mmtool.plan.group_facts import ABSENT, Commit, GroupStanding, Member
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from mmtool.config import ClusterSettings

_AT_ONCE = 200
"""Groups asked about together: enough to hide round trips, few enough not to time out in a queue."""

_SPARE_SECONDS = 5.0
"""librdkafka ends a request itself when its time is up; waiting longer only guards against a lost answer."""

_SETTLE_SECONDS = 5.0
_POLL_SECONDS = 0.1

_WORDS = {
    "EMPTY": "Empty",
    "DEAD": "Dead",
    "STABLE": "Stable",
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "ASSIGNING": "Assigning",
    "RECONCILING": "Reconciling",
}


class UnstableOffsetError(RefusedError):
    """A transaction is open over a group's offset: what is committed is not its last word (KIP-447)."""

    code = "unstable_offset"


class KafkaGroups:
    """A `GroupsPort`. One admin client, connected at the first request."""

    def __init__(self, cluster: ClusterSettings, timeout_seconds: float) -> None:
        """Say whose groups, and how long one request may take."""
        self._cluster = cluster
        self._seconds = timeout_seconds
        config = librdkafka_config(cluster, role="admin", client_id_suffix="groups")
        self._client = AdminClient(config)

    def fresh(self) -> KafkaGroups:
        return KafkaGroups(self._cluster, self._seconds)

    def list_groups(self) -> dict[str, str]:
        asked = self._client.list_consumer_groups(request_timeout=self._seconds)
        listed = self._result(asked, "listing groups")
        for error in listed.errors:  # a coordinator that does not answer: its groups would look deleted
            raise failure_of(self._cluster, error.args[0], "listing groups") from error
        return {group.group_id: _word(group.state) for group in listed.valid}

    def commits(
        self, groups: Collection[str], *, stable: bool = False
    ) -> dict[str, dict[TopicPartition, Commit]]:
        deadline = time.monotonic() + min(_SETTLE_SECONDS, self._seconds)
        while True:
            try:
                return self._commits(groups, stable=stable)
            except (
                UnstableOffsetError
            ):  # a transaction that has just been committed is open for a moment more
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS)

    def _commits(self, groups: Collection[str], *, stable: bool) -> dict[str, dict[TopicPartition, Commit]]:
        found: dict[str, dict[TopicPartition, Commit]] = {}
        for some in _chunks(groups):
            asked = {group: self._ask_commits(group, stable=stable) for group in some}
            found |= {group: self._commits_of(group, future) for group, future in asked.items()}
        return found

    def _ask_commits(self, group: str, *, stable: bool) -> Any:
        request = [ConsumerGroupTopicPartitions(group)]
        answers = self._client.list_consumer_group_offsets(
            request, require_stable=stable, request_timeout=self._seconds
        )
        return answers[group]

    def _commits_of(self, group: str, future: Any) -> dict[TopicPartition, Commit]:
        what = f"reading the commits of group {group}"
        answer = self._result(future, what, gone=KafkaError.GROUP_ID_NOT_FOUND)
        if answer is None:
            return {}
        for partition in answer.topic_partitions:
            if partition.error is not None:
                raise self._unreadable(group, partition)
        return {
            TopicPartition(p.topic, p.partition): Commit(p.offset, p.metadata or "")
            for p in answer.topic_partitions
            if p.offset >= 0  # Kafka's own word for "no commit" in this answer is -1
        }

    def _unreadable(self, group: str, partition: Any) -> Exception:
        if partition.error.code() == KafkaError.UNSTABLE_OFFSET_COMMIT:
            return UnstableOffsetError(
                f"group {group} has a transaction open over its offset of "
                f"{partition.topic}-{partition.partition} on {self._cluster.alias}",
                remedy="let its producer commit or abort, or wait for transaction.timeout.ms",
            )
        what = f"reading group {group}'s commit of {partition.topic}-{partition.partition}"
        return failure_of(self._cluster, partition.error, what)

    def describe(self, groups: Collection[str]) -> dict[str, GroupStanding]:
        standings: dict[str, GroupStanding] = {}
        for some in _chunks(groups):
            asked = self._client.describe_consumer_groups(some, request_timeout=self._seconds)
            standings |= {group: self._standing_of(group, asked[group]) for group in some}
        return standings

    def _standing_of(self, group: str, future: Any) -> GroupStanding:
        # Kafka 4 answers an error for a group that is not there, older brokers the state Dead (KIP-1043)
        described = self._result(future, f"describing group {group}", gone=KafkaError.GROUP_ID_NOT_FOUND)
        if described is None:
            return ABSENT
        members = tuple(Member(member.client_id, member.host) for member in described.members)
        return GroupStanding(_word(described.state), members)

    def alter(self, group: str, offsets: Mapping[TopicPartition, Commit]) -> dict[TopicPartition, Problem]:
        # no leader epoch: the library's default is "none", and one of another cluster would hang consumers
        wanted = [
            LibraryPartition(place.topic, place.partition, commit.offset, commit.metadata)
            for place, commit in offsets.items()
        ]
        request = [ConsumerGroupTopicPartitions(group, wanted)]
        asked = self._client.alter_consumer_group_offsets(request, request_timeout=self._seconds)
        try:
            answer = asked[group].result(self._seconds + _SPARE_SECONDS)
        except KafkaException as error:
            return dict.fromkeys(offsets, _problem(error.args[0]))
        return {
            TopicPartition(p.topic, p.partition): _problem(p.error)
            for p in answer.topic_partitions
            if p.error is not None
        }

    def _result(self, future: Any, what: str, *, gone: int | None = None) -> Any:
        """A future's answer; None when it is the error ``gone``."""
        try:
            return future.result(self._seconds + _SPARE_SECONDS)
        except KafkaException as error:
            if error.args[0].code() == gone:
                return None
            raise failure_of(self._cluster, error.args[0], what) from error


def _problem(error: Any) -> Problem:
    return Problem(error.name(), error.str())


def _word(state: Any) -> str:
    return _WORDS.get(state.name, "Unknown")


def _chunks(groups: Collection[str]) -> Iterator[list[str]]:
    ordered = list(groups)
    for start in range(0, len(ordered), _AT_ONCE):
        yield ordered[start : start + _AT_ONCE]
