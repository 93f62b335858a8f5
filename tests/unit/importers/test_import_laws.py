"""Whatever is imported: the file can be read, nothing disappears without a word, and no secret appears."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from hypothesis import given
from hypothesis import strategies as st

from mmtool.config.clientkeys import SECURITY_KEYS
from mmtool.config.keys import FLOW_KEYS
from mmtool.config.properties import read_properties
from mmtool.importers.service import imported_json, imported_yaml

CANARY = "canary-5eCr3t"
names = st.one_of(
    st.sampled_from(sorted(FLOW_KEYS)),
    st.sampled_from(sorted(SECURITY_KEYS - {"sasl.jaas.config"})).map("source.cluster.{}".format),
    st.sampled_from(
        ["tasks.max", "transforms", "transforms.t.type", "source.consumer.fetch.min.bytes", "clusters"]
    ),
    st.text(min_size=1, max_size=20),
).filter(lambda name: name not in {"name", "connector.class", "source.cluster.alias", "target.cluster.alias"})
values = st.text(max_size=30).filter(lambda value: "${" not in value)
aliases = st.tuples(st.text(max_size=12), st.text(max_size=12)).filter(
    lambda pair: "," not in "".join(pair) and (pair[0].strip() or "source") != (pair[1].strip() or "target")
)
secrets = st.sampled_from(
    ["sasl.jaas.config", "sasl.password", "ssl.key.password", "ssl.keystore.key", "ssl.truststore.password"]
)


def entries(imported):
    with TemporaryDirectory() as folder:
        path = Path(folder, "mm2.properties")
        path.write_text(imported.text)
        return {key: entry.value for key, entry in read_properties(path).entries.items()}


def connect(config, pair):
    full = config | {
        "connector.class": "MirrorSourceConnector",
        "source.cluster.alias": pair[0],
        "target.cluster.alias": pair[1],
    }
    return imported_json([("f", json.dumps(full).encode())], "/secrets", keep_secrets=False)


@given(st.dictionaries(names, values, max_size=8), aliases)
def test_each_key_of_a_connector_is_in_the_file_with_its_value_or_is_listed(config, pair):
    source, target = pair[0].strip() or "source", pair[1].strip() or "target"
    imported = connect(config, pair)
    found = entries(imported)
    listed = {note.path for note in imported.notes}
    for name, value in config.items():
        in_cluster = name.startswith("source.cluster.")
        key = f"{source}.{name[15:]}" if in_cluster else f"{source}->{target}.{name}"
        is_hidden = found.get(key, "").startswith("${env:")
        assert f"f: MirrorSourceConnector: {name}" in listed or (found[key] == value and not is_hidden)


@given(
    secrets,
    st.text(max_size=10),
    st.text(max_size=10),
    st.sampled_from(["source.cluster.", "producer.override."]),
)
def test_no_secret_gets_into_the_file_or_a_message(name, before, after, scope):
    imported = connect({scope + name: f"{before}{CANARY}{after}"}, ("east", "west"))
    assert CANARY not in imported.text + repr(imported) + str(imported.notes)


leaves = st.text(max_size=10) | st.integers() | st.booleans() | st.none()
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=10), inner, max_size=3)
    ),
    max_leaves=10,
)
SPEC_FIELDS = {"connectCluster", "clusters", "mirrors", "target"}


@given(st.dictionaries(st.text(min_size=1, max_size=10), trees, max_size=5))
def test_each_unknown_field_of_a_resource_is_listed(more):
    more = {name: value for name, value in more.items() if name not in SPEC_FIELDS}
    sides = [{"alias": alias, "bootstrapServers": f"{alias}:1"} for alias in ("east", "west")]
    spec = {
        **more,
        "connectCluster": "west",
        "clusters": sides,
        "mirrors": [{"sourceCluster": "east", "targetCluster": "west", "sourceConnector": {}}],
    }
    document = {"apiVersion": "kafka.strimzi.io/v1beta2", "kind": "KafkaMirrorMaker2", "spec": spec}
    imported = imported_yaml([("f", yaml.safe_dump(document).encode())], "/secrets", keep_secrets=False)
    listed = {note.path for note in imported.notes if note.kind == "left_out"}
    assert listed == {f"KafkaMirrorMaker2: spec.{name}" for name, value in more.items() if value is not None}
    assert entries(imported)["clusters"] == "east, west"
