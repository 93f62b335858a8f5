"""The consumer groups of a real cluster, through librdkafka's admin client.

The client lives as long as this object: librdkafka drops the answers of a client that is gone. Requests about
many groups are sent together and awaited one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError
from confluent_kafka import TopicPartition as LibraryPartition
from confluent_kafka.admin import AdminClient

from mmtool.errors import MmtoolError, RefusedError
from mmtool.kafka.clients import librdkafka_config
from mmtool.kafka.errors import failure_of, is_passing
from mmtool.kafka.patience import NotNowError, ask, result
from mmtool.kafka.ports import Problem
from mmtool.plan.group_facts import ABSENT, Commit, GroupStanding, Member
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mmtool.config import ClusterSettings

_SPARE_SECONDS = 5.0
"""librdkafka ends a request itself when its time is up; waiting longer only guards against a lost answer."""

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
        def send(_: list[str]) -> dict[str, Any]:
            return {"all": self._client.list_consumer_groups(request_timeout=self._seconds)}

        return ask(["all"], send, self._listed_of, self._seconds)["all"]

    def _listed_of(self, _: str, future: Any) -> dict[str, str]:
        listed = self._result(future, "listing groups")
        for error in listed.errors:  # a coordinator that does not answer: its groups would look deleted
            failure = failure_of(self._cluster, error.args[0], "listing groups")
            raise NotNowError(failure) if is_passing(error.args[0]) else failure
        return {group.group_id: _word(group.state) for group in listed.valid}

    def commits(
        self, groups: Collection[str], *, stable: bool = False
    ) -> dict[str, dict[TopicPartition, Commit]]:
        def send(some: list[str]) -> dict[str, Any]:
            return {group: self._ask_commits(group, stable=stable) for group in some}

        return ask(groups, send, self._commits_of, self._seconds)

    def _ask_commits(self, group: str, *, stable: bool) -> Any:
        request = [ConsumerGroupTopicPartitions(group)]
        answers = self._client.list_consumer_group_offsets(
            request, require_stable=stable, request_timeout=self._seconds
        )
        return answers[group]

    def _commits_of(self, group: str, future: Any) -> dict[TopicPartition, Commit]:
        answer = self._result(future, f"reading the commits of group {group}", gone=True)
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
            open_one = UnstableOffsetError(
                f"group {group} has a transaction open over its offset of "
                f"{partition.topic}-{partition.partition} on {self._cluster.alias}",
                remedy="let its producer commit or abort, or wait for transaction.timeout.ms",
            )
            return NotNowError(open_one)  # one that has just been committed is open for a moment more
        what = f"reading group {group}'s commit of {partition.topic}-{partition.partition}"
        return failure_of(self._cluster, partition.error, what)

    def describe(self, groups: Collection[str]) -> dict[str, GroupStanding]:
        def send(some: list[str]) -> Any:
            return self._client.describe_consumer_groups(some, request_timeout=self._seconds)

        return ask(groups, send, self._standing_of, self._seconds)

    def _standing_of(self, group: str, future: Any) -> GroupStanding:
        # Kafka 4 answers an error for a group that is not there, older brokers the state Dead (KIP-1043)
        described = self._result(future, f"describing group {group}", gone=True)
        if described is None:
            return ABSENT
        members = tuple(Member(member.client_id, member.host) for member in described.members)
        return GroupStanding(_word(described.state), members)

    def alter(self, group: str, offsets: Mapping[TopicPartition, Commit]) -> dict[TopicPartition, Problem]:
        def send(some: list[str]) -> Any:
            # no leader epoch: the library's default is "none", and one of another cluster would hang consumers
            wanted = [
                LibraryPartition(place.topic, place.partition, commit.offset, commit.metadata)
                for place, commit in offsets.items()
            ]
            requests = [ConsumerGroupTopicPartitions(name, wanted) for name in some]
            return self._client.alter_consumer_group_offsets(requests, request_timeout=self._seconds)

        try:
            return ask([group], send, self._refused_of, self._seconds)[group]
        except _RefusedWhole as refused:
            return dict.fromkeys(offsets, refused.problem)

    def _refused_of(self, _: str, future: Any) -> dict[TopicPartition, Problem]:
        """What was refused; the same commit again does no harm, so a passing answer is asked again."""
        answer = result(future, self._seconds + _SPARE_SECONDS, lambda error: _RefusedWhole(_problem(error)))
        refused = {
            TopicPartition(p.topic, p.partition): p.error
            for p in answer.topic_partitions
            if p.error is not None
        }
        problems = {place: _problem(error) for place, error in refused.items()}
        if any(is_passing(error) for error in refused.values()):
            raise NotNowError(_RefusedWhole(next(iter(problems.values()))))
        return problems

    def _result(self, future: Any, what: str, *, gone: bool = False) -> Any:
        """A future's answer; with ``gone``, None when the group is not there."""

        def failure(error: Any) -> MmtoolError | None:
            if gone and error.code() == KafkaError.GROUP_ID_NOT_FOUND:
                return None
            return failure_of(self._cluster, error, what)

        return result(future, self._seconds + _SPARE_SECONDS, failure)


class _RefusedWhole(Exception):  # noqa: N818 - it carries an answer
    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def _problem(error: Any) -> Problem:
    return Problem(error.name(), error.str())


def _word(state: Any) -> str:
    return _WORDS.get(state.name, "Unknown")
