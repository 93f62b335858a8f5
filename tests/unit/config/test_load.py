"""MirrorMaker 2's grammar, scopes and precedence, value by value."""

from datetime import UTC, datetime

import pytest

from mmtool.config import load_settings
from mmtool.errors import ConfigError, UsageError
from mmtool.translation.names import DefaultPolicy, IdentityPolicy, RenamePolicy

HEAD = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
THREE = """\
clusters = A, B, C
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
C.bootstrap.servers = c:9092
"""


def only_flow(settings):
    (flow,) = settings.flows
    return flow


def test_the_environment_names_the_file_when_no_option_does(load):
    path = load().path
    assert load_settings(None, {"MMTOOL_CONFIG": str(path)}).path == path


@pytest.mark.parametrize("environ", [{}, {"MMTOOL_CONFIG": " "}])
def test_no_file_is_one_clear_error(environ):
    with pytest.raises(ConfigError, match="neither -c/--config nor MMTOOL_CONFIG"):
        load_settings(None, environ)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.properties: no such file"):
        load_settings(tmp_path / "nowhere.properties", {})


def test_a_mistyped_file_gets_the_nearest_name_of_its_folder(tmp_path):
    (tmp_path / "mm2.properties").touch()
    with pytest.raises(ConfigError) as caught:
        load_settings(tmp_path / "mm.properties", {})
    assert caught.value.message.endswith(f"no such file; did you mean {tmp_path / 'mm2.properties'}?")


def test_a_directory_is_not_a_file(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_settings(tmp_path, {})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "windows line ends",
            b"clusters=A,B\r\nA.bootstrap.servers=a:1\r\nB.bootstrap.servers=b:1\r\nA->B.enabled=true\r\n",
        ),
        (
            "old mac line ends",
            b"clusters=A,B\rA.bootstrap.servers=a:1\rB.bootstrap.servers=b:1\rA->B.enabled=true",
        ),
        (
            "byte order mark",
            b"\xef\xbb\xbfclusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nA->B.enabled=true",
        ),
        (
            "other separators",
            b"clusters A,B\nA.bootstrap.servers:a:1\n B.bootstrap.servers = b:1\n!no\nA->B.enabled\ttrue",
        ),
    ],
)
def test_a_file_reads_the_same_however_it_was_saved(name, content, load):
    flow = only_flow(load(content))
    assert (flow.name, flow.source.bootstrap_servers) == ("A->B", "a:1"), name


def test_bytes_that_are_not_utf8_are_latin1_as_in_java(load):
    settings = load(
        b"clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nA->B.enabled=true\ngroups=caf\xe9\n"
    )
    assert only_flow(settings).groups.include == ("café",)


def test_a_byte_order_mark_before_latin1_is_no_part_of_the_first_key(load):
    settings = load(
        b"\xef\xbb\xbfclusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nA->B.enabled=true\ngroups=\xe9"
    )
    assert only_flow(settings).groups.include == ("é",)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_refused_with_the_command_that_converts_it(load, encoding):
    with pytest.raises(ConfigError, match=r"mm2\.properties: the file is UTF-16 text, not UTF-8$") as caught:
        load("clusters = A, B\n".encode(encoding))
    assert "iconv -f UTF-16" in caught.value.remedy


def test_a_broken_escape_is_named(load):
    with pytest.raises(ConfigError, match="four hexadecimal digits"):
        load("topics = \\u12\n")


def test_messages_count_lines_over_continued_ones(load):
    with pytest.raises(
        ConfigError, match=r"mm2\.properties:7: offset\.lag\.max = x: expected a whole number"
    ):
        load("topics = a,\\\n  b\noffset.lag.max = x\n")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("", "a:9092"),
        ("A.consumer.bootstrap.servers = role:1", "role:1"),
        ("bootstrap.servers = all:1", "a:9092"),
        ("A->B.source.consumer.bootstrap.servers = flow:1\nA.consumer.bootstrap.servers = role:1", "flow:1"),
    ],
)
def test_the_nearest_scope_wins_for_clients(lines, expected, load):
    assert only_flow(load(lines)).source.bootstrap_servers_for("consumer") == expected


