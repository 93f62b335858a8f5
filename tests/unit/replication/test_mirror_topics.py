"""What may be mirrored into which topics: hidden ones, the limits of target topics, and what is refused."""

import asyncio
from types import SimpleNamespace

import pytest

from mmtool.config import load_settings
from mmtool.config.names import NameFilter
from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.kafka.admin.topics import TrialResult
from mmtool.kafka.ports import Problem
from mmtool.kafka.wire.cluster import WireCluster
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.metadata import TopicMetadata
from mmtool.plan.records.identity import CANARY_TOPIC, PRODUCERS_TOPIC
from mmtool.plan.topics.configs import FOR_EVER, ConfigEntry, ConfigOrigin, SetConfig, TargetLimits
from mmtool.plan.topics.facts import missing_right
from mmtool.replication.driver.context import FlowContext
from mmtool.replication.ownership.checks import _check_shown
from mmtool.replication.topics.mirror_topics import MirrorTopics
from mmtool.translation.blocks import MirroredPartition
from mmtool.translation.types import ClusterId, TopicId

UPSTREAM, DOWNSTREAM = TopicId("up"), TopicId("down")
ABOUT = MirroredPartition(ClusterId("s"), ClusterId("t"), UPSTREAM, 0, "orders", "a.orders", DOWNSTREAM)
UNKNOWN_TOPIC = 3


class Answers:
    """A cluster whose metadata changes from one look to the next; the last answer stays."""

    def __init__(self, *answers):
        self.answers = list(answers)

    async def refresh(self, _):
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return {topic.name: topic for topic in found}

    check_denied = WireCluster.check_denied
    alias = "b"


class Admin:
    """Keeps what it is asked to make."""

    def __init__(self):
        self.made = []

    def configs(self, names):
        return {name: {} for name in names}

    def create_adjusted(self, steps):
        self.made += steps
        return TrialResult()

    def grow(self, steps):
        self.made += steps
        return {}

    def replicas(self, names):
        return dict.fromkeys(names, 1)


def topic(name, topic_id, error=0):
    return TopicMetadata(name, topic_id, error, [] if error else [object()])


THERE = topic("a.orders", DOWNSTREAM)
LISTED = [topic("orders", UPSTREAM)]
MISSING = topic("a.orders", TopicId(""), UNKNOWN_TOPIC)


@pytest.fixture
def settings(tmp_path):
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = a, b\na.bootstrap.servers = localhost:1\nb.bootstrap.servers = localhost:2\n"
        "a->b.enabled = true\na->b.topics = orders|o{249}\n"
    )
    (flow,) = load_settings(path, {}).flows
    return flow


@pytest.fixture
def look(settings):
    """``look(answers of the target...)``: the view of one refresh, and what was made."""

    def one(*answers, seconds=0.5, source=(LISTED,), looks=1):
        flow = FlowContext(settings, None, Answers(*source), Answers(*answers))
        target = Admin()
        topics = MirrorTopics(flow, Admin(), target, settle_seconds=seconds)
        for _ in range(looks):
            view = asyncio.run(topics.refresh({UPSTREAM: ABOUT}))
        return view, target.made

    return one


def test_a_counterpart_that_one_broker_has_not_heard_of_is_still_mirrored(look):
    view, made = look([MISSING], [], [THERE])
    assert (list(view.topics), view.refused, made) == (["orders"], {}, [])


@pytest.mark.parametrize(
    ("found", "why"),
    [(MISSING, "a.orders was deleted"), (topic("a.orders", TopicId("another")), "deleted and created again")],
)
def test_a_counterpart_that_stays_away_or_has_another_id_is_not_made_again(look, found, why):
    view, made = look([found])
    assert (view.topics, made, why in view.refused["orders"]) == ({}, [], True)


GONE = topic("orders", TopicId(""), UNKNOWN_TOPIC)
DENIED = topic("orders", TopicId(""), 29)


def test_a_mirrored_topic_that_the_source_has_no_more_is_told_of_as_deleted(look):
    """After a while at a later look, at once at the first."""
    view, _ = look([THERE], source=(LISTED, [], [GONE]), looks=2)
    first, _ = look([THERE], source=([], [GONE]), seconds=99)
    assert (list(view.topics), list(view.deleted), list(first.deleted)) == ([], ["orders"], ["orders"])
    assert view.gone == first.gone == {"orders"}


