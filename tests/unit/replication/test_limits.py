"""Flows that would repeat records, or write into one topic, are refused."""

import time

import pytest

from mmtool.config import load_settings
from mmtool.errors import UsageError
from mmtool.replication.ownership.limits import (
    refuse_conflicts,
    refuse_growth,
    way_apart,
)
from mmtool.replication.same_offsets.refusals import refuse_take_over

_BASE = """
clusters = a, b
a.bootstrap.servers = localhost:1
b.bootstrap.servers = localhost:2
a->b.enabled = true
"""
_IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
_BOTH_WAYS = "b->a.enabled = true\n"
_RING = "clusters = a, b, c\nc.bootstrap.servers = localhost:3\nb->c.enabled = true\nc->a.enabled = true\n"


_FAN_IN = "clusters = a, b, c\nc.bootstrap.servers = localhost:3\nc->b.enabled = true\n"
_SAME = "mmtool.offsets = same\n"
_SEPARATED = """
clusters = dc-us, dc-eu
dc-us.bootstrap.servers = localhost:1
dc-eu.bootstrap.servers = localhost:2
dc-us->dc-eu.enabled = true
"""
_BACK = "dc-eu->dc-us.enabled = true\n"
_NAMES_REFUSED = [
    (_RING + _IDENTITY, "a record of a would reach a a second time through a->b->c->a"),
    (
        "clusters = a, b, c\nc.bootstrap.servers = localhost:3\nb->c.enabled = true\na->c.enabled = true\n"
        + _IDENTITY,
        r"would reach c twice, through a->\S+ and through a->\S+$",
    ),
    (_FAN_IN + "mmtool.topic.rename.format = dr-${topic}\n", "a->b and c->b would both write to topic"),
    (_FAN_IN + "mmtool.topic.rename.format = ${topic}.copy\n", "a->b and c->b would both write to topic"),
]
_FINE = {
    "a pair keeps names both ways": _BASE + _BOTH_WAYS + _IDENTITY,
    "a ring with prefixed names": _BASE + _RING,
    "local origins": _BASE + _RING + _IDENTITY + "mmtool.origins = local\n",
    "topics without a way around": _BASE + _RING + _IDENTITY
    + "a->b.topics = one\nb->c.topics = two, one\nc->a.topics = two\n",
    "the canary": _BASE + _RING + _IDENTITY
    + "a->b.topics = one, mmtool-canary\nb->c.topics = mmtool-canary\nc->a.topics = mmtool-canary\n",
    "another target": _BASE + _RING + "c->a.target.cluster.alias = Z\n",
    "each its own alias": _BASE + _RING + "source.cluster.alias = site\na.alias = a\nb.alias = b\nc.alias = c\n",
    "an alias of two parts": _BASE + _RING + "a.alias = one.a\n",
    "sources with names": _BASE + _FAN_IN + "mmtool.topic.rename.format = ${source}-${topic}\n",
    "sources of other topics": _BASE + _FAN_IN
    + "mmtool.topic.rename.format = dr-${topic}\na->b.topics = one\nc->b.topics = two\n",
    "sources that are meant to meet": _BASE + _FAN_IN + _IDENTITY,
    "same offsets, prefixed names": _BASE + _FAN_IN + _SAME,
    "same offsets, other topics": _BASE + _FAN_IN + _IDENTITY + _SAME + "a->b.topics = one\nc->b.topics = two\n",
    "same offsets, other patterns": _BASE + _FAN_IN + _IDENTITY + _SAME + "a->b.topics = a-.*\nc->b.topics = c-.*\n",
    "same offsets, a chain": _BASE + _FAN_IN + _IDENTITY + _SAME
    + "b->c.enabled = true\nc->b.enabled = false\na->b.topics = one\nb->c.topics = one\n",
    "one way": _SEPARATED,
    "one way with the separator": _SEPARATED + "replication.policy.separator = -\n",
    "other aliases": _SEPARATED + _BACK + "dc-us.alias = dcus\ndc-eu.alias = dceu\nreplication.policy.separator = -\n",
    "another separator": _SEPARATED + _BACK,
    "identical names": _SEPARATED + _BACK + "replication.policy.separator = -\n" + _IDENTITY,
    "blank names": _SEPARATED + _BACK + "replication.policy.separator =\nsource.cluster.alias =\n",
    "renamed": _SEPARATED + _BACK + "mmtool.topic.rename.format = ${source}-${topic}\n",
    "topics that do not come back": _SEPARATED + _BACK
    + "topics = x\nsource.cluster.alias = site\nheartbeats.replication.enabled = false\n",
}  # fmt: skip


