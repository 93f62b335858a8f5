"""What a fence promises, on the fake and on a real broker with an authorizer alike."""

import itertools
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from confluent_kafka import KafkaException, Producer

from kit.acls import Acls, rule
from kit.clusters import FakeCluster
from kit.fences import PASSWORD, FakeFences, guarded_cluster, plan_fence
from mmtool.config import ClusterSettings
from mmtool.config.credentials import PasswordLogin, Security
from mmtool.errors import GateError, NotAuthorisedError, RefusedError
from mmtool.failover.fence.actions import (
    StrayProducersError,
    await_transactions,
    lower_fence,
    raise_fence,
    watch_ends,
)
from mmtool.failover.fence.promotion import do, undo
from mmtool.kafka.admin.cluster_facts import KafkaCluster
from mmtool.kafka.admin.fences import KafkaFences
from mmtool.kafka.wire.acls import DescribeClusterRequest
from mmtool.kafka.wire.transactions import DescribeProducersRequest
from mmtool.lab.topics import create_topic
from mmtool.plan.failover.acl_promotion import Promotion
from mmtool.plan.failover.acl_rules import ANY_HOST, CLUSTER, LITERAL, PREFIXED, TRANSACTIONAL_ID, Binding
from mmtool.translation.types import UNKNOWN, ClusterId, TopicPartition

SECONDS = 20.0


class OnFake:
    """A cluster in memory."""

    def __init__(self):
        self.cluster = FakeCluster("lab", ClusterId("fake-cluster"))
        self.fences = FakeFences(self.cluster)
        self.ids = itertools.count(1)

    def create(self, topic):
        self.cluster.add_topic(topic, f"id-{topic}", 0, 0)

    def allow(self, user, name, pattern=LITERAL):
        self.fences.rules.add(Binding(name, pattern, f"User:{user}", ANY_HOST, "WRITE", "ALLOW"))

    def producer(self, user, *, idempotent=True):
        return FakeProducer(self.fences, user, next(self.ids) if idempotent else None)

    def begin(self, user, topic, transactional_id):
        return self.fences.begin(f"User:{user}", TopicPartition(topic, 0), transactional_id)


@dataclass
class FakeProducer:
    fences: FakeFences
    user: str
    producer_id: int | None

    def send(self, topic, count=1):
        return self.fences.produce(f"User:{self.user}", TopicPartition(topic, 0), self.producer_id, count)


@dataclass
class RealProducer:
    client: Producer
    answers: list = field(default_factory=list)

    def send(self, topic, count=1):
        """What the broker says to the last of some records: empty when it took it."""
        self.answers.clear()
        for _ in range(count):
            self.client.produce(topic, b"x", partition=0, on_delivery=self._heard)
        self.client.flush(SECONDS)
        return self.answers[-1] if len(self.answers) == count else "no answer"

    def _heard(self, error, _message):
        self.answers.append(error.name() if error else "")


class OnBroker:
    """A real one; mmtool has the rights that a fence needs, and no more."""

    def __init__(self, guarded):
        self.guarded = guarded
        self.acls = Acls(guarded.lab.bootstrap)
        sasl = PasswordLogin(mechanism="PLAIN", username="mm", password=PASSWORD)
        security = Security(protocol="SASL_PLAINTEXT", sasl=sasl)
        settings = ClusterSettings(alias="lab", bootstrap_servers=guarded.bootstrap, security=security)
        self.cluster = KafkaCluster(settings, timeout_seconds=SECONDS)
        self.fences = KafkaFences(settings, timeout_seconds=SECONDS)
        self.acls.make(
            rule("kafka-cluster", "mm", "ALTER", CLUSTER),
            rule("kafka-cluster", "mm", "DESCRIBE", CLUSTER),
            rule("*", "mm", "READ"),
            rule("*", "mm", "DESCRIBE", TRANSACTIONAL_ID),
        )

    def create(self, topic):
        create_topic(self.guarded.lab.bootstrap, topic, 2)

    def allow(self, user, name, pattern=LITERAL):
        self.acls.make(rule(name, user, "WRITE", pattern=pattern))

    @contextmanager
    def without(self, resource, name, operation):
        """A right that mmtool lacks for a while."""
        denied = rule(name, "mm", operation, resource, permission="DENY")
        self.acls.make(denied)
        yield
        self.acls.delete(denied)

    def producer(self, user, *, idempotent=True):
        return RealProducer(Producer({**self._config(user), "enable.idempotence": idempotent}))

    def begin(self, user, topic, transactional_id):
        self.acls.make(rule(transactional_id, user, "WRITE", TRANSACTIONAL_ID))
        producer = Producer({**self._config(user), "transactional.id": transactional_id})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        producer.produce(topic, b"x", partition=0)
        producer.flush(SECONDS)
        return lambda: producer.commit_transaction(SECONDS)

    def _config(self, user):
        return self.guarded.client(user) | {"linger.ms": 0, "message.timeout.ms": 15_000}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    with guarded_cluster(tmp_path_factory.mktemp("guarded")) as cluster:
        yield cluster