def test_a_source_topic_that_one_broker_has_not_heard_of_is_still_mirrored(look):
    view, _ = look([THERE], source=(LISTED, [], [GONE], LISTED), looks=2)
    assert (list(view.topics), view.deleted) == (["orders"], {})


def test_a_source_topic_that_may_not_be_looked_at_any_more_is_refused_and_not_called_deleted(look):
    view, _ = look([THERE], source=([], [DENIED]))
    assert (view.topics, view.deleted) == ({}, {})
    assert view.refused == {"orders": missing_right("DESCRIBE on source topic orders")}


@pytest.mark.parametrize("on_record", [{UPSTREAM: ABOUT}, {}], ids=["mirrored", "new"])
def test_a_target_topic_that_may_not_be_looked_at_is_refused_and_no_other(settings, on_record):
    """Whether it is there nobody knows, so it is neither made nor called deleted."""
    other = topic("payments", TopicId("other"))
    hidden, there = topic("a.orders", TopicId(""), 29), topic("a.payments", TopicId("down too"))
    wanted = settings.model_copy(update={"topics": NameFilter(("orders", "payments"))})
    flow = FlowContext(wanted, None, Answers([*LISTED, other]), Answers([hidden], [hidden, there]))
    target = Admin()
    view = asyncio.run(MirrorTopics(flow, Admin(), target, settle_seconds=0).refresh(on_record))
    assert (list(view.topics), [made.name for made in target.made]) == (["payments"], ["a.payments"])
    assert view.refused == {"orders": missing_right("DESCRIBE on target topic a.orders")}


def test_a_source_topic_that_hides_its_configuration_is_not_made_like_any_other_and_keeps_none_back(settings):
    """Made without ``cleanup.policy = compact``, its mirror would lose records."""
    wanted = settings.model_copy(update={"topics": NameFilter(("orders", "payments"))})
    made = topic("a.payments", TopicId("down too"))
    source = Answers([*LISTED, topic("payments", TopicId("other"))])
    flow = FlowContext(wanted, None, source, Answers([], [made]))
    shy, target = Admin(), Admin()
    shy.configs = lambda names: {name: {} for name in names if name != "orders"}
    view = asyncio.run(MirrorTopics(flow, shy, target, settle_seconds=0).refresh({}))
    assert (list(view.topics), [one.name for one in target.made]) == (["payments"], ["a.payments"])
    assert "topic orders of a does not show its configuration: check that" in view.refused["orders"]


def test_that_the_source_has_shown_its_register_of_producers_is_remembered_when_it_is_hidden(settings):
    register = topic(PRODUCERS_TOPIC, TopicId("register"))
    flow = FlowContext(settings, None, Answers(LISTED, [*LISTED, register], LISTED), Answers([THERE]))
    topics, seen = MirrorTopics(flow, Admin(), Admin()), []
    for _ in range(3):
        asyncio.run(topics.matched())
        seen.append(flow.shows_register)
    assert seen == [False, True, True]


def test_a_canary_that_is_mirrored_anyhow_does_not_hide_a_filter_that_means_nothing(settings):
    wanted = settings.model_copy(update={"topics": NameFilter((".*",))})
    flow = FlowContext(wanted, None, Answers([topic(CANARY_TOPIC, TopicId("canary"))]), Answers([]))
    topics = MirrorTopics(flow, Admin(), Admin())
    assert (asyncio.run(topics.wanted()), asyncio.run(topics.matched())) == ([CANARY_TOPIC], [])


class Limits(Admin):
    """A target whose topic takes another size from one look to the next; None: nobody tells now."""

    def __init__(self, *sizes):
        super().__init__()
        self.sizes = list(sizes)

    def configs(self, names):
        if not names:
            return {}
        size = self.sizes.pop(0)
        if size is None:
            raise UnreachableError("no answer")
        return {name: {SIZE: ConfigEntry(size, ConfigOrigin.OVERRIDE, on_topic=True)} for name in names}


SIZE = "max.message.bytes"


