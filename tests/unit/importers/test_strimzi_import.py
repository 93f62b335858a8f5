"""A KafkaMirrorMaker2 resource becomes the settings that Strimzi's operator gives to the connectors."""

import pytest

from kit.flow_names import enabled_flows
from mmtool.config.properties import read_properties
from mmtool.errors import UsageError
from mmtool.importers.service import imported_yaml
from mmtool.output.redaction import redacted

V1BETA2 = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {name: dr, namespace: kafka}
spec:
  replicas: 1
  connectCluster: west
  clusters:
  - alias: east
    bootstrapServers: east-kafka-bootstrap:9092
  - alias: west
    bootstrapServers: west-kafka-bootstrap:9092
    config: {config.storage.replication.factor: -1}
  mirrors:
  - sourceCluster: east
    targetCluster: west
    sourceConnector: {tasksMax: 2, config: {replication.factor: -1, sync.topic.acls.enabled: "false"}}
    checkpointConnector: {config: {checkpoints.topic.replication.factor: -1, sync.group.offsets.enabled: yes}}
    topicsPattern: "orders|pay.*"
    groupsPattern: "app-.*"
"""
V1 = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata: {name: dr}
spec:
  target:
    alias: west
    bootstrapServers: west:9092
    groupId: dr-group
    configStorageTopic: dr-config
    offsetStorageTopic: dr-offsets
    statusStorageTopic: dr-status
  mirrors:
  - source: {alias: east, bootstrapServers: "east:9092"}
    sourceConnector: {}
    checkpointConnector: {}
  - source: {alias: north, bootstrapServers: "north:9092"}
    sourceConnector: {}
    checkpointConnector: {}
"""
EXTERNAL = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {{name: dr, namespace: kafka}}
spec:
  connectCluster: west
  clusters:
  - alias: east
    bootstrapServers: east:9093
{more}
  - {{alias: west, bootstrapServers: "west:9092"}}
  mirrors: [{{sourceCluster: east, targetCluster: west, sourceConnector: {{}}, checkpointConnector: {{}}}}]
"""
SECRETS = "/etc/mmtool/secrets"


@pytest.fixture
def entries(tmp_path):
    """Import a text; returns the file's entries, and what mmtool reads them as."""

    def read(text, **options):
        imported = imported_yaml([("dr.yaml", text.encode())], SECRETS, **{"keep_secrets": False, **options})
        path = tmp_path / "mm2.properties"
        path.write_text(imported.text)
        return {key: entry.value for key, entry in read_properties(path).entries.items()}, imported

    return read


def external(more):
    lines = more.strip("\n").splitlines()
    return EXTERNAL.format(more="\n".join(f"    {line}" for line in lines))


def paths(imported, kind="left_out"):
    return [note.path for note in imported.notes if note.kind == kind]


def test_a_resource_of_v1beta2_becomes_a_flow(entries):
    found, _ = entries(V1BETA2)
    assert enabled_flows(found) == ("east->west",)
    assert found == {
        "clusters": "east, west",
        "emit.heartbeats.enabled": "false",
        "east.bootstrap.servers": "east-kafka-bootstrap:9092",
        "east.security.protocol": "PLAINTEXT",
        "west.bootstrap.servers": "west-kafka-bootstrap:9092",
        "west.security.protocol": "PLAINTEXT",
        "east->west.enabled": "true",
        "east->west.replication.factor": "-1",
        "east->west.sync.topic.acls.enabled": "false",
        "east->west.checkpoints.topic.replication.factor": "-1",
        "east->west.sync.group.offsets.enabled": "true",
        "east->west.topics": "orders|pay.*",
        "east->west.groups": "app-.*",
    }


def test_client_settings_of_a_cluster_are_left_out(entries):
    text = V1BETA2.replace(
        "config: {config.storage", "config: {producer.acks: all, max.poll.records: 5, config.storage"
    )
    reasons = {note.path.rpartition("config.")[2]: note.message for note in entries(text)[1].notes}
    assert reasons["producer.acks"] == "a setting of Java's clients, which mmtool does not use"
    assert reasons["max.poll.records"].startswith("without effect, in MirrorMaker 2 as well")


