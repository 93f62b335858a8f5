"""The JSON of MirrorMaker 2's three connectors becomes one properties file, without its secrets."""

import json

import pytest

from kit.flow_names import enabled_flows
from mmtool.config.properties import read_properties
from mmtool.errors import UsageError
from mmtool.importers.service import imported_json

SIDES = {
    "source.cluster.alias": "east",
    "target.cluster.alias": "west",
    "source.cluster.bootstrap.servers": "east:9092",
    "target.cluster.bootstrap.servers": "west:9092",
}
CLASS = "org.apache.kafka.connect.mirror."
LOGIN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="hush";'


def connector(kind, **more):
    return {"connector.class": f"{CLASS}Mirror{kind}Connector", **SIDES} | {
        key.replace("_", "."): value for key, value in more.items()
    }


def named(config, name=""):
    return {"name": name or config["connector.class"].rpartition(".")[2], "config": config}


THREE = [
    named(connector("Source", topics="orders,pay.*", tasks_max=4, replication_factor="3")),
    named(connector("Checkpoint", groups="app-.*", sync_group_offsets_enabled=True)),
    named(connector("Heartbeat", emit_heartbeats_interval_seconds=5)),
]


@pytest.fixture
def entries(tmp_path):
    """Import documents, each from a file of its own; returns the file's entries, and what mmtool reads them as."""

    def read(*documents, keep_secrets=False):
        contents = [(f"{number}.json", json.dumps(one).encode()) for number, one in enumerate(documents)]
        imported = imported_json(contents, "/secrets", keep_secrets=keep_secrets)
        path = tmp_path / "mm2.properties"
        path.write_text(imported.text)
        return {key: entry.value for key, entry in read_properties(path).entries.items()}, imported

    return read


def notes(imported, kind):
    return {note.path: note.message for note in imported.notes if note.kind == kind}


def test_three_connectors_become_one_flow(entries):
    found, _ = entries(*THREE)
    assert enabled_flows(found) == ("east->west",)
    assert found == {
        "clusters": "east, west",
        "emit.heartbeats.enabled": "false",
        "east.bootstrap.servers": "east:9092",
        "west.bootstrap.servers": "west:9092",
        "east->west.enabled": "true",
        "east->west.emit.heartbeats.enabled": "true",
        "east->west.topics": "orders,pay.*",
        "east->west.replication.factor": "3",
        "east->west.groups": "app-.*",
        "east->west.sync.group.offsets.enabled": "true",
        "east->west.emit.heartbeats.interval.seconds": "5",
    }


EXPANDED = {one["name"]: {"info": {**one, "tasks": [], "type": "source"}, "status": {}} for one in THREE}


@pytest.mark.parametrize(
    "documents",
    [
        [one["config"] for one in THREE],
        [THREE],
        [EXPANDED],
        [[EXPANDED]],
        [{"config": THREE[0]["config"]}, THREE[1:]],
    ],
    ids=["bare configs", "a list", "expand=info", "a list of expanded", "without a name"],
)
def test_every_form_of_kafka_connect_is_read(entries, documents):
    assert entries(*documents)[0] == entries(*THREE)[0]


def test_settings_of_connect_and_other_connectors_are_listed(entries):
    sink = {"name": "sink", "config": {"connector.class": "io.Sink", "password": "hush"}}
    source = named(connector("Source", tasks_max=1, errors_tolerance="all", x_y="z", topics=None), "src")
    _, imported = entries([source, sink])
    assert notes(imported, "left_out") == {
        "0.json: sink": "is no connector of MirrorMaker 2",
        "0.json: src: topics": "has no value, or a value that Connect refuses",
        "0.json: src: tasks.max": "a setting of Kafka Connect; mmtool has no Connect workers",
        "0.json: src: errors.tolerance": "a setting of Kafka Connect; mmtool has no Connect workers",
        "0.json: src: x.y": "mmtool has no such setting",
    }
    assert "hush" not in imported.text