def test_role_over_alias_over_global(load):
    settings = load(
        "security.protocol = SASL_PLAINTEXT\nsasl.mechanism = PLAIN\nsasl.username = u\n"
        "sasl.password = global\n"
        "A.sasl.password = alias\nA.producer.sasl.password = role\n"
    )
    cluster = settings.clusters["A"]
    found = [cluster.security_for(role).sasl.password.get_secret_value() for role in ("producer", "consumer")]
    assert found == ["role", "alias"]
    assert settings.clusters["B"].security.sasl.password.get_secret_value() == "global"


def test_client_extras_reach_the_clients_that_mm2_gives_them_to(load):
    flow = only_flow(
        load(
            "A.consumer.fetch.max.bytes = 1\nA->B.consumer.fetch.max.bytes = 2\n"
            "A->B.consumer.fetch.min.bytes = 3\n"
            "B.producer.linger.ms = 4\nA->B.producer.batch.size = 5\nA->B.producer.override.acks = all\n"
        )
    )
    assert dict(flow.source.consumer) == {"fetch.max.bytes": "1", "fetch.min.bytes": "3"}
    assert dict(flow.target.producer) == {"linger.ms": "4", "acks": "all"}
    assert dict(flow.source.producer) == {"batch.size": "5"}


def test_only_enabled_flows_run_in_the_order_of_the_file(load):
    settings = load("C->A.enabled = true\nA->B.enabled = TRUE\nB->C.enabled = false\n", head=THREE)
    assert [flow.name for flow in settings.flows] == ["C->A", "A->B"]
    assert len(settings.all_flows) == 6


def test_a_global_enabled_reaches_every_pair_as_in_mm2(load):
    settings = load("enabled = true\nB->A.enabled = false\n", head="\n".join(THREE.splitlines()) + "\n")
    assert [flow.name for flow in settings.flows] == ["A->B", "A->C", "B->C", "C->A", "C->B"]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (None, None, ["A->B", "A->C"]),
        ("A", None, ["A->B", "A->C"]),
        (None, "C", ["A->C"]),
        ("A", "C", ["A->C"]),
        ("C", "B", ["C->B"]),
    ],
)
def test_flows_are_selected_by_alias_and_a_named_pair_need_not_be_enabled(source, target, expected, load):
    settings = load("A->B.enabled = true\nA->C.enabled = true\n", head=THREE)
    assert [flow.name for flow in settings.select(source, target)] == expected


@pytest.mark.parametrize(
    ("source", "target", "message", "remedy"),
    [
        ("X", None, "--source X: ", "name one of the clusters: A, B"),
        (None, "X", "--target X: ", "name one of the clusters: A, B"),
        ("A", "A", "--source and --target are both A", "name two different clusters"),
        ("B", None, "no flow from B is enabled", "name an enabled flow with -s and -t: A->B"),
    ],
)
def test_a_wrong_alias_is_answered_with_the_right_ones(source, target, message, remedy, load):
    with pytest.raises(UsageError) as caught:
        load().select(source, target)
    assert message in caught.value.message
    assert caught.value.remedy == remedy
    assert caught.value.exit_code == 2


def test_a_file_that_enables_nothing_says_how(load):
    settings = load("A->B.enabled = false\n")
    with pytest.raises(UsageError) as caught:
        settings.select(None, None)
    assert caught.value.remedy == f"set A->B.enabled = true in {settings.path}"


