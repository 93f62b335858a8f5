"""What Kafka 3.9 excluded by its old keys stays excluded, and a value's comment or escape is pointed out."""

import pytest

from mmtool.config.load import read_file
from mmtool.errors import ConfigError


@pytest.mark.parametrize("scope", ["", "A->B."])
def test_a_blacklist_is_added_to_the_excludes_with_a_warning(scope, load):
    settings = load(
        f"{scope}topics.blacklist = secret.*, old\n{scope}groups.blacklist = g-.*\n"
        f"{scope}config.properties.blacklist = retention\\\\.ms\n"
    )
    flow = settings.flows[0]
    assert [flow.mirrors_topic(name) for name in ("secret.a", "old", "older", "x.replica")] == [
        False,
        False,
        True,
        False,
    ]
    assert [flow.groups.accepts(name) for name in ("g-1", "h", "console-consumer-1")] == [False, True, False]
    excluded = flow.config_properties_exclude
    assert [excluded.accepts(name) for name in ("retention.ms", "min.insync.replicas", "x")] == [
        False,
        False,
        True,
    ]
    keys = [said.partition(f": {scope}")[2] for said in settings.warnings]
    assert keys == [
        f"{name}.blacklist: Kafka has ignored this key since 4.0. mmtool adds its patterns to"
        f" {scope}{name}.exclude: remove this key, and set {scope}{name}.exclude to the patterns that `mmtool config"
        f" show -c {settings.path}` prints for {name}.exclude, followed by the patterns of this key"
        for name in ("topics", "groups", "config.properties")
    ]


def test_a_blacklist_beside_excludes_adds_to_them(load):
    flow = load("topics.exclude = a\ntopics.blacklist = b, a\n").flows[0]
    assert flow.topics.exclude == ("a", "b")


def test_a_flows_own_blacklist_wins_over_the_global_one(load):
    flow = load("topics.exclude =\ntopics.blacklist = b\nA->B.topics.blacklist = c\n").flows[0]
    assert flow.topics.exclude == ("c",)


def test_a_blacklist_under_an_alias_has_no_effect_as_in_mm2(load):
    settings = load("A.topics.blacklist = secret.*\n")
    assert settings.flows[0].mirrors_topic("secret.a")
    assert "write `A->B.topics.exclude`, or `topics.exclude` for all flows" in settings.warnings[0]


def test_a_blacklist_that_is_no_pattern_is_refused(load):
    with pytest.raises(ConfigError, match=r":5: topics\.blacklist = \(\[: expected Java regular expressions"):
        load("topics.blacklist = ([\n")


def test_a_carriage_return_in_a_pattern_is_shown_as_one(load):
    settings = load("topics.exclude = a, .*\\replica, b\n")
    (said,) = settings.warnings
    assert (
        r"topics.exclude: `.*\replica` contains a character that no topic or group name has: remove it."
        in said
    )
    assert "\r" not in said
    assert settings.flows[0].topics.exclude == ("a", ".*\replica", "b")


def test_a_pattern_that_is_refused_shows_its_control_characters(load):
    with pytest.raises(ConfigError) as refused:
        load("topics = (\\replica\n")
    assert r"topics = (\replica: expected" in refused.value.message


def test_a_comment_behind_a_pattern_is_pointed_out(load):
    (said,) = load("topics = orders # all of them\n").warnings
    assert "topics: `orders # all of them` contains ` #`, and so matches no name: a comment starts" in said


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("A.ssl.truststore.password", "canary  # put the right one here"),
        ("A.ssl.key.password", "canary\\t# x"),
        ("A.sasl.password", "canary #"),
        ("B.producer.sasl.password", "canary # x"),
        ("sasl.jaas.config", f'{PLAIN} username="u" password="canary # x";'),
    ],
)
def test_a_comment_behind_a_secret_is_warned_of_without_showing_it(key, value, load):
    said = [warning for warning in load(f"{key} = {value}\n").warnings if "part of the value" in warning]
    assert len(said) == 1
    assert f": {key}" in said[0].replace(": `", ": ")
    assert ": contains ` #`: a comment starts only" in said[0]
    assert "canary" not in said[0]


@pytest.mark.parametrize("value", ["can#ary", "#canary", "${env:SECRET}"])
def test_a_secret_without_a_comment_is_not_mentioned(value, load):
    settings = load(f"A.sasl.password = {value}\n", environ={"SECRET": "a # b"})
    assert not [warning for warning in settings.warnings if "part of the value" in warning]


def test_metric_names_formats_is_a_known_key_that_is_not_needed(tmp_path):
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
        "metric.names.formats = legacy, new\nA->B.metric.names.formats = new\n"
    )
    (finding,) = read_file(path, {}).findings
    assert finding.usual
    assert "not needed" in finding.sentence
    assert "A->B.metric.names.formats" in finding.sentence