def test_a_disagreement_is_reported_with_both_values_and_the_reader_of_the_key_wins(entries):
    found, imported = entries(
        named(
            connector("Source", topics="a", groups="wrong") | {"offset-syncs.topic.location": "target"}, "src"
        ),
        named(
            connector("Checkpoint", topics="b", groups="right")
            | {"target.cluster.bootstrap.servers": "w2:1"},
            "chk",
        ),
    )
    assert (found["east->west.topics"], found["east->west.groups"]) == ("a", "right")
    assert found["west.bootstrap.servers"] == "west:9092"
    assert notes(imported, "differs") == {
        "1.json: chk: topics": (
            "is b, but 0.json: src: topics is a; east->west.topics gets the value of 0.json: src: topics"
        ),
        "0.json: src: groups": (
            "is wrong, but 1.json: chk: groups is right; east->west.groups gets the value of 1.json: chk: groups"
        ),
        "1.json: chk: target.cluster.bootstrap.servers": (
            "is w2:1, but 0.json: src: target.cluster.bootstrap.servers is west:9092; west.bootstrap.servers gets the"
            " value of 0.json: src: target.cluster.bootstrap.servers"
        ),
        "1.json: chk: offset-syncs.topic.location": (
            "is not set (default source), but 0.json: src: offset-syncs.topic.location is target;"
            " east->west.offset-syncs.topic.location gets the value of 0.json: src: offset-syncs.topic.location"
        ),
    }


SECURED = connector("Source") | {
    "source.cluster.sasl.jaas.config": LOGIN,
    "source.cluster.ssl.truststore.password": "hush-2",
    "producer.override.sasl.jaas.config": "hush-3",
    "source.cluster.sasl.oauthbearer.token.endpoint.url": "https://u:hush-4@sso/token",
    "source.cluster.ssl.keystore.key": "-----BEGIN PRIVATE KEY-----\nhush-5\n-----END PRIVATE KEY-----",
}


def test_secrets_in_clear_text_become_environment_variables(entries):
    found, imported = entries(SECURED)
    assert "hush" not in imported.text + repr(imported) + str(imported.notes)
    assert {key: value for key, value in found.items() if "${" in value} == {
        "east.sasl.jaas.config": LOGIN.replace("hush", "${env:EAST_SASL_PASSWORD}"),
        "east.ssl.truststore.password": "${env:EAST_SSL_TRUSTSTORE_PASSWORD}",
        "east.sasl.oauthbearer.token.endpoint.url": "${env:EAST_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL}",
        "east.ssl.keystore.key": "${env:EAST_SSL_KEYSTORE_KEY}",
        "east->west.producer.override.sasl.jaas.config": "${env:EAST_WEST_PRODUCER_OVERRIDE_SASL_JAAS_CONFIG}",
    }
    assert len(notes(imported, "secret")) == 5


def test_a_login_whose_password_has_quotes_is_taken_out_as_a_whole(entries):
    login = LOGIN.replace("hush", r"hush\"\\")
    found, imported = entries(connector("Source") | {"source.cluster.sasl.jaas.config": login})
    assert found["east.sasl.jaas.config"] == "${env:EAST_SASL_JAAS_CONFIG}"
    assert "hush" not in imported.text


def test_secrets_are_copied_when_asked_for_and_each_is_reported(entries):
    found, imported = entries(SECURED, keep_secrets=True)
    assert found["east.sasl.jaas.config"] == LOGIN
    assert found["east.ssl.keystore.key"] == SECURED["source.cluster.ssl.keystore.key"]
    assert set(notes(imported, "attention").values()) >= {
        "the secret is copied in clear text: protect the properties file"
    }
    assert "hush" not in repr(imported) + str(imported.notes)


def test_different_secrets_of_two_connectors_are_reported_without_them(entries):
    other = connector("Checkpoint") | {"source.cluster.sasl.jaas.config": LOGIN.replace("hush", "hush-9")}
    _, imported = entries(named(SECURED, "src"), named(other, "chk"))
    assert (
        "is [hidden], but 0.json: src:"
        in notes(imported, "differs")["1.json: chk: source.cluster.sasl.jaas.config"]
    )
    assert "hush" not in imported.text


def test_placeholders_stay_and_their_files_are_named(entries):
    login = LOGIN.replace("hush", "${file:/opt/secrets.properties:pw}")
    found, imported = entries(connector("Source") | {"source.cluster.sasl.jaas.config": login})
    assert found["east.sasl.jaas.config"] == login
    assert found["config.providers.file.class"].endswith("FileConfigProvider")
    (note,) = notes(imported, "secret").values()
    assert "provide /opt/secrets.properties to mmtool as well" in note


def test_a_placeholder_of_another_provider_stays_and_is_reported(entries):
    found, imported = entries(connector("Source") | {"source.cluster.ssl.key.password": "${vault:kv/mm2:pw}"})
    assert found["east.ssl.key.password"] == "${vault:kv/mm2:pw}"
    assert "the config provider vault is unknown" in list(notes(imported, "attention").values())[-1]


