"""Other versions of Kafka than the lab's own, on either side: what is mirrored and translated is the same."""

import pytest

from kit.bench import Bench
from kit.exactness import wrong_translations
from kit.lab_admin import compare_topics
from kit.load import Load, Transactions, produce
from kit.lookups import commit, committed
from mmtool.lab.cluster import Cluster, Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.topics import create_topic

pytestmark = pytest.mark.kafka

OLD, NEW = "3.9.1", "4.3.1"
PAIRS = [
    pytest.param((OLD, NEW), id=f"{OLD}-to-{NEW}"),
    pytest.param((NEW, OLD), id=f"{NEW}-to-{OLD}", marks=pytest.mark.chaos),
]
_LOAD = Load("orders", 2_000, 2, 200, transactions=Transactions("orders", records=50, abort_every=3))


@pytest.fixture(params=PAIRS)
def bench(request, tmp_path):
    clusters = zip(("source", "target"), request.param, strict=True)
    fleet = Fleet([Cluster(name, tmp_path / name, Shape(version=version)) for name, version in clusters])
    with fleet:
        yield Bench(fleet, tmp_path)


def test_each_pair_of_versions_mirrors_every_record_and_translates_every_offset(bench):
    source, target = bench.fleet["source"], bench.fleet["target"]
    create_topic(source.bootstrap, _LOAD.topic, _LOAD.partitions)
    produce(source.bootstrap, _LOAD)
    properties = bench.properties(_LOAD.topic)
    flow = bench.flow(properties)

    answer = bench.catch_up(properties)

    assert answer.code == 0, answer.stderr
    remote = flow.remote_topic(_LOAD.topic)
    verdicts = compare_topics(source.bootstrap, _LOAD.topic, target.bootstrap, remote)
    assert [verdict.is_identical for verdict in verdicts.values()] == [True, True]
    asked, wrong = wrong_translations(flow, source, target, [_LOAD.topic])
    assert (asked > 2_000, list(wrong)) == (True, [])

    (bench.directory / "map.csv").write_text("app,app-dr\n")
    commit(source.bootstrap, "app", _LOAD.topic, 0, 0)
    words = ("-g", "app", "--group-map", str(bench.directory / "map.csv"), "--execute", "--yes")
    moved = bench.ask(properties, "failover", "planned", *words)
    assert moved.code == 0, moved.stderr
    assert (committed(target.bootstrap, "app"), len(committed(target.bootstrap, "app-dr"))) == ({}, 2)
    back = bench.ask(properties, "failover", "failback", "-g", "app", "--execute", "--yes")
    assert back.code == 0, back.stderr
