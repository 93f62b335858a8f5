"""Topics are described, and rules added, one by one: what is denied of one costs no other."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from mmtool.errors import MmtoolError, NotAuthorisedError, UnreachableError
from mmtool.kafka.admin.topics import TopicAdmin, TrialResult
from mmtool.plan.topics.configs import ConfigEntry, ConfigOrigin
from mmtool.replication import background
from mmtool.replication.background import TopicConfigs

SILENT = SimpleNamespace(of=lambda *_: [])


def admin(**errors):
    """One that answers for each topic with that error, or with no property at all."""

    def describe(resources, **_):
        return {resource: answer(errors[resource.name]) for resource in resources}

    def answer(code):
        future = Future()
        if code is None:
            future.set_result({})
        else:
            future.set_exception(KafkaException(KafkaError(code)))
        return future

    client = SimpleNamespace(describe_configs=describe)
    cluster = SimpleNamespace(alias="a", bootstrap_servers="a:9092")
    return type("Answered", (TopicAdmin,), {"_client": client})(cluster)


def test_topics_that_may_not_be_described_are_left_out_like_those_that_are_gone():
    asked = admin(open=None, shy=KafkaError.TOPIC_AUTHORIZATION_FAILED, gone=KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert asked.configs(["open", "shy", "gone"]) == {"open": {}}


@pytest.mark.parametrize("why", ["TOPIC_EXCEPTION", "INVALID_REQUEST", "REQUEST_TIMED_OUT", "UNKNOWN"])
def test_whatever_is_wrong_with_one_topic_costs_that_topic_alone(why):
    assert admin(odd=getattr(KafkaError, why), open=None).configs(["odd", "open"]) == {"open": {}}


def test_a_cluster_that_tells_of_none_of_them_is_told():
    with pytest.raises(UnreachableError):
        admin(a=KafkaError._TIMED_OUT, b=KafkaError._TIMED_OUT).configs(["a", "b"])


def test_what_is_denied_on_the_cluster_is_told():
    with pytest.raises(NotAuthorisedError):
        admin(open=KafkaError.CLUSTER_AUTHORIZATION_FAILED).configs(["open"])


def test_configs_of_topics_are_carried_over_beside_one_that_may_not_be_described_and_is_named(monkeypatch):
    altered = {}
    entry = {"retention.ms": ConfigEntry("5", ConfigOrigin.OVERRIDE, on_topic=True)}
    there = {"source": {"open": entry}, "target": {"a.open": {}, "a.shy": {}}}

    def fake(cluster):
        return SimpleNamespace(
            configs=lambda names: {n: there[cluster.alias][n] for n in names if n in there[cluster.alias]},
            alter_adjusted=lambda steps: altered.update(steps) or TrialResult(),
        )

    monkeypatch.setattr(background, "TopicAdmin", fake)
    monkeypatch.setattr(background, "config_rules", lambda _: SimpleNamespace(accepts=bool, defaults_from=""))
    flow = SimpleNamespace(source=SimpleNamespace(alias="source"), target=SimpleNamespace(alias="target"))
    duty = TopicConfigs(flow, dict, print, SILENT)
    with pytest.raises(MmtoolError, match="topic shy of source does not show its configuration"):
        duty._perform({"open": "a.open", "shy": "a.shy"})
    assert list(altered) == ["a.open"]