@pytest.fixture
def fake():
    return OnFake()


@pytest.fixture
def broker(guarded):
    return OnBroker(guarded)


@pytest.fixture(params=["fake", pytest.param("broker", marks=pytest.mark.kafka)])
def side(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def topic(side, topic_name):
    """That alice may write, by a rule about how its name begins."""
    name = topic_name("orders")
    side.create(name)
    side.allow("alice", name[:-1], PREFIXED)
    return name


def raised(side, *topics):
    return raise_fence(side.fences, plan_fence(side.fences, topics))


def places(topic):
    return [TopicPartition(topic, 0), TopicPartition(topic, 1)]


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
def test_a_fenced_producer_is_refused_and_may_write_again_afterwards(side, topic, idempotent):
    producer = side.producer("alice", idempotent=idempotent)
    before = producer.send(topic)
    created = raised(side, topic)
    fenced = side.producer("alice", idempotent=idempotent).send(topic)
    still = producer.send(topic)
    lower_fence(side.fences, created)
    after = side.producer("alice", idempotent=idempotent).send(topic)
    assert (before, fenced, still, after) == ("", *["TOPIC_AUTHORIZATION_FAILED"] * 2, "")


def test_a_fence_is_one_rule_for_each_writer_of_each_topic(side, topic, topic_name):
    other = topic_name("bills")
    side.create(other)
    side.allow("bob", other)
    side.allow("alice", other)
    assert [(deny.principal, deny.name) for deny in raised(side, topic, other)] == [
        ("User:alice", other),
        ("User:alice", topic),
        ("User:bob", other),
    ]


def test_a_lowered_fence_leaves_the_rules_of_before(side, topic):
    side.allow("bob", topic)
    before = side.fences.bindings([topic])
    created = raised(side, topic)
    between = side.fences.bindings([topic])
    lower_fence(side.fences, created)
    assert between == before | set(created)
    assert (side.fences.bindings([topic]), len(created)) == (before, 2)


def test_a_fence_may_be_raised_and_lowered_twice(side, topic):
    plan = plan_fence(side.fences, [topic])
    before = side.fences.bindings([topic])
    created = {raise_fence(side.fences, plan), raise_fence(side.fences, plan)}
    for denies in [*created, *created]:
        lower_fence(side.fences, denies)
    assert (created, side.fences.bindings([topic])) == ({plan.denies}, before)


def test_a_rule_that_denies_it_already_is_not_made_and_so_not_taken_away(side, topic):
    created = raised(side, topic)
    assert plan_fence(side.fences, [topic]).denies == ()
    lower_fence(side.fences, created)


def test_rules_on_every_kind_of_resource_are_created_listed_and_removed(side, topic):
    """What a promotion creates; rules of before stay, and a second call changes nothing."""
    before = side.fences.acls().bindings
    rights = [
        Binding(topic, LITERAL, "User:dora", ANY_HOST, "WRITE", "ALLOW"),
        Binding(f"{topic}-", PREFIXED, "User:dora", "10.0.0.7", "WRITE", "ALLOW", TRANSACTIONAL_ID),
        Binding("kafka-cluster", LITERAL, "User:dora", ANY_HOST, "IDEMPOTENT_WRITE", "ALLOW", CLUSTER),
    ]
    for _ in range(2):
        assert side.fences.create(rights) == {}
        assert side.fences.acls().bindings == before | set(rights)
    for _ in range(2):
        assert side.fences.remove(rights) == {}
        assert side.fences.acls().bindings == before


def test_a_promoted_producer_may_write_until_that_is_undone(side, topic):
    right = Binding(topic, LITERAL, "User:bob", ANY_HOST, "WRITE", "ALLOW")
    promotion, told = Promotion(is_asked_for=True, acls=(right,)), []
    for change in (None, do, undo):
        if change is not None:
            change(side.fences, promotion)
        told.append(
            side.producer("bob", idempotent=False).send(topic)
        )  # a client remembers that it was refused
    assert told == ["TOPIC_AUTHORIZATION_FAILED", "", "TOPIC_AUTHORIZATION_FAILED"]


def test_who_has_produced_is_told(side, topic):
    producer = side.producer("alice")
    producer.send(topic, 3)
    writers = side.fences.writers(places(topic))
    ((writer,), nobody) = (writers[place] for place in places(topic))
    assert (writer.last_sequence, writer.open_from, nobody) == (2, None, ())


def test_a_producer_without_idempotence_leaves_no_trace(side, topic):
    side.producer("alice", idempotent=False).send(topic, 3)
    assert side.fences.writers(places(topic)) == dict.fromkeys(places(topic), ())


def test_an_open_transaction_is_listed_and_ends_the_wait_when_it_is_committed(side, topic):
    commit = side.begin("alice", topic, f"tx-{topic}")
    (listed,) = side.fences.open_transactions(places(topic))
    (writer,) = side.fences.writers(places(topic))[places(topic)[0]]
    assert (listed.place, listed.producer_id, listed.open_from, listed.transactional_id) == (
        places(topic)[0],
        writer.producer_id,
        0,
        f"tx-{topic}",
    )
    assert UNKNOWN not in listed
    created = raised(side, topic)
    with pytest.raises(GateError, match=f"producer id {writer.producer_id} \\(tx-{topic}\\) in {topic}-0"):
        await_transactions(side.fences, places(topic), 0.3)
    commit()  # a fence lets it end
    await_transactions(side.fences, places(topic), SECONDS)
    lower_fence(side.fences, created)


def test_ends_that_stand_still_are_told(side, topic):
    side.producer("alice").send(topic, 4)
    created = raised(side, topic)
    ends = watch_ends(side.cluster, side.fences, places(topic), 0.5)
    lower_fence(side.fences, created)
    assert ends == dict(zip(places(topic), (4, 0), strict=True))


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
def test_a_stray_super_user_is_named_by_the_watch(side, topic, idempotent):
    side.producer("alice").send(topic)
    raised(side, topic)
    stray = side.producer("boss", idempotent=idempotent)

    def pause(seconds):
        stray.send(topic, 2)

    with pytest.raises(StrayProducersError, match="still move") as caught:
        watch_ends(side.cluster, side.fences, places(topic), 2.0, pause)
    (seen,) = caught.value.strays
    assert (seen.place, seen.came, len(seen.producers)) == (places(topic)[0], 2, int(idempotent))
    after = {writer.producer_id for writer in side.fences.writers(places(topic))[places(topic)[0]]}
    assert {writer.producer_id for writer in seen.producers} <= after
    assert ("without idempotence" in caught.value.message) is not idempotent


def test_what_was_let_in_before_the_fence_is_not_taken_for_a_stray(side, topic):
    late = iter([side.producer("alice")])

    def pause(seconds):
        for producer in late:
            producer.send(topic, 5)

    assert watch_ends(side.cluster, side.fences, places(topic), 1.0, pause)[places(topic)[0]] == 5


def test_a_principal_that_everybody_is_is_never_denied(side, topic):
    side.allow("*", topic)
    plan = plan_fence(side.fences, [topic])
    assert ([deny.principal for deny in plan.denies], [guard.code for guard in plan.guards]) == (
        ["User:alice"],
        ["everybody_may_write"],
    )


def test_mmtool_is_never_denied(side, topic):
    side.allow("mm", topic)
    plan = plan_fence(side.fences, [topic])
    assert [deny.principal for deny in plan.denies] == ["User:alice"]
    assert "own_principal_writes" in [warning.code for warning in plan.warnings]
    created = raise_fence(side.fences, plan)
    assert side.producer("mm").send(topic) == ""
    lower_fence(side.fences, created)


# --- on a real broker alone -------------------------------------------------------------------------------


@pytest.mark.kafka
def test_a_broker_hides_who_its_super_users_are(broker, topic_name):
    """Which is why a fence says so: it cannot refuse one that it does not know."""
    topic = topic_name("orders")
    broker.create(topic)
    broker.acls.make(rule("kafka-cluster", "mm", "DESCRIBE_CONFIGS", CLUSTER))
    facts = broker.fences.facts([topic])
    assert (facts.super_users, facts.allows_unruled, facts.may_alter) == (UNKNOWN, False, True)
    assert facts.own == {"User:mm"}


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("kind", "operation", "code"),
    [
        (CLUSTER, "ALTER", "may_not_alter_acls"),
        ("TOPIC", "READ", "producers_unknown"),
    ],
    ids=["alter", "read"],
)
def test_a_right_that_mmtool_lacks_forbids_the_fence(broker, topic_name, kind, operation, code):
    topic = topic_name("orders")
    broker.create(topic)
    with broker.without(kind, "kafka-cluster" if kind == CLUSTER else topic, operation):
        guards = plan_fence(broker.fences, [topic]).guards
    assert [guard.code for guard in guards] == [code]


