"""Three clusters and every way between them, in one process: what comes where, by MM2's rules and by origins."""

from itertools import permutations

import pytest

from kit.load import Load, produce
from kit.lookups import commit, flow_facts
from kit.processes import MmtoolProcess, run_mmtool
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import compare_histories, create_topic, histories, read_topic, topics_of
from mmtool.plan.groups.offsets import answer_forward
from mmtool.translation.answers import Exact, Reason, Refused
from mmtool.translation.types import UpstreamOffset

pytestmark = pytest.mark.kafka

NAMES = ("a", "b", "c")
_BYTES = dict(zip(NAMES, (200, 210, 220), strict=True))  # tells where a record was born
_RECORDS = 500
_PATIENCE_SECONDS = 90.0
_COMMON = {"heartbeats.replication.enabled": "false", "refresh.topics.interval.seconds": "1"}
_IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Clusters a, b and c; topic ``prefixed`` and topic ``shared`` are born on each."""
    fleet = Fleet.of(tmp_path_factory.mktemp("three"), *NAMES)
    with fleet:
        for name in NAMES:
            for topic in ("prefixed", "shared"):
                create_topic(fleet[name].bootstrap, topic)
                produce(fleet[name].bootstrap, Load(topic, _RECORDS, 1, _BYTES[name]))
        yield fleet


def replicated(fleet, directory, flows, settings, goal):
    """One process runs the flows until the goal is reached, and ends cleanly."""
    properties = directory / "mm2.properties"
    properties.write_text(fleet.properties(flows, **_COMMON, **settings))
    with MmtoolProcess(directory / "run", "replicate", "-c", str(properties)) as process:

        def reached():
            assert process.alive, process.stderr
            return goal()

        wait_until(reached, "every flow to have mirrored", _PATIENCE_SECONDS)
        answer = process.stop()
    assert (answer.code, "Traceback" in answer.stderr) == (143, False), answer.stderr


def named(cluster, ending):
    return {name for name in topics_of(cluster.bootstrap) if name.endswith(ending)}


def born_at(name, records):
    return histories(record for record in records if len(record.value) == _BYTES[name])


def answers(directory, source, target):
    """What translate-offsets answers to a group that has read half of a shared topic."""
    facts = flow_facts(directory / "mm2.properties", source, target)
    return [answer_forward(f, UpstreamOffset(_RECORDS), f.target_log) for f in facts.values()]


def test_a_full_mesh_with_identical_names_brings_each_record_to_each_cluster_once(three, tmp_path):
    def whole():
        return all(len(read_topic(three[name].bootstrap, "shared")) >= 3 * _RECORDS for name in NAMES)

    settings = {"topics": "shared", "replication.policy.class": _IDENTITY, "mmtool.origins": "local"}
    replicated(three, tmp_path, list(permutations(NAMES, 2)), settings, whole)
    read = {name: read_topic(three[name].bootstrap, "shared") for name in NAMES}
    for home, away in permutations(NAMES, 2):
        verdicts = compare_histories(born_at(home, read[home]), born_at(home, read[away]))
        assert all(v.is_identical for v in verdicts.values()), (home, away, verdicts)
    # what came from the third cluster is in neither flow's runs: a guess would skip records
    assert {*answers(tmp_path, "a", "b"), *answers(tmp_path, "c", "a")} == {Refused(Reason.AMBIGUOUS)}


def test_a_chain_with_identical_names_hands_on_what_came(three, tmp_path):
    """a -> b -> c: what was mirrored to b goes on to c, once, and what is born in the middle only forward."""
    topic = "handed"
    for name in ("a", "b"):
        create_topic(three[name].bootstrap, topic)
        produce(three[name].bootstrap, Load(topic, _RECORDS, 1, _BYTES[name]))

    def whole():
        there = named(three["c"], topic)
        return bool(there) and len(read_topic(three["c"].bootstrap, topic)) >= 2 * _RECORDS

    settings = {"topics": topic, "replication.policy.class": _IDENTITY}
    replicated(three, tmp_path, [("a", "b"), ("b", "c")], settings, whole)
    read = {name: read_topic(three[name].bootstrap, topic) for name in NAMES}
    assert [len(read[name]) for name in NAMES] == [_RECORDS, 2 * _RECORDS, 2 * _RECORDS]
    for home, away in (("a", "b"), ("a", "c"), ("b", "c")):
        verdicts = compare_histories(born_at(home, read[home]), born_at(home, read[away]))
        assert all(v.is_identical for v in verdicts.values()), (home, away, verdicts)
    exact = {answer.offset for answer in answers(tmp_path, "a", "b") if isinstance(answer, Exact)}
    assert len(exact) == 1
    assert along_and_back(three, tmp_path, topic, 300) == ("exact", read["a"][300].value, 300)


def along_and_back(three, directory, topic, at):
    """A group's way from a over b to c: how sure, what it reads there first, and where that leads back to."""

    def led(*options):
        flow = ("-c", str(directory / "mm2.properties"), "-s", "a", "-t", "c", "-g", "reader")
        answer = run_mmtool(directory, "translate-offsets", *flow, *options, "-o", "json")
        assert answer.code == 0, answer
        return answer.rows[0]

    commit(three["a"].bootstrap, "reader", topic, at)
    there = led("--execute", "--yes")
    first = next(r for r in read_topic(three["c"].bootstrap, topic) if r.offset == there["downstream_offset"])
    return there["exactness"], first.value, led("--reverse")["upstream_offset"]
