"""What Kafka 3.9 excluded by its old keys stays excluded, and a value's comment or escape is pointed out."""

import pytest

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