@pytest.mark.kafka
def test_a_fence_that_mmtool_may_not_raise_after_all_changes_nothing(broker, topic_name):
    topic = topic_name("orders")
    broker.create(topic)
    broker.allow("alice", topic)
    plan, before = plan_fence(broker.fences, [topic]), broker.fences.bindings([topic])
    with (
        broker.without(CLUSTER, "kafka-cluster", "ALTER"),
        pytest.raises(RefusedError, match="CLUSTER_AUTHORIZATION_FAILED"),
    ):
        raise_fence(broker.fences, plan)
    assert broker.fences.bindings([topic]) == before


@pytest.mark.kafka
def test_a_principal_of_mmtool_s_that_it_does_not_know_is_not_kept_from_writing(
    broker, topic_name, monkeypatch
):
    """As with a client certificate, whose principal the brokers make."""
    topic = topic_name("orders")
    broker.create(topic)
    broker.allow("mm", topic)
    before = broker.fences.bindings([topic])
    monkeypatch.setattr("mmtool.kafka.admin.fences.own_principals", lambda _: (frozenset(), False))
    with pytest.raises(RefusedError, match=f"denies mmtool itself WRITE on {topic}"):
        raised(broker, topic)
    assert (broker.fences.bindings([topic]), broker.producer("mm").send(topic)) == (before, "")


