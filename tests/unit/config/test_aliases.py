"""Aliases name topics as the file says, and those that no topic name can hold are refused."""

import pytest

from mmtool.config import load_settings
from mmtool.translation.names import TopicAliases

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
FAN_IN = """
clusters = us, {second}, hub
us.bootstrap.servers = a:1
{second}.bootstrap.servers = b:1
hub.bootstrap.servers = c:1
us->hub.enabled = true
{second}->hub.enabled = true
"""


@pytest.fixture
def file(tmp_path):
    def written(text):
        path = tmp_path / "mm2.properties"
        path.write_text(text)
        return path

    return written


def pair(source, target, more=""):
    servers = "".join(f"{alias}.bootstrap.servers = {n}:1\n" for n, alias in enumerate((source, target)))
    return f"clusters = {source}, {target}\n{servers}{source}->{target}.enabled = true\n{more}"


def test_an_alias_of_a_cluster_that_no_enabled_flow_uses_is_a_warning(file):
    text = pair("A", "B").replace("clusters = A, B", "clusters = A, B, your@cluster")
    settings = load_settings(file(text + "your@cluster.bootstrap.servers = c:1\n"), {})
    assert any("alias 'your@cluster': topic names cannot contain '@'" in said for said in settings.warnings)


def test_an_alias_with_a_slash_is_written_with_a_dash_in_topic_names(file):
    (flow,) = load_settings(file(pair("eu/1", "eu/2")), {}).flows
    assert flow.topic_aliases == TopicAliases("eu-1", "eu-2")
    assert flow.remote_topic("orders") == "eu-1.orders"
    assert flow.name == "eu/1->eu/2"


def test_overrides_are_known_keys(file):
    lines = "source.cluster.alias = x\nA.alias = y\nA->B.target.cluster.alias = z\n"
    settings = load_settings(file(pair("A", "B", lines)), {})
    assert settings.warnings == ()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            "replication.policy.separator =\nsource.cluster.alias =\n",
            "topics with 'B' in their names are not mirrored",
        ),
        ("replication.policy.separator =\nsource.cluster.alias =\ntarget.cluster.alias =\n", ""),
        ("source.cluster.alias =\ntarget.cluster.alias =\n" + IDENTITY, "nothing is mirrored"),
        (IDENTITY, ""),
    ],
)
def test_what_mm2_leaves_out_for_an_alias_is_warned_of(more, said, file):
    found = load_settings(file(pair("A", "B", more)), {}).warnings
    assert len(found) == bool(said)
    assert said in "".join(found)


_NAMED_APART = "source.cluster.alias = site\nus->hub.topics = a\neu->hub.topics = b\n"
_NAMED_US = "us->hub.topics = orders, east.payments\n"


@pytest.mark.parametrize(
    ("second", "more", "said"),
    [
        ("us.east", "", "topic east.x of us and topic x of us.east would both be us.east.x on hub"),
        (
            "eu",
            "source.cluster.alias = site\n",
            "topic x of eu and topic x of us would both be site.x on hub",
        ),
        ("eu", "", ""),
        ("us.east", "us.east.alias = us-east\n", ""),
        ("us.east", "replication.policy.separator = _\n", ""),
        ("eu", "replication.policy.separator =\nsource.cluster.alias =\n", ""),
        ("us.east", "us->hub.topics = orders\nus.east->hub.topics = payments\n", ""),
        ("us.east", "us->hub.topics = orders\n", ""),
        (
            "us.east",
            "us.east->hub.topics = payments\n",
            "topic east.payments of us and topic payments of us.east",
        ),
        ("us.east", _NAMED_US, "topic east.payments of us and topic payments of us.east would both be"),
        ("us.east", _NAMED_US + "us.east->hub.topics.exclude = payments\n", ""),
        (
            "eu",
            _NAMED_APART,
            "topic heartbeats of eu and topic heartbeats of us would both be site.heartbeats on hub",
        ),
        (
            "eu",
            _NAMED_APART + "heartbeats.replication.enabled = false\n",
            "",
        ),
    ],
)
def test_fan_in_that_does_not_keep_topics_apart_is_warned_of_where_topics_may_meet(second, more, said, file):
    warnings = load_settings(file(FAN_IN.format(second=second) + more), {}).warnings
    found = [sentence for sentence in warnings if "would both be" in sentence]
    assert len(found) == bool(said)
    assert said in "".join(found)


@pytest.mark.parametrize(
    ("second", "more", "key"),
    [
        ("us.east", "", "us.east.alias"),
        ("us.east", "us.east.alias = us.e\n", "us.east.alias"),
        ("eu", "eu.alias = x\neu->hub.source.cluster.alias = us.eu\n", "eu->hub.source.cluster.alias"),
    ],
)
def test_fan_in_is_mended_by_the_key_that_the_warning_names(second, more, key, file):
    text = FAN_IN.format(second=second) + more
    (said,) = load_settings(file(text), {}).warnings
    assert said.endswith(f": set {key} to another alias, or add the topics of one flow to its topics.exclude")
    assert "would both be" not in "".join(load_settings(file(f"{text}{key} = apart\n"), {}).warnings)


def test_offset_syncs_of_two_flows_in_one_topic_are_warned_of(file):
    text = FAN_IN.format(second="eu").replace("eu->hub", "us->eu")
    assert load_settings(file(text), {}).warnings == ()
    (said,) = load_settings(file(text + "target.cluster.alias =\n"), {}).warnings
    assert (
        "us->hub and us->eu write their offset syncs to one topic, mm2-offset-syncs..internal on us" in said
    )
