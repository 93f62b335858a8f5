"""The real MirrorMaker 2 and mmtool give a topic one name, whatever the file overrides, and one follows the other."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from mmtool.config import FlowSettings, load_settings
from mmtool.lab.fleet import Fleet
from mmtool.lab.load import Load, produce
from mmtool.lab.mirror_maker import MirrorMaker
from mmtool.lab.topics import create_topic, end_offsets, topics_of
from mmtool.plan.group_facts import Commit
from mmtool.testing.lookups import groups_of
from mmtool.testing.processes import run_mmtool
from mmtool.translation.types import TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

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
REST = """
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

    def made(self):
        """What is on the target of these topics now, and how long it is."""
        there = self.flow.target.bootstrap_servers
        return {name: end_offsets(there, name)[0] for name in topics_of(there) if self.mark in name}

    def run(self, *command):
        return run_mmtool(self.path.parent / command[0], *command, "-c", str(self.path))


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    """A flow's state belongs to its clusters and to the aliases of its file, so the session's are not used."""
    with Fleet.of(tmp_path_factory.mktemp("names"), "A", "B", "cloud") as clusters:
        yield clusters


@pytest.fixture(params=FILES, ids=[name.partition(":")[0] for name in FILES])
def side(request, clusters, topic_name, tmp_path):
    (source, target), naming, form = FILES[request.param]
    mark = topic_name("n")
    topics = [f"orders-{mark}", f"MyBooks-{mark}", f"a.b-{mark}"]
    path = tmp_path / "connect-mirror-maker.properties"
    path.write_text(
        f"clusters = {target}, {source}\n"
        f"{source}.bootstrap.servers = {clusters[source].bootstrap}\n"
        f"{target}.bootstrap.servers = {clusters[target].bootstrap}\n"
        f"{source}->{target}.enabled = true\ntopics = .*-{mark}\ngroups = .*-{mark}\n{naming}{REST}"
        f"{target}.offset.flush.interval.ms = 1000\nheartbeats.replication.enabled = false\n"
    )
    for topic in topics:
        create_topic(clusters[source].bootstrap, topic)
        produce(clusters[source].bootstrap, Load(topic, RECORDS))
    (flow,) = load_settings(path, {}).flows
    return Side(flow, path, mark, topics, form)


def test_what_mm2_has_named_mmtool_finds_and_continues(side):
    group, at = f"app-{side.mark}", TopicPartition(side.topics[1], 0)
    assert groups_of(side.flow.source.bootstrap_servers).alter(group, {at: Commit(READ)}) == {}
    wanted = dict.fromkeys(side.remotes.values(), RECORDS)
    with MirrorMaker(side.path.read_text(), side.path.parent) as mm2:
        mm2.wait_until(lambda: side.made() == wanted, f"{wanted}, and not {side.made()}", 90)
        mm2.wait_until(lambda: end_of_syncs(side.flow) >= len(wanted), "offset syncs")
    assert {topic: side.flow.remote_topic(topic) for topic in side.topics} == side.remotes
    if side.flow.emit_checkpoints:
        assert side.flow.checkpoints_topic in topics_of(side.flow.target.bootstrap_servers)

    taken = side.run("replicate", "--take-over", "--until-caught-up")
    assert taken.code == 0, taken
    assert side.made() == wanted, "records were copied again"
    translated = side.run("translate-offsets", "--refine", "-g", group, "-o", "json")
    rows = [(row["target_topic"], row["downstream_offset"], row["exactness"]) for row in translated.rows]
    assert rows == [(side.remotes[at.topic], READ, "exact")]
    status = side.run("status", "-o", "json")
    assert {row["topic"]: row["target_topic"] for row in status.rows} == side.remotes


def end_of_syncs(flow):
    cluster = flow.target if flow.offset_syncs_location == "target" else flow.source
    return end_offsets(cluster.bootstrap_servers, flow.offset_syncs_topic).get(0, 0)
