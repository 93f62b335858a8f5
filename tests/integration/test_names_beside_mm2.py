"""The real MirrorMaker 2 and mmtool give a topic one name, whatever the file overrides, and one follows the other."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.load import Load, produce
from kit.lookups import commit
from kit.processes import run_mmtool
from kit.real_mirror_maker import MirrorMaker
from mmtool.config import FlowSettings, load_settings
from mmtool.config.aliases import positions_topic
from mmtool.kafka.mirror_maker import read_positions, read_syncs
from mmtool.lab.fleet import Fleet
from mmtool.lab.topics import create_topic, end_offsets, topics_of

pytestmark = pytest.mark.kafka

RECORDS, READ = 60, 40
BLANK = "replication.policy.separator =\nsource.cluster.alias =\n"
FILES = {
    "01: named, and no checkpoints": (
        ("A", "B"),
        "source.cluster.alias = siteus\ntarget.cluster.alias=siteuk\nA->B.emit.heartbeats.enabled = false\n",
        "siteus.{}",
    ),
    "04: blank": (("A", "B"), f"{BLANK}target.cluster.alias=\n", "{}"),
    "12: a blank source": (("A", "cloud"), f"{BLANK}cloud.cluster.alias=cloud\n", "{}"),
    "of one cluster": (
        ("A", "B"),
        "A.alias = plant\nsource.cluster.alias = site\nB.alias = dr\n",
        "plant.{}",
    ),
}
TAKEN_OVER = ("04: blank", "of one cluster")
IN_CHAOS = ("01: named, and no checkpoints", "12: a blank source", "of one cluster")
"""A run of MirrorMaker 2 each."""
REST = """
plugin.discovery = service_load
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
config.storage.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
refresh.topics.interval.seconds = 2
emit.checkpoints.interval.seconds = 1
refresh.groups.interval.seconds = 1
"""


@dataclass(frozen=True)
class Side:
    flow: FlowSettings
    path: Path
    mark: str
    topics: list[str]
    form: str

    @property
    def remotes(self):
        return {topic: self.form.format(topic) for topic in self.topics}

    @property
    def wanted(self):
        return dict.fromkeys(self.remotes.values(), RECORDS)

    def made(self):
        """What is on the target of these topics now, and how long it is."""
        there = self.flow.target.bootstrap_servers
        return {name: end_offsets(there, name).get(0) for name in topics_of(there) if self.mark in name}

    def run(self, *command):
        return run_mmtool(self.path.parent / command[0], *command, "-c", str(self.path))


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    """A flow's state belongs to its clusters and to the aliases of its file, so the session's are not used."""
    with Fleet.of(tmp_path_factory.mktemp("names"), "A", "B", "cloud") as clusters:
        yield clusters


@pytest.fixture(scope="module")
def mirrored(request, clusters, tmp_path_factory):
    """What MM2 has left of three topics and a group; it has stopped."""
    name = request.param
    (source, target), naming, form = FILES[name]
    mark = f"n{list(FILES).index(name)}"
    topics = [f"orders-{mark}", f"MyBooks-{mark}", f"a.b-{mark}"]
    path = tmp_path_factory.mktemp(mark) / "connect-mirror-maker.properties"
    path.write_text(
        f"clusters = {target}, {source}\n"
        f"{source}.bootstrap.servers = {clusters[source].bootstrap}\n"
        f"{target}.bootstrap.servers = {clusters[target].bootstrap}\n"
        f"{source}->{target}.enabled = true\ntopics = .*-{mark}\ngroups = .*-{mark}\n{naming}{REST}"
        f"{target}.offset.flush.interval.ms = 1000\nheartbeats.replication.enabled = false\n"
    )
    (flow,) = load_settings(path, {}).flows
    for topic in topics:
        create_topic(clusters[source].bootstrap, topic)
        produce(clusters[source].bootstrap, Load(topic, RECORDS))
    commit(clusters[source].bootstrap, f"app-{mark}", topics[1], READ)
    side = Side(flow, path, mark, topics, form)
    with MirrorMaker(path.read_text(), path.parent) as mm2:
        mm2.wait_until(lambda: side.made() == side.wanted, f"{side.wanted}", 90)
        mm2.wait_until(lambda: end_of_syncs(flow) >= len(topics), "offset syncs")
    return side


def files(names):
    """Each file as a parameter."""
    marks = {name: pytest.mark.chaos if name in IN_CHAOS else () for name in names}
    return [pytest.param(name, id=name.partition(":")[0], marks=marks[name]) for name in names]


@pytest.mark.parametrize("mirrored", files(FILES), indirect=True)
def test_mmtool_gives_the_names_that_mm2_has_given(mirrored):
    flow = mirrored.flow
    assert {topic: flow.remote_topic(topic) for topic in mirrored.topics} == mirrored.remotes
    assert all(map(flow.mirrors_topic, mirrored.topics))
    assert flow.checkpoints_topic in topics_of(flow.target.bootstrap_servers)
    assert {sync.topic for sync in read_syncs(flow)} >= set(mirrored.topics)
    held = read_positions(flow)[positions_topic(flow.source.alias)]
    assert {place.topic for place in held} >= set(mirrored.topics)


@pytest.mark.parametrize("mirrored", files(TAKEN_OVER), indirect=True)
def test_a_take_over_finds_what_mm2_has_left_under_these_names(mirrored):
    taken = mirrored.run("replicate", "--take-over", "--until-caught-up")
    assert taken.code == 0, taken
    assert mirrored.made() == mirrored.wanted, "records were copied again"
    translated = mirrored.run("translate-offsets", "--refine", "-g", f"app-{mirrored.mark}", "-o", "json")
    rows = [(row["target_topic"], row["downstream_offset"], row["exactness"]) for row in translated.rows]
    assert rows == [(mirrored.remotes[mirrored.topics[1]], READ, "exact")]
    status = mirrored.run("status", "-o", "json")
    assert {row["topic"]: row["target_topic"] for row in status.rows} == mirrored.remotes


def end_of_syncs(flow):
    cluster = flow.target if flow.offset_syncs_location == "target" else flow.source
    return end_offsets(cluster.bootstrap_servers, flow.offset_syncs_topic).get(0, 0)