@pytest.mark.parametrize(
    ("lines", "policy"),
    [
        ("", DefaultPolicy(".", known=("A", "B"))),
        ("replication.policy.separator = _", DefaultPolicy("_", known=("A", "B"))),
        (
            "replication.policy.separator = _\nreplication.policy.internal.topic.separator.enabled = false",
            DefaultPolicy("_", ".", known=("A", "B")),
        ),
        (
            "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            IdentityPolicy("A", DefaultPolicy(known=("A", "B"))),
        ),
        (
            "mmtool.topic.rename.format = dr-${topic}",
            RenamePolicy("A", "B", "dr-", base=DefaultPolicy(known=("A", "B"))),
        ),
        ("A->B.mmtool.topic.rename.format = ${source}~${topic}", None),
    ],
)
def test_the_policy_follows_mm2s_keys(lines, policy, load):
    if policy is None:
        with pytest.raises(ConfigError, match="legal topic characters"):
            load(lines)
    else:
        assert only_flow(load(lines)).policy == policy


@pytest.mark.parametrize(
    ("form", "left_out"),
    [("dr.${topic}", ["dr.orders"]), ("${topic}.copy", ["orders.copy"]), ("${source}-${topic}", [])],
)
def test_a_format_that_names_no_source_leaves_out_what_may_have_been_born_here(form, left_out, load):
    flow = only_flow(load(f"topics = .*\nmmtool.topic.rename.format = {form}\n"))
    names = ["orders", "dr.orders", "orders.copy", "B-orders", "B.heartbeats", "heartbeats"]
    assert [name for name in names if flow.may_be_born_here(name)] == left_out
    assert not any(map(flow.mirrors_topic, left_out))


@pytest.mark.parametrize("text", ["orders", "${topic}", "${topic}${topic}", "a/${topic}"])
def test_a_rename_format_must_keep_names_apart_and_legal(text, load):
    with pytest.raises(ConfigError, match="one \\$\\{topic\\}"):
        load(f"mmtool.topic.rename.format = {text}\n")


@pytest.mark.parametrize(
    ("topic", "mirrored"),
    [
        ("orders", True),
        ("orders.internal", True),  # since 4.0 (KIP-1074)
        ("A.checkpoints.internal", False),
        ("mm2-status.B.internal", False),
        ("x.replica", False),
        ("__consumer_offsets", False),
        ("B.orders", False),
        ("C.orders", True),
        ("heartbeats", True),
        ("B.heartbeats", False),
        ("mm2-offset-syncs.B.internal", False),
        ("mmtool-journal.internal", False),
        ("mmtool-anything", False),
    ],
)
def test_mm2s_decision_which_topics_are_mirrored(topic, mirrored, load):
    assert only_flow(load()).mirrors_topic(topic) == mirrored


def test_own_topics_are_never_mirrored_whatever_the_exclude_says(load):
    flow = only_flow(load("topics.exclude =\nheartbeats.replication.enabled = false\n"))
    names = ["mmtool-orders", "x.replica", "orders.internal", "heartbeats", "A.checkpoints.internal"]
    assert [flow.mirrors_topic(name) for name in names] == [False, True, True, True, False]


@pytest.mark.parametrize(
    "lines", ["topics = orders\n", "topics.exclude = .*\n", "topics.exclude = mmtool-.*\n"], ids=str.strip
)
def test_of_mmtools_own_topics_the_canary_alone_is_mirrored_whatever_the_filters_say(lines, load):
    flow = only_flow(load(lines))
    assert flow.mirrors_topic("mmtool-canary")
    assert [name for name in ("mmtool-canary-2", "mmtool-canary.internal") if flow.mirrors_topic(name)] == []


def test_the_canary_is_named_by_the_policy_and_does_not_come_back(load):
    flow = only_flow(load())
    assert flow.remote_topic("mmtool-canary") == "A.mmtool-canary"
    assert not flow.mirrors_topic("B.mmtool-canary")
    policy = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    assert only_flow(load(policy)).remote_topic("mmtool-canary") == "mmtool-canary"


def test_a_flow_that_is_narrowed_to_some_topics_leaves_the_canary_alone(load):
    assert not only_flow(load()).for_topics(["orders"]).mirrors_topic("mmtool-canary")


def test_heartbeats_are_mirrored_although_the_filter_says_no(load):
    flow = only_flow(load("topics = orders\n"))
    assert [flow.mirrors_topic(name) for name in ("heartbeats", "orders", "other")] == [True, True, False]


