"""A cluster with an authorizer, in memory and for real, and rules as hypothesis thinks of them.

``tests/contract/test_fences_contract.py`` runs the same promises on both.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from kit.clusters import Mortal
from mmtool.kafka.ports import Bounds, Problem
from mmtool.lab.artifacts import KAFKA_VERSION
from mmtool.lab.cluster import Cluster, Shape
from mmtool.lab.ports import PortReservation
from mmtool.plan.failover.acl_rules import EVERY_TOPIC, EVERYBODY, LITERAL, PREFIXED, AclFacts, Binding
from mmtool.plan.failover.fence_plan import (
    ActiveProducer,
    CannotTell,
    FenceFacts,
    OpenTransaction,
    fence_plan,
)
from mmtool.translation.types import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from kit.clusters import FakeCluster
    from mmtool.kafka.ports import FencePort
    from mmtool.plan.failover.fence_plan import FencePlan
    from mmtool.translation.types import TopicPartition

SUPER_USER = "User:boss"
PASSWORD = "secret"  # noqa: S105  of users that live as long as a test
USERS = ("boss", "mm", "alice", "bob", "carol")
_HERE = "127.0.0.1"


def may(bindings: Collection[Binding], principal: str, operation: str, topic: str) -> bool:
    """What Kafka's own authorizer answers to somebody at 127.0.0.1 who is no super user; default deny.

    ``AclAuthorizer`` and ``StandardAuthorizer``: a DENY wins, and ALL is every operation.
    """
    about = [
        binding
        for binding in bindings
        if binding.matches(topic)
        and binding.principal in {principal, EVERYBODY}
        and binding.host in {"*", _HERE}
        and binding.operation in {operation, "ALL"}
    ]
    permissions = {binding.permission for binding in about}
    return permissions == {"ALLOW"}


@dataclass
class FakeFences(Mortal):
    """A `FencePort` over a `FakeCluster`, and its producers.

    Attributes:
        rules: None for a cluster without an authorizer.
        own: Who mmtool is for the cluster.
        own_known: Whether mmtool knows that.
        stubborn: Rules that can neither be made nor deleted.
        undeletable: Rules that can be made and not be deleted.
        after_create: Called when rules were made, for what others do meanwhile.
    """

    cluster: FakeCluster
    rules: set[Binding] | None = field(default_factory=set)
    own: str = "User:mm"
    own_known: bool = True
    may_alter: bool = True
    super_users: frozenset[str] | Unknown = frozenset({SUPER_USER})
    allows_unruled: bool | Unknown = False
    hidden: CannotTell | None = None
    stubborn: set[Binding] = field(default_factory=set)
    undeletable: set[Binding] = field(default_factory=set)
    after_create: Callable[[], None] = lambda: None
    wrote: dict[TopicPartition, dict[int, ActiveProducer]] = field(default_factory=dict)
    transactional_ids: dict[int, str] = field(default_factory=dict)

    @property
    def alias(self) -> str:
        return self.cluster.alias

    @property
    def servers(self) -> str:
        return f"{self.cluster.alias}:9092"

    def facts(self, topics: Collection[str]) -> FenceFacts:
        places = [place for place in self.cluster.logs if place.topic in topics]
        told = {part.name: getattr(self.acls(), part.name) for part in fields(AclFacts)}
        rules = UNKNOWN if self.rules is None else self.bindings(topics)
        return FenceFacts(
            **{**told, "bindings": rules},
            topics=tuple(topics),
            own_writes=self.own_writes(topics),
            writers=self.hidden or self.writers(places),
        )

    def acls(self) -> AclFacts:
        self.cluster.answer()
        return AclFacts(
            UNKNOWN if self.rules is None else frozenset(self.rules),
            frozenset({self.own} if self.own_known else ()),
            self.own_known,
            self.may_alter,
            self.super_users,
            self.allows_unruled,
        )

    def bindings(self, topics: Collection[str]) -> frozenset[Binding]:
        return frozenset(rule for rule in self.rules or () if any(map(rule.matches, topics)))

    def own_writes(self, topics: Collection[str]) -> frozenset[str]:
        return frozenset(topic for topic in topics if may(self.rules or (), self.own, "WRITE", topic))

    def create(self, bindings: Collection[Binding]) -> dict[Binding, Problem]:
        self._rules().update(set(bindings) - self.stubborn)
        self.after_create()
        self.answer()
        return self._problems(self.stubborn.intersection(bindings))

    def remove(self, bindings: Collection[Binding]) -> dict[Binding, Problem]:
        self.answer()
        self._rules().difference_update(set(bindings) - self.undeletable)
        return self._problems(self._rules().intersection(bindings))

    def writers(self, places: Collection[TopicPartition]) -> dict[TopicPartition, tuple[ActiveProducer, ...]]:
        return {place: tuple(self.wrote.get(place, {}).values()) for place in places}

    def open_transactions(self, places: Collection[TopicPartition]) -> tuple[OpenTransaction, ...]:
        return tuple(
            OpenTransaction(
                place, w.producer_id, w.open_from, self.transactional_ids[w.producer_id], 0, 60_000
            )
            for place, writers in self.writers(places).items()
            for w in writers
            if w.open_from is not None
        )

    def produce(self, principal: str, place: TopicPartition, producer_id: int | None, count: int = 1) -> str:
        """Append as somebody; what a broker answers: empty, or Kafka's name for why not."""
        supers = frozenset() if self.super_users is UNKNOWN else self.super_users
        if principal not in supers and not may(self.rules or (), principal, "WRITE", place.topic):
            return "TOPIC_AUTHORIZATION_FAILED"
        self._append(place, count)
        if producer_id is not None:
            self._remember(place, producer_id, count)
        return ""

    def begin(self, principal: str, place: TopicPartition, transactional_id: str) -> Callable[[], None]:
        """Open a transaction with one record in it; what commits it."""
        producer_id = 1000 + len(self.transactional_ids)
        self.transactional_ids[producer_id] = transactional_id
        begins = self.cluster.logs[place].log_end
        assert not self.produce(principal, place, producer_id)
        self._replace(place, producer_id, open_from=begins)

        def commit() -> None:
            self._append(place, 1)  # the marker
            self._replace(place, producer_id, open_from=None)

        return commit

    def _append(self, place: TopicPartition, count: int) -> None:
        log = self.cluster.logs[place]
        self.cluster.logs[place] = Bounds(log.log_start, log.log_end + count)

    def _remember(self, place: TopicPartition, producer_id: int, count: int) -> None:
        known = self.wrote.setdefault(place, {}).get(producer_id)
        last = -1 if known is None or known.last_sequence is UNKNOWN else known.last_sequence
        self.wrote[place][producer_id] = ActiveProducer(producer_id, 0, last + count, 0)

    def _replace(self, place: TopicPartition, producer_id: int, open_from: int | None) -> None:
        known = self.wrote[place][producer_id]
        self.wrote[place][producer_id] = known._replace(open_from=open_from)

    def _rules(self) -> set[Binding]:
        assert self.rules is not None
        return self.rules

    def _problems(self, bindings: Collection[Binding]) -> dict[Binding, Problem]:
        return dict.fromkeys(bindings, Problem("UNKNOWN_SERVER_ERROR", "Broker: Unknown"))