@pytest.fixture
def load_text(tmp_path):
    def of(text):
        path = tmp_path / "mm2.properties"
        path.write_text(text)
        return load_settings(path, {})

    return of


@pytest.fixture
def flows(load_text):
    return lambda more="": load_text(_BASE + more).flows


@pytest.mark.parametrize(("more", "says"), _NAMES_REFUSED)
def test_a_record_that_comes_twice_and_two_topics_of_one_name_are_refused(flows, more, says):
    with pytest.raises(UsageError, match=says):
        refuse_conflicts(flows(more))


@pytest.mark.parametrize("text", _FINE.values(), ids=_FINE)
def test_flows_whose_topics_come_to_a_rest_apart_from_each_other_are_fine(load_text, text):
    refuse_conflicts(load_text(text).flows)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (_IDENTITY + _SAME, "a->b and c->b would both mirror each topic to one topic of b"),
        (_IDENTITY + "c->b." + _SAME, "each topic to one topic"),
        (_IDENTITY + "c." + _SAME + "topics = one, two\nc->b.topics = two, x.*\n", "mirror topic two to"),
        ("c.alias = a\ntopics = one\nb." + _SAME, "mirror topic one to one topic"),
    ],
    ids=["all topics", "of one flow", "a topic of both lists", "prefixed names"],
)
def test_two_sources_of_one_topic_are_refused_where_a_flow_keeps_the_sources_offsets(flows, more, says):
    with pytest.raises(UsageError, match=says) as caught:
        refuse_conflicts(flows(_FAN_IN + more))
    assert "set mmtool.offsets = translated in both flows" in caught.value.remedy


def test_heartbeats_under_identical_names_are_refused_where_a_flow_keeps_the_sources_offsets(flows):
    more = _SAME + "replication.policy.separator =\nsource.cluster.alias =\ntarget.cluster.alias = other\n"
    with pytest.raises(UsageError, match="to topic heartbeats of b, where other heartbeats") as caught:
        refuse_conflicts(flows(more))
    assert "a->b.heartbeats.replication.enabled = false" in caught.value.remedy
    refuse_conflicts(flows(f"{more}heartbeats.replication.enabled = false\ntopics.exclude = heartbeats\n"))


@pytest.mark.parametrize("scope", ["", "a.", "b.", "a->b."])
def test_a_take_over_of_a_flow_with_the_sources_offsets_is_refused(flows, scope):
    with pytest.raises(UsageError, match=r"--take-over: a->b has mmtool\.offsets = same"):
        refuse_take_over(flows(scope + _SAME))
    refuse_take_over(flows(f"{scope}{_SAME}a->b.mmtool.offsets = translated\n"))


