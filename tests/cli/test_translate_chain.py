"""``mmtool translate-offsets`` from one end of a chain of flows to the other, on clusters in memory."""

import pytest

from kit.clusters import FakeCluster, FakeFlowState, FakeSynced
from kit.maps import about_of, map_of
from mmtool.config import load_settings
from mmtool.insight.flow_now import FlowClusters
from mmtool.kafka.ports import Bounds
from mmtool.plan.groups.facts import Commit
from mmtool.plan.records.identity import FlowIdentity
from mmtool.plan.records.marks import GroupNameRecord
from mmtool.translation.sync_map import OffsetPair
from mmtool.translation.types import ClusterId, TopicPartition

NAMES = ("east", "west", "north")
TOPICS = {"east": "orders", "west": "east.orders", "north": "west.east.orders"}
FILE = """\
clusters = east, west, north
east.bootstrap.servers = e:9092
west.bootstrap.servers = w:9092
north.bootstrap.servers = n:9092
east->west.enabled = true
west->north.enabled = true
"""


class Chain:
    """east -> west -> north; west's first ten records are its own mirror's, with one hole on each hop."""

    def __init__(self, directory):
        self.config = directory / "mm2.properties"
        self.config.write_text(FILE)
        self.clusters = {name: FakeCluster(name, ClusterId(f"{name}-id")) for name in NAMES}
        self.states, self.mm2 = {}, {}
        for name, end in zip(NAMES, (31, 30, 29), strict=True):
            self.clusters[name].add_topic(TOPICS[name], f"id-{name}", end)
        self.mirrored("east", "west", [(0, 0, 10), (11, 10, 20)], 31)
        self.mirrored("west", "north", [(0, 0, 20), (21, 20, 9)], 30)

    def mirrored(self, here, there, runs, frontier):
        identity = FlowIdentity(ClusterId(f"{here}-id"), ClusterId(f"{there}-id"), here, there)
        place = TopicPartition(TOPICS[here], 0)
        about = about_of(identity, f"id-{here}", place, TOPICS[there], f"id-{there}")
        self.states[here] = FakeFlowState({(f"id-{here}", 0): map_of(about, runs, frontier)})
        self.mm2[here] = FakeSynced()

    def mirrored_by_mm2(self, here, *syncs):
        self.states[here] = FakeFlowState()
        self.mm2[here].syncs[TopicPartition(TOPICS[here], 0)] = [OffsetPair(*sync, 0) for sync in syncs]

    def connect(self, flow, timeout, **_):
        here, there = flow.source.alias, flow.target.alias
        sides = (self.clusters[here], self.clusters[there])
        return FlowClusters(flow, *sides, self.states[here], synced=self.mm2[here])

    def commits(self, name, offset):
        self.clusters[name].groups.committed["app"] = {TopicPartition(TOPICS[name], 0): Commit(offset)}

    def committed(self, name):
        return [commit.offset for commit in self.clusters[name].groups.committed.get("app", {}).values()]


@pytest.fixture
def along(tmp_path, monkeypatch):
    made = Chain(tmp_path)
    monkeypatch.setattr("mmtool.insight.flow_now.connect", made.connect)
    return made


@pytest.fixture
def led(mmtool, along):
    def run(*arguments, code=0):
        flow = ("-c", along.config, "-s", "east", "-t", "north", "-g", "app", "-o", "json")
        ended = mmtool("translate-offsets", *flow, *arguments)
        assert ended.code == code, ended
        (row,) = ended.rows
        return (
            row["upstream_offset"],
            row["downstream_offset"],
            row["exactness"],
            row["reread_max"],
            row["reason"],
        )

    return run


@pytest.mark.parametrize(("commit", "answer"), [(5, 5), (10, 10), (11, 10), (22, 20), (31, 29)])
def test_over_hops_that_mmtool_mirrors_the_answer_is_exact(led, along, commit, answer):
    along.commits("east", commit)
    assert led() == (commit, answer, "exact", 0, "")