@pytest.mark.kafka
def test_a_transaction_whose_name_we_may_not_see_is_listed_without_it(broker, topic_name):
    topic = topic_name("orders")
    broker.create(topic)
    broker.allow("alice", topic)
    commit = broker.begin("alice", topic, f"tx-{topic}")
    with broker.without(TRANSACTIONAL_ID, "*", "DESCRIBE"):
        (listed,) = broker.fences.open_transactions([TopicPartition(topic, 0)])
    commit()
    assert (listed.open_from, listed.transactional_id, listed.since_ms) == (0, UNKNOWN, UNKNOWN)


@pytest.mark.kafka
def test_brokers_before_2_8_do_not_tell_who_produces(broker, topic_name, monkeypatch):
    """Every version of ours is too new for them."""
    topic = topic_name("orders")
    broker.create(topic)
    for request in (DescribeProducersRequest, DescribeClusterRequest):
        monkeypatch.setattr(request, "VERSIONS", (99,))
    facts = broker.fences.facts([topic])
    assert facts.may_alter is UNKNOWN
    assert "cannot list producers" in facts.writers.why


@pytest.mark.kafka
def test_a_cluster_that_does_not_show_its_rules_is_named(broker, topic_name):
    topic = topic_name("orders")
    broker.create(topic)
    with (
        broker.without(CLUSTER, "kafka-cluster", "DESCRIBE"),
        pytest.raises(NotAuthorisedError, match=r"DESCRIBE on the cluster \(to read ACLs\)"),
    ):
        plan_fence(broker.fences, [topic])


@pytest.mark.kafka
def test_a_cluster_without_an_authorizer_has_no_fences(fleet, topic_name):
    settings = ClusterSettings(alias="lab", bootstrap_servers=fleet["source"].bootstrap)
    topic = topic_name("open")
    create_topic(fleet["source"].bootstrap, topic, 1)
    plan = plan_fence(KafkaFences(settings, SECONDS), [topic])
    assert ([guard.code for guard in plan.guards], plan.denies) == (["no_authorizer"], ())


@pytest.mark.kafka
def test_a_transactional_producer_behind_a_fence_can_begin_nothing_new(broker, topic_name):
    topic = topic_name("orders")
    broker.create(topic)
    broker.allow("carol", topic)
    commit = broker.begin("carol", topic, f"tx-{topic}")
    created = raised(broker, topic)
    commit()
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        broker.begin("carol", topic, f"tx-{topic}")()
    lower_fence(broker.fences, created)