@pytest.mark.parametrize(
    ("more", "says", "remedy"),
    [
        (
            "replication.policy.separator = -\n",
            "alias dc-us contains the separator '-'",
            "set dc-us.alias = dc_us and dc-eu.alias = dc_eu (aliases are part of topic names",
        ),
        ("dc-us.alias = us.west\n", "alias us.west contains the separator '.'", "dc-us.alias = us_west"),
        ("replication.policy.separator =\n", "cannot be separated", "another replication.policy.separator"),
        ("source.cluster.alias = site\n", "-> site.site.topic", "target.cluster.alias = site"),
        ("dc-us->dc-eu.replication.policy.separator = _\n", "-> dc-us_topic -> dc-eu.dc-us_", "separator"),
        ("dc-us->dc-eu." + _IDENTITY, "topic -> topic -> dc-eu.topic", "policy"),
        ("topics = x\nsource.cluster.alias = site\n", "heartbeats -> site.heartbeats -> site.s", "alias"),
    ],
)
def test_two_ways_that_do_not_recognise_each_others_topics_are_refused(more, says, remedy, load_text):
    text = _SEPARATED + _BACK + more
    with pytest.raises(UsageError) as caught:
        refuse_conflicts(load_text(text).flows)
    assert says in str(caught.value)
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("more", "says", "remedy"),
    [
        ("source.cluster.alias = site\n", "a->b and b->c and c->a: ", "a.alias = a, b.alias = b, c.alias"),
        (
            "source.cluster.alias = site\nc->a.source.cluster.alias = other\n",
            "grow without end",
            "c.alias = c, remove c->a.source.cluster.alias, and use one separator",
        ),
        ("replication.policy.separator =\na.alias = aa\nb.alias = bb\nc.alias = cc\n", "-> aatopic", "a"),
        ("topics = x\nsource.cluster.alias = site\n", "heartbeats -> site.heartbeats", "b.alias = b"),
    ],
)
def test_a_ring_that_does_not_recognise_its_own_topics_is_refused(more, says, remedy, flows):
    with pytest.raises(UsageError) as caught:
        refuse_growth(flows(_RING + more))
    assert (caught.value.code, says in str(caught.value)) == ("endless_names", True), str(caught.value)
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    "more", ["", "mmtool.topic.rename.format = ${source}~${topic}\n", "a1->a2.source.cluster.alias = z\n"]
)
def test_a_full_mesh_of_twelve_clusters_is_looked_through_in_a_moment(more, load_text):
    aliases = [f"a{n}" for n in range(12)]
    servers = "".join(f"{alias}.bootstrap.servers = localhost:1\n" for alias in aliases)
    found = load_text(
        f"clusters = {', '.join(aliases)}\n{servers}enabled = true\n{more.replace('~', '-')}"
    ).flows
    began = time.monotonic()
    refuse_growth(found)
    assert (len(found), time.monotonic() - began < 10) == (132, True)


@pytest.mark.parametrize(
    ("more", "keys"),
    [
        ("dc-a->dc-b.source.cluster.alias = dc-a\n", ["dc-a->dc-b.source.cluster.alias", "dc-a.alias"]),
        ("dc-b->dc-a.target.cluster.alias = dc-a\n", ["dc-a.alias", "dc-b->dc-a.target.cluster.alias"]),
        ("source.cluster.alias = s-x\ndc-a.alias = dc-a\n", ["dc-a.alias", "dc-b.alias"]),
    ],
)
def test_the_remedy_against_a_split_alias_is_one_after_which_nothing_is_refused(more, keys, load_text):
    text = _SEPARATED.replace("dc-us", "dc-a").replace("dc-eu", "dc-b") + more
    text += "dc-b->dc-a.enabled = true\nreplication.policy.separator = -\n"
    with pytest.raises(UsageError) as caught:
        refuse_growth(load_text(text).flows)
    lines = caught.value.remedy.removeprefix("set ").split(" (aliases")[0].split(" and ")
    assert [key for key in keys if key not in " ".join(lines)] == []
    refuse_growth(load_text(text + "\n".join(lines) + "\n").flows)


@pytest.mark.parametrize(
    ("more", "flows_with_their_alias"),
    [
        ("", ["b->c", "a->c"]),
        ("a->c.replication.policy.class = " + _IDENTITY.split(" = ")[1], ["b->c"]),
        ("b->c.mmtool.topic.rename.format = dr-${topic}\n", ["a->c"]),
        ("b->c.mmtool.topic.rename.format = dr-${source}-${topic}\n", ["b->c", "a->c"]),
    ],
    ids=["prefixed", "one keeps names", "renamed without the source", "renamed with the source"],
)
def test_another_alias_is_advised_only_for_a_flow_whose_mirrors_have_it_in_their_names(
    load_text, more, flows_with_their_alias
):
    three = (
        "clusters = a, b, c\nc.bootstrap.servers = localhost:3\na->c.enabled = true\nb->c.enabled = true\n"
    )
    flows = {
        flow.name: flow for flow in load_text(_BASE.replace("a->b.enabled = true", "") + three + more).flows
    }
    remedy = way_apart("orders", flows["b->c"], flows["a->c"])
    assert remedy.startswith("add orders to b->c.topics.exclude")
    assert [name for name in ("b->c", "a->c") if f"if {name} has mirrored no topic yet" in remedy] == (
        flows_with_their_alias
    )
