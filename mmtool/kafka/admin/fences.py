"""The `FencePort` of a real cluster: ACLs and active producers of topics, over the batch wire. Blocking."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from typing import TypeVar

from confluent_kafka import KafkaError

from mmtool.config import ClusterSettings
from mmtool.errors import NotAuthorisedError, RefusedError
from mmtool.kafka.clients import wire_cluster
from mmtool.kafka.errors import NO_LEADER, check_code, failure_of, is_passing, problem_of, unreachable
from mmtool.kafka.patience import RetriableError, handfuls
from mmtool.kafka.ports import NOT_ON_EVERY_BROKER, Problem
from mmtool.kafka.tokens.source import principal_of
from mmtool.kafka.wire.acls import (
    KNOWN_WORDS,
    AclOperation,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeClusterRequest,
)
from mmtool.kafka.wire.answers import answers_of
from mmtool.kafka.wire.blocking_client import BlockingWireClient
from mmtool.kafka.wire.cluster import ConnectionLostError, WireCluster, by_leader
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.metadata import DescribeBrokerConfigRequest, MetadataAnswer, MetadataRequest
from mmtool.kafka.wire.request import UnsupportedByBrokerError, WireRequest
from mmtool.kafka.wire.transactions import (
    DescribedTransaction,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    ProducerState,
)
from mmtool.plan.failover.acl_rules import LITERAL, TOPIC, AclFacts, Binding
from mmtool.plan.failover.fence_plan import ActiveProducer, CannotTell, FenceFacts, OpenTransaction
from mmtool.runtime.threads import within
from mmtool.translation.types import UNKNOWN, TopicPartition, Unknown

A = TypeVar("A")
B = TypeVar("B")

_SPARE_SECONDS = 5.0
_LOOK_SECONDS = 0.02
"""Seconds between two checks of whether each broker applies a change of ACLs."""
_CHANGE_TIMEOUT_MS = 100_000
"""Longer than a broker keeps forwarding a change to the controller (60 s, after one try of 30 s).