def test_a_resource_of_v1_becomes_one_flow_per_mirror_and_names_its_workers(entries):
    found, imported = entries(V1)
    assert enabled_flows(found) == ("east->west", "north->west")
    assert (found["west.group.id"], found["west.offset.storage.topic"]) == ("dr-group", "dr-offsets")
    assert sorted(paths(imported)) == [
        "dr: spec.target.configStorageTopic",
        "dr: spec.target.statusStorageTopic",
    ]


def test_two_resources_that_name_different_workers_of_a_target_are_reported(entries):
    other = (
        V1.replace("alias: east", "alias: south")
        .replace("alias: north", "alias: up")
        .replace("dr-", "other-")
    )
    found, imported = entries(f"{V1}---\n{other}")
    assert found["west.group.id"] == "dr-group"
    assert paths(imported, "differs") == ["dr: spec.target.groupId", "dr: spec.target.offsetStorageTopic"]


def test_several_documents_and_a_list_are_read(entries):
    other = V1.replace("alias: west", "alias: south").replace("name: dr}", "name: other}")
    items = "".join(f"  {line}\n" for line in other.splitlines())
    text = f"{V1}---\napiVersion: v1\nkind: List\nitems:\n- {items.lstrip()}---\nkind: Secret\nmetadata: {{name: s}}\n"
    found, imported = entries(text)
    assert enabled_flows(found) == ("east->west", "north->west", "east->south", "north->south")
    assert "Secret s" in paths(imported)


def test_without_heartbeat_connector_no_heartbeats_are_written_and_with_one_they_are(entries):
    found, _ = entries(V1BETA2.replace("    topicsPattern", "    heartbeatConnector: {}\n    topicsPattern"))
    assert (found["emit.heartbeats.enabled"], found["east->west.emit.heartbeats.enabled"]) == (
        "false",
        "true",
    )


def test_without_checkpoint_connector_checkpoints_are_turned_off_and_reported(entries):
    found, imported = entries(V1.replace("    checkpointConnector: {}\n", ""))
    assert found["east->west.emit.checkpoints.enabled"] == "false"
    assert paths(imported, "attention") == [
        "dr: spec.mirrors[0].sourceConnector",
        "dr: spec.mirrors[1].sourceConnector",
    ]


@pytest.mark.parametrize("field", ["topicsExcludePattern", "topicsBlacklistPattern"])
def test_excludes_are_carried_over_under_their_old_name_too(entries, field):
    found, _ = entries(V1BETA2 + f'    {field}: "tmp.*"\n')
    assert found["east->west.topics.exclude"] == "tmp.*"


def test_a_setting_that_another_field_overrides_is_listed(entries):
    text = V1BETA2.replace(
        "tasksMax: 2, config: {", "config: {topics: mine, source.cluster.security.protocol: SSL, "
    )
    found, imported = entries(text)
    assert (found["east->west.topics"], found["east.security.protocol"]) == ("orders|pay.*", "SSL")
    assert set(paths(imported)) >= {
        "dr: spec.mirrors[0].sourceConnector.config.topics",
        "dr: spec.clusters[0]",
    }


def test_trusted_certificates_become_placeholders_of_mounted_secrets(entries):
    found, imported = entries(
        external("""\
tls:
  trustedCertificates:
  - {secretName: ca, certificate: ca.crt}
  - {secretName: more, pattern: "*.crt"}
""")
    )
    assert found["east.security.protocol"] == "SSL"
    assert found["east.ssl.truststore.type"] == "PEM"
    assert found["east.ssl.truststore.certificates"] == (
        f"${{directory:{SECRETS}/ca:ca.crt}} ${{directory:{SECRETS}/more:ca.crt}}"
    )
    assert paths(imported, "secret") == ["Secret kafka/ca, key ca.crt", "Secret kafka/more, key ca.crt"]
    assert paths(imported, "attention") == ["dr: spec.clusters[0].tls.trustedCertificates[1].pattern"]


def test_tls_without_certificates_trusts_the_systems(entries):
    found, _ = entries(external("tls: {}"))
    assert (found["east.security.protocol"], "east.ssl.truststore.certificates" in found) == ("SSL", False)


def test_a_client_certificate_becomes_two_placeholders(entries):
    found, _ = entries(
        external("""\
tls: {}
authentication:
  type: tls
  certificateAndKey: {secretName: user, certificate: user.crt, key: user.key}
""")
    )
    assert {key: value for key, value in found.items() if "keystore" in key} == {
        "east.ssl.keystore.certificate.chain": f"${{directory:{SECRETS}/user:user.crt}}",
        "east.ssl.keystore.key": f"${{directory:{SECRETS}/user:user.key}}",
        "east.ssl.keystore.type": "PEM",
    }