def test_a_limit_that_is_raised_on_the_target_is_heard_of_while_the_flow_runs(settings):
    """A record that halts its partition, or goes beside its topic, is taken from then on."""
    flow = FlowContext(settings, None, Answers(LISTED), Answers([THERE]))
    topics = MirrorTopics(flow, Admin(), Limits("1000", None, "9000"))
    views = [asyncio.run(topics.refresh({UPSTREAM: ABOUT})) for _ in range(3)]
    assert [view.topics["orders"].limits.max_batch_bytes for view in views] == [1000, 1000, 9000]
    assert views[1].shape != views[2].shape


def test_of_thousands_of_topics_a_hundred_are_asked_for_their_limits_at_a_look(settings):
    """All of them in turn; a topic that is there no more is forgotten."""
    topics = MirrorTopics(SimpleNamespace(settings=settings), Admin(), Limits(*"123456"))
    names = [f"t{number}" for number in range(250)]
    asked = []
    for there in (names, names, names, names, names[:2]):
        asked.append(topics._to_learn(there))
        topics._learn_limits(asked[-1])
    assert [len(one) for one in asked] == [250, 100, 100, 100, 2]
    assert set(asked[1] + asked[2] + asked[3]) == set(names)
    assert set(topics._limits) == set(names[:2])


@pytest.mark.parametrize(
    ("origin", "in_sync", "said"),
    [
        (ConfigOrigin.OVERRIDE, "2", True),
        (ConfigOrigin.DEFAULT, "2", True),
        (ConfigOrigin.DEFAULT, "1", False),
    ],
)
def test_a_new_topic_with_fewer_replicas_than_are_to_be_in_sync_is_said_with_both_numbers(
    settings, origin, in_sync, said
):
    """Once, when it is made; whether the topic sets ``min.insync.replicas`` or its brokers do."""
    target = Admin()
    target.configs = lambda names: {
        name: {"min.insync.replicas": ConfigEntry(in_sync, origin, on_topic=False)} for name in names
    }
    topics = MirrorTopics(FlowContext(settings, None, Answers(LISTED), Answers([], [THERE])), Admin(), target)
    first, second = (asyncio.run(topics.refresh({})) for _ in range(2))
    sentence = "topic a.orders on b has 1 replica, below min.insync.replicas = 2"
    assert ([sentence in notice for notice in first.notices], second.notices) == ([True] * said, [])


REFUSALS = {
    "TOPIC_EXCEPTION: Topic 'a.orders' collides with existing topic: a_orders": ("topics other names", ""),
    "INVALID_REPLICATION_FACTOR: 3 replicas, 1 broker": ("set replication.factor", "start as many brokers"),
    "TOPIC_AUTHORIZATION_FAILED: denied": ("grant CREATE and ALTER", "grant ALTER on topic a.orders"),
    "POLICY_VIOLATION: no": ("create.topic.policy.class.name", "policy allow 3 partitions"),
    "INVALID_REQUEST: no": ("with 1 partition on the target by hand", "kafka-topics.sh --alter"),
    "_TIMED_OUT: slow": ("mmtool tries again", "mmtool tries again"),
}
"""A broker's reason, and what helps where the topic cannot be made, and where it cannot grow."""


def refused_for(settings, reason, source=LISTED, target=()):
    """Why the topic is not mirrored where the target answers like that to whatever it is asked to make."""
    admin = Admin()
    admin.create_adjusted = lambda steps: TrialResult(admin.grow(steps))
    admin.grow = lambda steps: {step.name: Problem(*reason.split(": ", 1)) for step in steps}
    flow = FlowContext(settings, None, Answers(source), Answers(target))
    return asyncio.run(MirrorTopics(flow, Admin(), admin, settle_seconds=0).refresh({})).refused[
        source[0].name
    ]


def test_a_topic_whose_mirror_s_name_would_be_too_long_needs_a_shorter_one(settings):
    said = refused_for(settings, "TOPIC_EXCEPTION: too long", [topic("o" * 249, UPSTREAM)])
    assert "rename.format can give topics shorter" in said


@pytest.mark.parametrize("reason", REFUSALS)
def test_the_reason_of_a_topic_that_cannot_be_made_or_gets_no_more_partitions_says_what_helps(
    settings, reason
):
    wide = TopicMetadata("orders", UPSTREAM, 0, [object()] * 3)
    created, grown = refused_for(settings, reason), refused_for(settings, reason, [wide], [THERE])
    assert created.startswith(f"target topic a.orders cannot be created: {reason}; ")
    assert grown.startswith(f"target topic a.orders has 1 partition, 3 are needed: {reason}; ")
    assert [help_ in said for help_, said in zip(REFUSALS[reason], (created, grown), strict=True)] == [
        True
    ] * 2