@pytest.mark.parametrize(
    ("value", "is_copied"),
    [("${env:A}${env:B}", True), ("${nocolon}", False), ("${env:A}x", False)],
)
def test_only_placeholders_with_a_colon_are_no_secret(entries, value, is_copied):
    found, imported = entries(connector("Source") | {"source.cluster.ssl.key.password": value})
    kept = value if is_copied else "${env:EAST_SSL_KEY_PASSWORD}"
    assert (found["east.ssl.key.password"], value in imported.text) == (kept, is_copied)


def test_variables_of_different_keys_have_different_names(entries):
    secret = {"source.cluster.ssl.key.password": "hush"}
    one = connector("Source") | {"source.cluster.alias": "a-b"} | secret
    two = connector("Source") | {"source.cluster.alias": "a.b"} | secret
    found, _ = entries(one, two)
    assert (found["a-b.ssl.key.password"], found["a.b.ssl.key.password"]) == (
        "${env:A_B_SSL_KEY_PASSWORD}",
        "${env:A_B_SSL_KEY_PASSWORD_2}",
    )


def test_a_blank_alias_stays_blank_in_topic_names(entries):
    found, _ = entries(connector("Source") | {"source.cluster.alias": ""})
    assert enabled_flows(found) == ("source->west",)
    assert found["source->west.source.cluster.alias"] == ""


def test_a_heartbeat_connector_of_the_other_direction_enables_heartbeats_alone(entries):
    back = connector("Heartbeat") | {"source.cluster.alias": "west", "target.cluster.alias": "east"}
    found, _ = entries(connector("Source"), back)
    assert enabled_flows(found) == ("east->west",)
    assert (found["west->east.enabled"], found["west->east.emit.heartbeats.enabled"]) == ("false", "true")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "mm2.json:1: not valid JSON"),
        (b"\xff", "mm2.json: not valid JSON"),
        (b"7", "mm2.json is not the JSON of Kafka Connect connectors"),
        (b"{}", "mm2.json is not the JSON of Kafka Connect connectors"),
        (b'{"a": {"b": 1}}', "mm2.json is not the JSON of Kafka Connect connectors"),
        (b"[]", "mm2.json: no connector of MirrorMaker 2"),
        (json.dumps(connector("Heartbeat")).encode(),
         "mm2.json: no MirrorSourceConnector, so no flow can be imported"),
        (json.dumps({"connector.class": "MirrorSourceConnector"}).encode(),
         "mm2.json: MirrorSourceConnector has no source.cluster.alias"),
        (json.dumps(connector("Source") | {"target.cluster.alias": "east"}).encode(),
         "mm2.json: MirrorSourceConnector: source and target have the same alias 'east'"),
        (json.dumps(connector("Source") | {"target.cluster.alias": "a,b"}).encode(),
         "mm2.json: MirrorSourceConnector: the alias 'a,b' contains a comma"),
        (json.dumps(connector("Source") | {"target.cluster.alias": "a" * 250}).encode(),
         "mm2.json: MirrorSourceConnector: the alias has 250 characters, more than 249"),
        (json.dumps([named(connector("Source"), "one"), named(connector("Source"), "two")]).encode(),
         ("mm2.json: one and mm2.json: two are both a MirrorSourceConnector of east->west; a properties file has one"
         " flow per pair of clusters")),
    ],
)  # fmt: skip
def test_json_that_cannot_be_imported_is_refused_with_its_place(content, message):
    with pytest.raises(UsageError) as refused:
        imported_json([("mm2.json", content)], "/secrets", keep_secrets=False)
    assert (refused.value.message, bool(refused.value.remedy)) == (message, True)


def test_the_file_with_the_flow_is_asked_for_beside_those_that_were_given():
    contents = [(name, json.dumps(connector("Heartbeat")).encode()) for name in ("my c.json", "d.json")]
    with pytest.raises(UsageError) as refused:
        imported_json(contents, "/secrets", keep_secrets=False)
    assert "--connect 'my c.json' d.json OTHER.json`" in refused.value.remedy


@pytest.mark.parametrize("folder", ["a b", "a:b", "a}b", ""])
def test_a_folder_that_no_placeholder_can_name_is_refused(folder):
    with pytest.raises(UsageError, match="--secrets-dir"):
        imported_json([("mm2.json", b"[]")], folder, keep_secrets=False)
