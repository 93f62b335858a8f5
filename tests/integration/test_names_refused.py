"""Names that would change, or meet, are refused before anything is copied; an alias may have a slash."""

import pytest

from kit.load import Load, produce
from kit.processes import MmtoolProcess, run_mmtool
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, end_offsets, topics_of

pytestmark = pytest.mark.kafka

RECORDS = 30


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    with Fleet.of(tmp_path_factory.mktemp("fan-in"), "us", "us.east", "hub") as clusters:
        yield clusters


@pytest.fixture
def write(clusters, tmp_path):
    """A properties file with aliases for clusters of the fleet."""

    def written(aliases, flows, more):
        path = tmp_path / "mm2.properties"
        servers = [
            f"{alias}.bootstrap.servers = {clusters[name].bootstrap}" for alias, name in aliases.items()
        ]
        enabled = [f"{flow}.enabled = true" for flow in flows]
        rest = "replication.factor = 1\noffset-syncs.topic.replication.factor = 1\n"
        rest += "checkpoints.topic.replication.factor = 1\nheartbeats.topic.replication.factor = 1\n"
        rest += "heartbeats.replication.enabled = false\nrefresh.topics.interval.seconds = 1\n"
        path.write_text(
            "\n".join([f"clusters = {', '.join(aliases)}", *servers, *enabled, rest, *more]) + "\n"
        )
        return path

    return written


def fill(cluster, *topics):
    for topic in topics:
        create_topic(cluster.bootstrap, topic)
        produce(cluster.bootstrap, Load(topic, RECORDS))


def test_a_flow_whose_topics_would_get_other_names_is_refused_with_both(clusters, write, tmp_path):
    fill(clusters["us.east"], "orders")
    aliases, flows = {"east": "us.east", "us": "us"}, ["east->us"]

    def catch_up(*more):
        path = write(aliases, flows, ["topics = orders", *more])
        return run_mmtool(tmp_path / "run", "replicate", "-c", str(path), "--until-caught-up")

    assert catch_up().code == 0
    before = topics_of(clusters["us"].bootstrap)
    refused = catch_up("source.cluster.alias = site")
    assert refused.code == 3, refused
    assert "orders is mirrored to east.orders and would now be called site.orders" in refused.stderr
    assert "east->us.source.cluster.alias = east" in refused.stderr
    assert topics_of(clusters["us"].bootstrap) == before
    kept = catch_up("source.cluster.alias = site", "east->us.source.cluster.alias = east")
    assert kept.code == 0, kept
    assert end_offsets(clusters["us"].bootstrap, "east.orders") == {0: RECORDS}


def test_two_source_topics_of_one_name_end_the_start_and_halt_later_ones(clusters, write, tmp_path):
    fill(clusters["us"], "east.meet", "plain")
    fill(clusters["us.east"], "meet")
    aliases, flows = {"us": "us", "us.east": "us.east", "hub": "hub"}, ["us->hub", "us.east->hub"]
    path = write(aliases, flows, ["topics = .*meet, plain, .*late"])
    checked = run_mmtool(tmp_path / "check", "config", "check", "-c", str(path))
    assert (checked.code, "would both be us.east.x on hub" in checked.stdout) == (0, True), checked
    kafkas_own = {"__consumer_offsets"}  # created by the broker that is asked for MM2's group
    before = topics_of(clusters["hub"].bootstrap).keys() - kafkas_own
    refused = run_mmtool(tmp_path / "run", "replicate", "-c", str(path), "--until-caught-up")
    assert refused.code == 2, refused
    assert (
        "topic east.meet of us and topic meet of us.east would both be us.east.meet on hub" in refused.stderr
    )
    assert topics_of(clusters["hub"].bootstrap).keys() - kafkas_own == before

    path.write_text(path.read_text() + "us->hub.topics.exclude = .*meet\n")
    with MmtoolProcess(tmp_path / "later", "replicate", "-c", str(path)) as process:
        mirrors = ("us.plain", "us.east.meet")
        wait_until(
            lambda: all(end_offsets(clusters["hub"].bootstrap, name).get(0) == RECORDS for name in mirrors),
            "both mirrors",
            90,
        )
        fill(clusters["us"], "east.late")
        wait_until(lambda: "us.east.late" in topics_of(clusters["hub"].bootstrap), "the late mirror", 30)
        fill(clusters["us.east"], "late")
        process.wait_line("late would be called us.east.late on hub, where us->hub mirrors another topic", 30)
        process.stop()
    assert end_offsets(clusters["hub"].bootstrap, "us.east.late") == {0: RECORDS}