def test_the_way_back_is_where_one_came_from(led, along):
    along.commits("north", 20)
    assert led("--reverse") == (22, 20, "exact", 0, "")


def test_it_is_written_at_the_end_and_nowhere_between(led, along):
    along.commits("east", 22)
    led("--execute", "--yes")
    assert [along.committed(name) for name in NAMES] == [[22], [], [20]]


def test_bounds_add_up(led, along):
    """By syncs of MirrorMaker 2: ten records before the first hop's answer, five more before the second's."""
    along.mirrored_by_mm2("east", (0, 0), (9, 9))
    along.mirrored_by_mm2("west", (0, 0), (4, 4))
    along.commits("east", 20)
    assert led() == (20, 5, "bounded", 10 + 5, "")


def test_a_refusal_on_any_hop_is_the_answer(led, along):
    along.commits("east", 31)
    along.mirrored("west", "north", [(0, 0, 20)], 20)
    along.clusters["north"].logs[TopicPartition(TOPICS["north"], 0)] = Bounds(0, 20)
    assert led(code=3) == (31, None, "refused", None, "beyond_mirror")


def test_a_topic_that_a_later_flow_does_not_carry_is_not_mirrored(led, along):
    along.config.write_text(FILE + "west->north.topics = other.*, east[.]payments\n")
    along.clusters["west"].add_topic("other", "id-other", 3)
    along.commits("east", 5)
    assert led() == (5, None, "refused", None, "not_mirrored")


def test_exported_offsets_are_the_last_cluster_s(mmtool, along):
    along.commits("east", 22)
    ended = mmtool("groups", "export", "-c", along.config, "-s", "east", "-t", "north", "-g", "app")
    assert ended.stdout == "west.east.orders,0,20\n"


def test_one_hop_at_a_time_is_refined(mmtool, along):
    ended = mmtool("translate-offsets", "-c", along.config, "-s", "east", "-t", "north", "--refine")
    assert (ended.code, "--refine is for one flow" in ended.stderr) == (2, True)


def test_several_ways_that_are_as_short_are_listed(tmp_path):
    file = tmp_path / "ways.properties"
    more = "south.bootstrap.servers = s:9092\neast->south.enabled = true\nsouth->north.enabled = true\n"
    file.write_text(FILE.replace("north\n", "north, south\n", 1) + more)
    settings = load_settings(file, {})
    with pytest.raises(Exception, match="east->west->north, east->south->north"):
        settings.chain("east", "north")
    assert [flow.name for flow in settings.chain("south", "north")] == ["south->north"]


@pytest.mark.parametrize(
    ("position", "options", "key", "offset"),
    [
        ("orders,0,22", (), "downstream_offset", 20),
        ("west.east.orders,0,20", ("--reverse",), "upstream_offset", 22),
    ],
)
def test_a_position_outside_kafka_is_translated_along_the_chain(
    along, mmtool, tmp_path, position, options, key, offset
):
    file = tmp_path / "positions.csv"
    file.write_text(position)
    flow = ("-c", along.config, "-s", "east", "-t", "north")
    ended = mmtool("translate-offsets", *flow, "-o", "json", "--positions", file, *options)
    assert [(row["exactness"], row[key]) for row in ended.rows] == [("exact", offset)]


def test_other_names_of_groups_are_refused_along_a_chain_but_positions_have_no_group(mmtool, along, tmp_path):
    along.states["east"].marked(GroupNameRecord("app", "app-dr"))
    along.commits("east", 5)
    positions = tmp_path / "positions.csv"
    positions.write_text("orders,0,5\n")
    line = ("translate-offsets", "-c", along.config, "-s", "east", "-t", "north", "-o", "json")
    refused = mmtool(*line, "-g", "app")
    assert (refused.code, "a flow of this chain gives groups other names" in refused.stderr) == (2, True)
    answer = mmtool(*line, "--positions", positions)
    assert (answer.code, answer.rows[0]["downstream_offset"], answer.rows[0]["target_group"]) == (0, 5, None)