@pytest.mark.parametrize(
    ("kind", "mechanism", "module"),
    [
        ("scram-sha-512", "SCRAM-SHA-512", "scram.Scram"),
        ("scram-sha-256", "SCRAM-SHA-256", "scram.Scram"),
        ("plain", "PLAIN", "plain.Plain"),
    ],
)
def test_a_password_login_names_the_secret_and_not_the_password(entries, kind, mechanism, module):
    found, _ = entries(
        external(f"""\
authentication:
  type: {kind}
  username: 'm"m'
  passwordSecret: {{secretName: user, password: pw}}
""")
    )
    assert (found["east.security.protocol"], found["east.sasl.mechanism"]) == ("SASL_PLAINTEXT", mechanism)
    assert found["east.sasl.jaas.config"] == (
        f'org.apache.kafka.common.security.{module}LoginModule required username="m\\"m"'
        f' password="${{directory:{SECRETS}/user:pw}}";'
    )


def test_an_oauth_login_becomes_the_options_of_strimzis_handler(entries):
    found, imported = entries(
        external("""\
tls: {}
authentication:
  type: oauth
  clientId: mm2
  tokenEndpointUri: https://sso/token
  scope: kafka
  httpRetries: 3
  disableTlsHostnameVerification: true
  clientSecret: {secretName: sso, key: secret}
  tlsTrustedCertificates: [{secretName: sso-ca, certificate: ca.crt}]
""")
    )
    assert found["east.security.protocol"] == "SASL_SSL"
    assert found["east.sasl.login.callback.handler.class"].endswith("JaasClientOauthLoginCallbackHandler")
    assert found["east.sasl.jaas.config"].split(" ", 2)[2] == (
        'oauth.client.id="mm2" oauth.token.endpoint.uri="https://sso/token" oauth.scope="kafka"'
        f' oauth.client.secret="${{directory:{SECRETS}/sso:secret}}"'
        ' oauth.ssl.endpoint.identification.algorithm=""'
        f' oauth.ssl.truststore.certificates="${{directory:{SECRETS}/sso-ca:ca.crt}}"'
        ' oauth.ssl.truststore.type="PEM";'
    )
    assert "dr: spec.clusters[0].authentication.httpRetries" in paths(imported)


def test_a_custom_login_keeps_its_sasl_settings_and_hides_a_password(entries):
    found, imported = entries(
        external("""\
tls: {}
authentication:
  type: custom
  sasl: true
  config:
    sasl.mechanism: PLAIN
    sasl.jaas.config: org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hush";
    security.protocol: PLAINTEXT
""")
    )
    assert (found["east.security.protocol"], found["east.sasl.mechanism"]) == ("SASL_SSL", "PLAIN")
    assert found["east.sasl.jaas.config"].endswith('username="u" password="${env:EAST_SASL_PASSWORD}";')
    assert "hush" not in imported.text + repr(imported)
    assert "dr: spec.clusters[0].authentication.config.security.protocol" in paths(imported)


def test_placeholders_of_strimzis_config_providers_become_those_of_kafka(entries):
    found, _ = entries(
        external("""\
tls: {}
config:
  sasl.mechanism: PLAIN
  ssl.truststore.location: ${strimzidir:/mnt/certs:ca.crt}
  ssl.key.password: ${secrets:kafka/user:pw}
""")
    )
    assert found["east.ssl.truststore.location"] == "${directory:/mnt/certs:ca.crt}"
    assert found["east.ssl.key.password"] == f"${{directory:{SECRETS}/user:pw}}"


def test_secrets_of_one_name_in_two_namespaces_have_two_folders(entries):
    text = external(
        "config: {ssl.key.password: '${secrets:a/user:pw}', ssl.keystore.password: '${secrets:b/user:pw}'}"
    )
    found, _ = entries(text)
    assert found["east.ssl.key.password"] == f"${{directory:{SECRETS}/user:pw}}"
    assert found["east.ssl.keystore.password"] == f"${{directory:{SECRETS}/b.user:pw}}"