A client that gives up earlier may have its ACL created later: after a hung controller, a DENY existed that had been
removed (tests/chaos/test_fences_outage.py)."""
_ANSWER_SECONDS = 2.0
"""Seconds for one such check: the cluster soon drops a broker that hangs, so it need not be waited for."""
_PER_REQUEST = 500
_SUPER_USERS = "super.users"
_ALLOWS_UNRULED = "allow.everyone.if.no.acl.found"


class KafkaFences:
    """The `FencePort` of one cluster, connected at the first request.

    A rule is taken by the controller, and each broker goes by it once it has read it in the metadata log (KIP-801).
    On Kafka 4.3.1, from the request to where all brokers went by it: 30 to 40 ms with one broker; with three on a
    machine of two cores 60 to 400 ms, half of the times under 90, for one rule as for 200. Nothing relies on that:
    `create` and `remove` return when every broker lists, or lists no more, what was changed, and a broker decides by
    the very copy that it lists. A request that was let in just before is still appended:
    `mmtool.failover.fence.actions.watch_ends` waits for the ends to stand still.
    """

    def __init__(self, cluster: ClusterSettings, timeout_seconds: float) -> None:
        """Take the cluster's settings and the longest time of one request, in seconds."""
        self._cluster = cluster
        self._seconds = timeout_seconds
        wire = wire_cluster(cluster, "fences", role="admin", request_timeout_ms=_CHANGE_TIMEOUT_MS)
        self._wire = BlockingWireClient(wire, 2 * timeout_seconds + _SPARE_SECONDS, timeout_seconds)

    @property
    def alias(self) -> str:
        return self._cluster.alias

    @property
    def servers(self) -> str:
        return self._cluster.bootstrap_servers_for("admin")

    # --- facts --------------------------------------------------------------------------------------------

    def acls(self) -> AclFacts:
        return self._acls(self._listed(None))

    def facts(self, topics: Collection[str]) -> FenceFacts:
        acls = self._acls(_about(self._listed(), topics))
        told = {part.name: getattr(acls, part.name) for part in fields(acls)}
        return FenceFacts(
            **told,
            topics=tuple(topics),
            own_writes=self.own_writes(topics),
            writers=self._writers_or_why(topics),
        )

    def _acls(self, bindings: frozenset[Binding] | Unknown) -> AclFacts:
        async def may_alter(wire: WireCluster) -> bool | Unknown:
            try:
                answer = await self._any(wire, DescribeClusterRequest())
            except UnsupportedByBrokerError:  # before Kafka 2.8
                return UNKNOWN
            check_code(self._cluster, answer.error_code, "reading mmtool's rights")
            return UNKNOWN if answer.rights is UNKNOWN else answer.rights.may(AclOperation.ALTER)

        own, own_complete = own_principals(self._cluster)
        config = self._wire.ask(self._config, "reading super.users of the brokers")
        supers, unruled = config[_SUPER_USERS], config[_ALLOWS_UNRULED]
        return AclFacts(
            bindings,
            own,
            own_complete,
            self._wire.ask(may_alter, "reading mmtool's rights"),
            UNKNOWN if supers is UNKNOWN else _principals(supers),
            UNKNOWN if unruled is UNKNOWN else unruled.strip().lower() == "true",
        )

    def bindings(self, topics: Collection[str]) -> frozenset[Binding]:
        found = _about(self._listed(), topics)
        return frozenset() if found is UNKNOWN else found

    def topic_rules(self) -> frozenset[Binding] | Unknown:
        """Read every ACL on a topic by its whole name (LITERAL); UNKNOWN where the cluster has no authorizer.

        Raises:
            NotAuthorisedError: without DESCRIBE on the cluster.
        """
        found = self._listed()
        return UNKNOWN if found is UNKNOWN else frozenset(one for one in found if one.pattern == LITERAL)

    def own_writes(self, topics: Collection[str]) -> frozenset[str]:
        found = self._wire.ask(lambda wire: wire.refresh(topics, with_rights=True), "reading mmtool's rights")
        return frozenset(
            name
            for name, topic in found.items()
            if topic.rights is not UNKNOWN and topic.rights.may(AclOperation.WRITE)
        )

    def _listed(self, resource: str | None = TOPIC) -> frozenset[Binding] | Unknown:
        """The rules about one kind of resource, or about all kinds; UNKNOWN without an authorizer."""

        async def listed(wire: WireCluster) -> frozenset[Binding] | Unknown:
            answer = await self._any(wire, DescribeAclsRequest(resource=resource))
            if answer.error_code == Code.SECURITY_DISABLED:
                return UNKNOWN
            check_code(
                self._cluster, answer.error_code, "reading ACLs", "DESCRIBE on the cluster (to read ACLs)"
            )
            return answer.bindings

        return self._wire.ask(listed, "reading ACLs")

    async def _config(self, wire: WireCluster) -> dict[str, str | Unknown]:
        """The authorizer configs that matter to a fence, read from every broker; UNKNOWN where brokers differ."""
        names = (_SUPER_USERS, _ALLOWS_UNRULED)
        await wire.refresh(())
        requests = {node: DescribeBrokerConfigRequest(node, names) for node in wire.nodes}
        answers = (await answers_of(wire, requests, lost=())).values()
        if any(answer.error_code != Code.NONE for answer in answers):  # without DESCRIBE_CONFIGS
            return dict.fromkeys(names, UNKNOWN)
        shown = {name: {answer.values.get(name, "") for answer in answers} for name in names}
        return {
            name: UNKNOWN if len(values) > 1 or None in values else str(*values)
            for name, values in shown.items()
        }

    def _writers_or_why(
        self, topics: Collection[str]
    ) -> Mapping[TopicPartition, tuple[ActiveProducer, ...]] | CannotTell:
        found = self._wire.ask(lambda wire: wire.refresh(topics), "listing partitions")
        places = [TopicPartition(name, p.partition) for name, of in found.items() for p in of.partitions]
        try:
            return self.writers(places)
        except NotAuthorisedError as error:
            return CannotTell(error.message, error.remedy)
        except RefusedError as error:  # an upgrade is nothing for such a day: the plan has its own remedy
            return CannotTell(error.message)

    # --- changing -----------------------------------------------------------------------------------------

    def create(self, bindings: Collection[Binding]) -> dict[Binding, Problem]:
        return self._changed(bindings, CreateAclsRequest, there=True)

    def remove(self, bindings: Collection[Binding]) -> dict[Binding, Problem]:
        """See `FencePort.remove`; an ACL that could not be deleted and does not exist is no problem."""
        problems = self._changed(bindings, DeleteAclsRequest, there=False)
        listed = self._listed(_kind_of(problems)) if problems else frozenset()
        there = frozenset() if listed is UNKNOWN else listed
        return {b: why for b, why in problems.items() if why.name == NOT_ON_EVERY_BROKER or b in there}

    def _changed(
        self,
        bindings: Collection[Binding],
        request: Callable[[list[Binding]], WireRequest[list[int]]],
        *,
        there: bool,
    ) -> dict[Binding, Problem]:
        problems = self._sent(bindings, request)
        done = frozenset(bindings) - problems.keys()
        if done:
            problems |= self._wire.ask(lambda wire: self._settled(wire, done, there), "reading ACLs")
        return problems

    def _sent(
        self, bindings: Collection[Binding], request: Callable[[list[Binding]], WireRequest[list[int]]]
    ) -> dict[Binding, Problem]:
        """The refused changes; a retriable error raises instead, since the same change can be sent again."""
        problems: dict[Binding, Problem] = {}
        for some in handfuls(sorted(set(bindings)), _PER_REQUEST):

            async def change(wire: WireCluster, some: list[Binding] = some) -> None:
                answer = await self._any(wire, request(some))
                for binding, code in zip(some, answer, strict=True):
                    if is_passing(KafkaError(code)):
                        failure = failure_of(self._cluster, KafkaError(code), "changing ACLs")
                        raise RetriableError(failure)
                    if code != Code.NONE:
                        problems[binding] = problem_of(code)

            self._wire.ask(change, "changing ACLs")
        return problems

    def add(self, bindings: Collection[Binding]) -> dict[Binding, Problem]:
        """Create these ACLs as `create` does, without waiting until every broker applies them.

        An ACL whose operation or permission this release does not know is left out, as a problem.
        """
        unknown = [one for one in bindings if {one.operation, one.permission} - KNOWN_WORDS]
        problem = Problem("UNKNOWN", "mmtool does not know the operation or permission of this ACL")
        return dict.fromkeys(unknown, problem) | self._sent(set(bindings) - set(unknown), CreateAclsRequest)

    async def _settled(
        self,
        wire: WireCluster,
        changed: frozenset[Binding],
        there: bool,
    ) -> dict[Binding, Problem]:
        """Wait until every broker applies the changes; return those that some broker does not apply in time.

        A broker that has died counts as long as the cluster lists it.
        """
        deadline = asyncio.get_running_loop().time() + self._seconds
        while True:
            # one that hangs does not hide its own removal; one that joins reads the whole metadata log before it serves
            listed = {broker.node for one in (await _answering(wire)).values() for broker in one.brokers}
            nodes = [node for node in wire.nodes if not listed or node in listed]
            of_each = await asyncio.gather(*(self._late(wire, node, changed, there) for node in nodes))
            late = {node: of for node, of in zip(nodes, of_each, strict=True) if of}
            if not late:
                return {}
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        lags = "does not apply the new ACLs yet" if there else "still applies the removed ACLs"
        return {
            binding: Problem(NOT_ON_EVERY_BROKER, f"broker {node} {lags}, or does not answer")
            for node, of in late.items()
            for binding in of
        }

    async def _late(
        self,
        wire: WireCluster,
        node: int,
        changed: frozenset[Binding],
        there: bool,
    ) -> frozenset[Binding]:
        try:
            request = DescribeAclsRequest(resource=_kind_of(changed))
            answer = await within(_ANSWER_SECONDS, wire.send(node, request))
        except (ConnectionLostError, TimeoutError):
            return changed
        if answer.error_code != Code.NONE:
            return changed
        return changed - answer.bindings if there else changed & answer.bindings

    # --- who writes ---------------------------------------------------------------------------------------

    def writers(self, places: Collection[TopicPartition]) -> dict[TopicPartition, tuple[ActiveProducer, ...]]:
        found: dict[TopicPartition, tuple[ActiveProducer, ...]] = {}

        async def described(wire: WireCluster) -> None:
            left = sorted(place for place in places if place not in found)
            await wire.refresh({place.topic for place in left})
            if lone := [place for place in left if wire.leader(*place) is None]:
                why = f"{lone[0]} has no leader"
                raise RetriableError(unreachable(self.alias, "listing producers", why, NO_LEADER))
            asked = (
                wire.send(leader, DescribeProducersRequest(some))
                for leader, of in by_leader(wire, left).items()
                for some in handfuls(of, _PER_REQUEST)
            )
            for answer in await asyncio.gather(*asked):
                for place, (code, producers) in answer.items():
                    right = f"READ on topic {place.topic} (to list its producers)"
                    check_code(self._cluster, code, f"listing the producers of {place}", right)
                    found[place] = tuple(map(_writer, producers))

        try:
            self._wire.ask(described, "listing producers")
        except UnsupportedByBrokerError as error:
            raise RefusedError(
                f"brokers of {self.alias} cannot list producers (DescribeProducers needs Kafka 2.8 or later)",
                remedy=f"upgrade the brokers of {self.alias} to Kafka 2.8 or later",
            ) from error
        return found

    def open_transactions(self, places: Collection[TopicPartition]) -> tuple[OpenTransaction, ...]:
        found = [
            OpenTransaction(place, writer.producer_id, writer.open_from)
            for place, writers in sorted(self.writers(places).items())
            for writer in writers
            if writer.open_from is not None
        ]
        if not found:
            return ()
        shown = self._transactions({one.producer_id for one in found})
        return tuple(
            one._replace(
                transactional_id=name,
                since_ms=UNKNOWN if of.started_ms < 0 else of.started_ms,
                timeout_ms=of.timeout_ms,
            )
            if of is not None
            else one
            for one in found
            for name, of in [shown.get(one.producer_id, ("", None))]
        )

    def _transactions(self, producer_ids: Collection[int]) -> dict[int, tuple[str, DescribedTransaction]]:
        """Transactional ids and their transactions, by producer id, as far as mmtool may see them."""
        shown: dict[int, tuple[str, DescribedTransaction]] = {}

        async def of_broker(wire: WireCluster, node: int) -> None:
            listed = await wire.send(node, ListTransactionsRequest(sorted(producer_ids)))
            check_code(self._cluster, listed.error_code, "listing transactions")
            if ids := sorted(one.transactional_id for one in listed.transactions):
                described = await wire.send(node, DescribeTransactionsRequest(ids))
                shown.update(
                    (one.producer_id, (name, one))
                    for name, one in described.items()
                    if one.error_code == Code.NONE
                )

        async def asked(wire: WireCluster, node: int) -> None:
            with suppress(ConnectionLostError, RetriableError, TimeoutError):  # names are only shown
                await within(_ANSWER_SECONDS, of_broker(wire, node))

        async def of_all(wire: WireCluster) -> None:
            await asyncio.gather(*(asked(wire, node) for node in wire.nodes))

        with suppress(UnsupportedByBrokerError, NotAuthorisedError):  # before Kafka 3.0; without DESCRIBE
            self._wire.ask(of_all, "listing transactions")
        return shown

    # --- asking -------------------------------------------------------------------------------------------

    async def _any(self, wire: WireCluster, request: WireRequest[A]) -> A:
        """Send a request to a broker that has just answered another one.

        A broker that hangs could create the ACL when it wakes up, long after the fence was lowered.
        """
        for node in await _answering(wire):
            return await wire.send(node, request)
        await wire.refresh(())
        raise ConnectionLostError("no broker answers")


