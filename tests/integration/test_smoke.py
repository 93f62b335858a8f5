"""``mmtool smoke`` on real brokers: flows that mmtool runs, that MirrorMaker 2 runs, and that nobody runs."""

import time
from xml.etree import ElementTree as ET

import pytest

from kit.lab_admin import configs_of
from kit.load import Load, produce
from kit.lookups import groups_of
from kit.processes import MmtoolProcess, run_mmtool
from mmtool.lab.fleet import Fleet
from mmtool.lab.topics import create_topic, end_offsets, topics_of

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

CANARY = "mmtool-canary"
CANARY_STEPS = ["clusters", "owner", "topic", "produce", "mirrored", "commit", "translated", "read"]
NEWEST_STEPS = ["clusters", "owner", "newest", "mirrored", "translated", "read"]
NAMES = ("source", "target", "third")
_COMMON = {"refresh.topics.interval.seconds": "1", "heartbeats.replication.enabled": "false"}
_PATIENCE_SECONDS = 90.0


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    """Clusters of their own: once a canary is there, every flow from its cluster mirrors it."""
    fleet = Fleet.of(tmp_path_factory.mktemp("smoke"), *NAMES)
    with fleet:
        for name in NAMES:
            create_topic(fleet[name].bootstrap, f"orders-{name}", 1, 1)
            produce(fleet[name].bootstrap, Load(f"orders-{name}", 100, 1, 100))
        yield fleet
    fleet.remove_data()


@pytest.fixture
def made(clusters, tmp_path):
    """``made(flow, ...)`` is a properties file; orders are mirrored, and the canary is in no filter."""

    def write(*flows, **extra):
        path = tmp_path / "mm2.properties"
        path.write_text(clusters.properties(flows, **{"topics": "orders-.*", **_COMMON, **extra}))
        return path

    return write


@pytest.fixture
def smoke(tmp_path):
    def run(properties, *options, source="source", target="target"):
        words = ("smoke", "-c", str(properties), "-s", source, "-t", target, "-o", "json", *options)
        return run_mmtool(tmp_path / f"smoke-{time.monotonic_ns()}", *words)

    return run


def replicating(tmp_path, properties):
    return MmtoolProcess(tmp_path / "replicate", "replicate", "-c", str(properties), "--every", "1")


def results(answer):
    return {row["step"]: row["result"] for row in answer.rows}


def suite_of(report):
    return ET.fromstring(report.read_text()).find("testsuite")  # noqa: S314  our own


def failed(answer):
    """The step that failed, and its message."""
    row = next(row for row in answer.rows if row["result"] == "failed")
    return row["step"], row["message"]


def ends(clusters, *names):
    """How long each cluster's canary topics are, by name."""
    return {
        (name, topic): sum(end_offsets(clusters[name].bootstrap, topic).values())
        for name in names
        for topic in topics_of(clusters[name].bootstrap)
        if topic.endswith(CANARY)
    }


def test_a_canary_goes_through_a_running_flow_and_leaves_nothing_that_grows(
    clusters, made, smoke, tmp_path, measured
):
    properties, report = made(("source", "target")), tmp_path / "smoke.xml"
    nobody = smoke(properties, "--junit", str(report))
    step, message = failed(nobody)
    assert (nobody.code, step) == (4, "owner"), nobody.stderr
    assert message.startswith("neither `mmtool replicate` nor MirrorMaker 2 runs source->target")
    assert f"start it: mmtool replicate -c {properties}" in message
    assert nobody.seconds < 15
    suite = suite_of(report)
    assert (suite.get("failures"), suite.get("skipped"), len(suite)) == ("1", "6", 8)

    with replicating(tmp_path, properties) as process:
        process.wait_line("caught_up", _PATIENCE_SECONDS)
        first = smoke(properties, "--junit", str(report))
        assert (first.code, list(results(first))) == (0, CANARY_STEPS), first.stdout + first.stderr
        second = smoke(properties)
        assert (second.code, set(results(second).values())) == (0, {"passed"}), second.stdout
        measured(f"smoke: {first.seconds:.1f} s with a new canary topic, {second.seconds:.1f} s after")
    suite = suite_of(report)
    assert [case.get("name") for case in suite] == CANARY_STEPS
    assert ends(clusters, "source", "target") == {("source", CANARY): 4, ("target", f"source.{CANARY}"): 4}
    assert not any(
        "canary" in group for name in NAMES for group in groups_of(clusters[name].bootstrap).listing().states
    )
    configs = configs_of(clusters["target"].bootstrap, [f"source.{CANARY}"])[f"source.{CANARY}"]
    assert (configs["retention.ms"], configs["cleanup.policy"]) == (str(24 * 3600 * 1000), "delete")


def test_of_a_read_only_source_the_newest_record_is_followed_and_nothing_is_written(
    clusters, made, smoke, tmp_path
):
    properties = made(("third", "target"), **{"offset-syncs.topic.location": "target"})
    third = clusters["third"].bootstrap

    def stored():
        names = [name for name in topics_of(third) if name != "heartbeats"]
        return {name: end_offsets(third, name) for name in names}, set(groups_of(third).listing().states)

    before = stored()
    with replicating(tmp_path, properties) as process:
        process.wait_line("caught_up", _PATIENCE_SECONDS)
        answer = smoke(properties, "--read-only", source="third")
    assert (answer.code, list(results(answer))) == (0, NEWEST_STEPS), answer.stdout
    (picked,) = [row["message"] for row in answer.rows if row["step"] == "newest"]
    assert picked.startswith("offset 99 of orders-third-0 on third")
    assert stored() == before