@pytest.mark.parametrize("stopped", ["state: stopped", "state: paused", "pause: true"])
def test_what_a_stopped_connector_does_is_turned_off_and_said(entries, stopped):
    found, imported = entries(V1BETA2.replace("tasksMax: 2", f"{stopped}, tasksMax: 2"))
    assert paths(imported, "attention") == [
        f"dr: spec.mirrors[0].sourceConnector.{stopped.partition(':')[0]}"
    ]
    assert found["east->west.enabled"] == "false"
    found, _ = entries(V1BETA2.replace("checkpointConnector: {", f"checkpointConnector: {{{stopped}, "))
    assert (found["east->west.enabled"], found["east->west.emit.checkpoints.enabled"]) == ("true", "false")


def test_dates_and_numbers_stay_as_they_are_written(entries):
    found, _ = entries(V1BETA2.replace('topicsPattern: "orders|pay.*"', "topicsPattern: 2026-01-31"))
    assert found["east->west.topics"] == "2026-01-31"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Deployment", "dr.yaml has no KafkaMirrorMaker2 with a connector"),
        ("", "dr.yaml has no KafkaMirrorMaker2 with a connector"),
        ("a: [", "dr.yaml:1: not valid YAML: expected the node content, but found '<stream end>'"),
        (
            "a: !!python/object:os.system x",
            "dr.yaml:1: mmtool does not read the tag tag:yaml.org,2002:python/object:os.system",
        ),
        ("a: 1\na: 2", "dr.yaml:2: the key a appears twice"),
        ("a: 1\nb: x\x07y", "dr.yaml:2: not valid YAML: the character U+0007 is not allowed"),
        ("a: &a [*a]", "dr.yaml: nested too deeply"),
        ("- " * 2000, "dr.yaml: nested too deeply"),
        ("[" * 101 + "]" * 101, "dr.yaml: nested too deeply"),
        ("[" * 100 + "]" * 100, "dr.yaml has no KafkaMirrorMaker2 with a connector"),
        ("a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
            f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcde", "bcdef", strict=True)
        ), "dr.yaml: more than 100000 values"),
        (V1BETA2.replace("sourceCluster: east", "sourceCluster: oops"),
         "dr.yaml: dr: spec.mirrors[0].sourceCluster: `spec.clusters` has no cluster 'oops'"),
        (V1BETA2.replace("alias: east", "name: east"), "dr.yaml: dr: spec.clusters[0].alias is missing"),
        (external("authentication: {type: kerberos}"),
         ("dr.yaml: dr: spec.clusters[0].authentication.type: 'kerberos' is no login that mmtool knows: expected tls,"
         " plain, scram-sha-256, scram-sha-512, oauth, custom")),
        (external("authentication: {type: plain, username: u, passwordSecret: {secretName: a/b, password: p}}"),
         ("dr.yaml: dr: spec.clusters[0].authentication.passwordSecret has the name 'a/b', which Kubernetes does not"
          " allow for a Secret")),
        (external("authentication: {type: plain, username: u, passwordSecret: {secretName: ab, password: a b}}"),
         ("dr.yaml: dr: spec.clusters[0].authentication.passwordSecret has the key 'a b', which Kubernetes does not"
          " allow in a Secret")),
        (V1BETA2.replace("tasksMax: 2, config: {", "config: {topics: [a], "),
         "dr.yaml: dr: spec.mirrors[0].sourceConnector.config.topics: expected a text or a number"),
        (V1BETA2.replace("mirrors:", "mirrors: {}\n  other:"),
         "dr.yaml: dr: spec.mirrors: expected a list of mappings"),
        (V1 + "---\n" + V1, ("dr: spec.mirrors[0].sourceConnector and dr: spec.mirrors[0].sourceConnector are both a"
         " MirrorSourceConnector of east->west; a properties file has one flow per pair of clusters")),
    ],
)  # fmt: skip
def test_a_document_that_cannot_be_imported_is_refused_with_its_place(entries, text, message):
    with pytest.raises(UsageError) as refused:
        entries(text)
    assert (refused.value.message, bool(refused.value.remedy)) == (message, True)
    assert redacted(refused.value.message) == message


def test_mirrors_without_a_source_connector_are_no_flow_to_import(entries):
    with pytest.raises(UsageError) as refused:
        entries(V1.replace("    sourceConnector: {}\n", ""))
    assert refused.value.message == "no mirror of dr.yaml has a sourceConnector, so no flow can be imported"
    assert "`mmtool config import -c FILE --strimzi dr.yaml OTHER.yaml`" in refused.value.remedy
