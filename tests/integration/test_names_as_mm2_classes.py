"""Topics get the names that MirrorMaker 2's own classes give them, whatever aliases and separator a file has."""

import subprocess
from itertools import product

import pytest

from kit.kafka_tools import java_source
from mmtool.config import load_settings

pytestmark = pytest.mark.java

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
TOPICS = [
    *(
        "orders",
        "MyBooks",
        "orders.v1",
        "A.orders",
        "B.orders",
        "Apple",
        "Books",
        "b",
        "B",
        "B.",
        ".x",
        "x..",
        "a_b",
    ),
    *("site.orders", "plant.orders", "dr.orders", "C.B.orders", "x-B-y", "site_orders", "siteorders", "drx"),
    *(
        "heartbeats",
        "A.heartbeats",
        "B.heartbeats",
        "site.heartbeats",
        "device-heartbeats",
        "C_dr_heartbeats",
    ),
    *(
        "checkpointsinternal",
        "mm2-offset-syncsinternal",
        "mm2-offsets.A.internal",
        "site.checkpoints.internal",
    ),
]
ALIASES = {
    "the file's": "",
    "blank": "source.cluster.alias =\ntarget.cluster.alias =",
    "blank source": "source.cluster.alias =",
    "global": "source.cluster.alias = site\ntarget.cluster.alias = dr",
    "of a cluster": "A.alias = plant\nB.alias = dr\nsource.cluster.alias = site",
    "of a flow": "A->B.source.cluster.alias = site\nA.alias = plant\nA->B.target.cluster.alias = C",
    "of the other side": "B.alias = dr\nA->B.source.cluster.alias =",
    "under an alias, which says nothing": "A.cluster.alias = site\nB.source.cluster.alias = dr",
    "one for both": "source.cluster.alias = dr\ntarget.cluster.alias = dr",
}
SEPARATORS = {".": "", "blank": "replication.policy.separator =", "_": "replication.policy.separator = _"}
REST = {
    "default": "",
    "identity": IDENTITY,
    "syncs on the target": "offset-syncs.topic.location = target",
    "internal dots": "replication.policy.internal.topic.separator.enabled = false",
}
HEAD = "clusters = A, B\nA.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\nA->B.enabled = true\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One file of each kind, and what MM2's classes say of it."""
    folder = tmp_path_factory.mktemp("names")
    made = {}
    for number, names in enumerate(product(ALIASES, SEPARATORS, REST)):
        lines = (ALIASES[names[0]], SEPARATORS[names[1]], REST[names[2]])
        path = folder / f"{number}.properties"
        path.write_text(HEAD + "\n".join(lines) + "\n")
        made[names] = path
    with java_source("MirrorNames", "A", "B", ",".join(TOPICS), *map(str, made.values())) as command:
        ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=240)
    said = [line[1:].split("\t") for line in ran.stdout.splitlines() if line.startswith("=")]
    size = 1 + len(TOPICS)
    assert len(said) == size * len(made)
    return {names: (path, said[n * size : (n + 1) * size]) for n, (names, path) in enumerate(made.items())}


@pytest.mark.parametrize("rest", REST)
@pytest.mark.parametrize("separator", SEPARATORS)
@pytest.mark.parametrize("aliases", ALIASES)
def test_a_flow_names_its_topics_as_mm2_does(files, aliases, separator, rest):
    path, (of_flow, *of_topics) = files[aliases, separator, rest]
    flow = load_settings(path, {}).one(None, None)
    named = (flow.topic_aliases.source, flow.topic_aliases.target)
    assert [*named, flow.offset_syncs_topic, flow.checkpoints_topic] == of_flow
    ours = {topic: [flow.remote_topic(topic), str(flow.mirrors_topic(topic)).lower()] for topic in TOPICS}
    assert ours == dict(zip(TOPICS, of_topics, strict=True))