def test_excluded_topic_configs_are_filtered_like_names(load):
    configs = only_flow(load()).config_properties_exclude
    assert [configs.accepts(name) for name in ("retention.ms", "min.insync.replicas")] == [True, False]


def test_own_keys_with_a_free_part_are_merged_over_the_scopes(load):
    flow = only_flow(
        load(
            "mmtool.spark.conf.spark.executor.memory = 1g\nB.mmtool.spark.conf.spark.executor.memory = 2g\n"
            "mmtool.hook.fence = /opt/fence.sh\nA->B.mmtool.unit.shop.topics = orders, payments\n"
            "A->B.mmtool.unit.shop.groups = shop-.*\nmmtool.spark.master = local[3,4]\n"
        )
    )
    assert dict(flow.spark_conf) == {"spark.executor.memory": "2g"}
    assert dict(flow.hooks) == {"fence": "/opt/fence.sh"}
    assert flow.units["shop"].topics.select(["orders", "x"]) == ["orders"]
    assert flow.spark_master == "local[3,4]"


def test_an_own_start_wins_over_the_consumers_reset(load):
    flow = only_flow(
        load("A.consumer.auto.offset.reset = latest\nmmtool.start = 2026-01-31T13:00:00+01:00\n")
    )
    assert flow.start == datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_placeholders_are_resolved_from_all_three_places(load, tmp_path):
    (tmp_path / "secrets.properties").write_text("user = u\npassword = p1\n")
    (tmp_path / "servers").write_text("b:1\n")
    settings = load(
        f"B.bootstrap.servers = ${{directory:{tmp_path}:servers}}\n"
        "B.security.protocol = SASL_PLAINTEXT\nB.sasl.mechanism = ${env:MECHANISM}\n"
        f"B.sasl.username = ${{file:{tmp_path}/secrets.properties:user}}\n"
        f"B.sasl.password = ${{file:{tmp_path}/secrets.properties:password}}-${{env:MORE}}\n",
        environ={"MECHANISM": "SCRAM-SHA-512", "MORE": "${env:MECHANISM}"},
    )
    cluster = settings.clusters["B"]
    assert cluster.bootstrap_servers == "b:1"
    assert cluster.security.sasl.mechanism == "SCRAM-SHA-512"
    assert cluster.security.sasl.password.get_secret_value() == "p1-${env:MECHANISM}"


def test_a_declared_provider_is_another_word_for_a_built_in_one(load):
    settings = load(
        "config.providers = vars\n"
        "config.providers.vars.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        "config.providers.vars.param.allowlist.pattern = KAFKA_.*\nreplication.factor = ${vars:KAFKA_RF}\n",
        environ={"KAFKA_RF": "1"},
    )
    assert (only_flow(settings).replication_factor, settings.warnings) == (1, ())


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("${vars:HOME}", "param.allowlist.pattern does not permit HOME"),
        ("${env:path:HOME}", "an environment variable has no path"),
        ("${file:secret}", "expected ${file:PATH:KEY}"),
        ("${safe:a:b}", "config.providers.safe.class is not set"),
        ("${vault:a:b}", "com.example.Vault is a Java class, which mmtool does not run"),
    ],
)
def test_a_placeholder_without_an_answer_is_an_error(value, reason, load):
    with pytest.raises(ConfigError) as caught:
        load(
            "config.providers = vars, vault, safe\nconfig.providers.vault.class = com.example.Vault\n"
            "config.providers.vars.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
            f"config.providers.vars.param.allowlist.pattern = KAFKA_.*\ntopics = {value}\n",
            environ={"HOME": "/root"},
        )
    assert reason in caught.value.message


def test_dead_letters_are_no_records_of_a_flow(load):
    flow = only_flow(load("topics = .*\n"))
    assert not flow.mirrors_topic("orders.mmtool-dlq")
    assert flow.unmirrored("orders.mmtool-dlq") == "an internal topic"