@pytest.mark.parametrize(
    ("reason", "target"),
    [
        ("INVALID_REQUEST: no", ()),
        ("_TIMED_OUT: slow", ()),
        ("_TRANSPORT: denied", [topic("a.orders", TopicId(""), 29)]),
    ],
)
def test_without_a_refresh_of_topics_no_second_try_is_promised(settings, reason, target):
    once = settings.model_copy(update={"refresh_topics": False})
    said = refused_for(once, reason, target=target)
    assert "stop and start `mmtool replicate`" in said
    assert said.endswith("(refresh.topics.enabled = false)")


def warned(*names, refreshes=True, others=("payments",)):
    """The warnings about a flow that names topics which the source hides, beside others that it shows."""

    async def refresh(asked):
        codes = {name: Code.TOPIC_AUTHORIZATION_FAILED if name in names else Code.NONE for name in asked}
        return {name: SimpleNamespace(error_code=code) for name, code in codes.items()}

    literal = frozenset((*names, *others))
    flow = SimpleNamespace(
        identity=SimpleNamespace(name="east->west"),
        source=SimpleNamespace(alias="east", refresh=refresh),
        settings=SimpleNamespace(
            literal_topics=literal, topics=SimpleNamespace(include=tuple(literal)), refresh_topics=refreshes
        ),
    )
    warnings = []
    asyncio.run(_check_shown(flow, warnings))
    return warnings


@pytest.mark.parametrize(
    ("names", "refreshes", "said"),
    [
        (("orders",), True, "topic orders does not exist on cluster east, or READ on it is"),
        (("audit", "orders"), False, "topics audit, orders do not exist on cluster east, or READ on them"),
    ],
)
def test_hidden_topics_are_named_with_both_causes(names, refreshes, said):
    (warning,) = warned(*names, refreshes=refreshes)
    assert warning.startswith(f"east->west: {said}")
    assert ("stop and start `mmtool replicate`" in warning) is not refreshes


def test_a_flow_of_hidden_topics_alone_is_refused():
    with pytest.raises(NotAuthorisedError, match="topic orders does not exist on cluster east, or READ"):
        warned("orders", others=())


def limits(**values):
    return TargetLimits.of(
        {
            name.replace("_", "."): ConfigEntry(value, ConfigOrigin.OVERRIDE, on_topic=True)
            for name, value in values.items()
        }
    )


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (("2000", "5", "7", "CreateTime"), TargetLimits(2000, 5, 7)),
        ((None, None, None, None), TargetLimits(1 << 20, FOR_EVER, FOR_EVER)),
        ((None, "5", "7", "LogAppendTime"), TargetLimits()),
    ],
    ids=["told", "not told", "its own times"],
)
def test_limits_are_those_of_the_topic(told, found):
    """Of what is not told only the size is limited, to what brokers take by default."""
    size, before, after, kind = told
    times = {"message_timestamp_before_max_ms": before, "message_timestamp_after_max_ms": after}
    assert limits(max_message_bytes=size, message_timestamp_type=kind, **times) == found
    assert limits() == TargetLimits()


def test_the_one_bound_that_brokers_before_4_0_know_holds_where_no_other_is_set():
    before_3_6 = limits(message_timestamp_difference_max_ms="60")
    told = {"message_timestamp_before_max_ms": str(FOR_EVER), "message_timestamp_after_max_ms": "7"}
    before_4_0 = limits(message_timestamp_difference_max_ms="60", **told)
    bounds = [(limit.before[1], limit.after[1]) for limit in (before_3_6, before_4_0)]
    assert bounds == [(60, 60), (60, 7)]


def test_all_that_a_broker_knows_of_bounds_is_lifted_for_a_topic_that_is_to_take_every_timestamp():
    old = limits(message_timestamp_difference_max_ms="60")
    assert old.any_time == [SetConfig("message.timestamp.difference.max.ms", str(FOR_EVER))]
    new = limits(message_timestamp_before_max_ms="5")
    assert new.any_time == [SetConfig("message.timestamp.before.max.ms", str(FOR_EVER))]