# --- rules that might be there ----------------------------------------------------------------------------

TOPICS = ("orders", "orders-eu", "bills")

_told: st.SearchStrategy[bool | Unknown] = st.sampled_from([True, False, UNKNOWN])
_supers: st.SearchStrategy[frozenset[str] | Unknown] = st.sampled_from(
    [frozenset({SUPER_USER}), frozenset[str](), UNKNOWN]
)
_principals = st.sampled_from(["User:mm", "User:alice", "User:bob", SUPER_USER, EVERYBODY])
_resources = st.one_of(
    st.tuples(st.sampled_from([*TOPICS, "elsewhere", EVERY_TOPIC]), st.just(LITERAL)),
    st.tuples(st.sampled_from(["orders", "orders-", "o", "else"]), st.just(PREFIXED)),
)


@st.composite
def bindings(draw: st.DrawFn) -> Binding:
    """A rule: for some topics, somebody, some host."""
    name, pattern = draw(_resources)
    host = draw(st.sampled_from(["*", _HERE, "10.0.0.7"]))
    operation = draw(st.sampled_from(["WRITE", "ALL", "READ", "DESCRIBE"]))
    return Binding(
        name, pattern, draw(_principals), host, operation, draw(st.sampled_from(["ALLOW", "DENY"]))
    )


@st.composite
def fence_facts(draw: st.DrawFn) -> FenceFacts:
    """What any cluster might say of `TOPICS`, or of some of them."""
    topics = draw(st.lists(st.sampled_from(TOPICS), min_size=1, unique=True))
    rules = draw(st.frozensets(bindings(), max_size=8))
    return FenceFacts(
        topics=tuple(topics),
        bindings=frozenset(rule for rule in rules if any(map(rule.matches, topics))),
        own=draw(st.sampled_from([frozenset({"User:mm"}), frozenset[str]()])),
        own_complete=draw(st.booleans()),
        own_writes=frozenset(),
        may_alter=draw(_told),
        super_users=draw(_supers),
        allows_unruled=draw(_told),
        writers={},
    )


# --- a real one -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GuardedCluster:
    """A real cluster with an authorizer.

    Attributes:
        lab: Its plain listener is for super users: brokers among themselves, and whoever makes the scene.
        bootstrap: Where `USERS` connect, by SASL/PLAIN.
    """

    lab: Cluster
    bootstrap: str

    def client(self, user: str) -> dict[str, str]:
        """librdkafka's settings for one of the users."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": PASSWORD,
            "log_level": "2",
        }


@contextlib.contextmanager
def guarded_cluster(directory: Path, version: str = KAFKA_VERSION) -> Iterator[GuardedCluster]:
    """One broker with the StandardAuthorizer, `SUPER_USER`, and everybody else bound by rules."""
    ports = PortReservation()
    port = ports.take()
    try:
        with Cluster("guarded", directory, Shape(version=version, properties=_guarded(port))) as lab:
            yield GuardedCluster(lab, f"{_HERE}:{port}")
    finally:
        ports.release()


def _guarded(port: int) -> dict[str, str]:
    users = " ".join(f'user_{name}="{PASSWORD}"' for name in USERS)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    clients = f"CLIENTS://{_HERE}:{port}"
    own = f"PLAINTEXT://{_HERE}:{{port}}"
    return {
        "listeners": f"{own},CONTROLLER://{_HERE}:{{controller_port}},{clients}",
        "advertised.listeners": f"{own},{clients}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": f"{module} required {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;{SUPER_USER}",
    }


def plan_fence(port: FencePort, topics: Collection[str]) -> FencePlan:
    """An ACL fence for topics, by the ACLs that their cluster has now."""
    return fence_plan(port.facts(topics), port.alias)