def _about(bindings: frozenset[Binding] | Unknown, topics: Collection[str]) -> frozenset[Binding] | Unknown:
    """The rules that apply to these topics."""
    if bindings is UNKNOWN:
        return UNKNOWN
    return frozenset(binding for binding in bindings if any(map(binding.matches, topics)))


def _kind_of(bindings: Iterable[Binding]) -> str | None:
    """The kind of resource that these rules are about; None for more than one: then every rule is listed."""
    kinds = {binding.resource for binding in bindings}
    return kinds.pop() if len(kinds) == 1 else None


async def _answering(wire: WireCluster) -> dict[int, MetadataAnswer]:
    """Ask all brokers for metadata together; return the answers that come within `_ANSWER_SECONDS`."""
    requests = dict.fromkeys(wire.nodes, MetadataRequest(()))
    return await answers_of(wire, requests, seconds=_ANSWER_SECONDS, lost=(Exception,))


def own_principals(cluster: ClusterSettings) -> tuple[frozenset[str], bool]:
    """mmtool's principals in all its roles, as the cluster's authorizer sees them; False where some are unknown.

    Each as `principal_of`.
    """
    known = [
        principal_of(cluster.alias, of_role)
        for of_role in (cluster.security, *cluster.role_security.values())
    ]
    return frozenset(name for name in known if name is not UNKNOWN), UNKNOWN not in known


def _principals(super_users: str) -> frozenset[str]:
    """The principals in ``User:a;User:b``; semicolons separate them, since a certificate's name has commas."""
    return frozenset(name.strip() for name in super_users.split(";") if name.strip())


def _writer(state: ProducerState) -> ActiveProducer:
    """A writer from a leader's producer state, in which -1 stands for none."""
    sequence, timestamp, coordinator_epoch = (UNKNOWN if n < 0 else n for n in state[2:5])
    open_from = None if state.open_from < 0 else state.open_from
    return ActiveProducer(state.producer_id, state.epoch, sequence, timestamp, coordinator_epoch, open_from)
