"""The rights of a purpose: each once, as narrow as the file allows, and as text that grants them."""

import os
import shlex

import pytest
import yaml

from mmtool.config import load_settings
from mmtool.errors import UsageError
from mmtool.rights.needs import NEEDS, Purpose, ResourceType
from mmtool.rights.render import kafka_acls, strimzi
from mmtool.rights.scope import NeededRight, needed_rights, rights_of_flows

FILE = """\
clusters = west, east
west.bootstrap.servers = w:9092
east.bootstrap.servers = e:9092
west->east.enabled = true
west->east.topics = orders, bills-.*
west->east.groups = app
"""


MIRRORS = (
    ("west.orders", "literal"),
    ("west.bills-", "prefixed"),
    ("west.heartbeats", "literal"),
    ("west.mmtool-canary", "literal"),
)


@pytest.fixture
def settings_of(tmp_path):
    """The settings of the file with more lines."""

    def settings(*lines):
        path = tmp_path / "mm2.properties"
        path.write_text(FILE + "\n".join(lines))
        return load_settings(path, os.environ)

    return settings


@pytest.fixture
def flow(settings_of):
    return settings_of().flows[0]


def brief(rights):
    return {(r.cluster, r.operation, r.name, r.pattern, r.optional) for r in rights}


def test_smoke_needs_the_canary_topic_its_group_and_the_flows_state(flow):
    assert {row for row in brief(needed_rights(flow, Purpose.SMOKE)) if not row[4]} == {
        ("west", "READ", "mmtool-canary", "literal", False),
        ("west", "WRITE", "mmtool-canary", "literal", False),
        ("west", "CREATE", "mmtool-canary", "literal", False),
        ("west", "READ", "mmtool.", "prefixed", False),
        ("east", "READ", "west.mmtool-canary", "literal", False),
        ("east", "READ", "mmtool-", "prefixed", False),
        ("east", "DESCRIBE", "mmtool.", "prefixed", False),
    }


@pytest.mark.parametrize("purpose", [Purpose.READ, Purpose.VERIFY])
def test_reading_needs_no_right_to_change_anything(flow, purpose):
    needed = {right.operation for right in needed_rights(flow, purpose) if not right.optional}
    assert needed <= {"READ", "DESCRIBE"}


def test_nothing_is_written_on_the_source_without_heartbeats_and_with_offset_syncs_on_the_target(settings_of):
    settings = settings_of("emit.heartbeats.enabled = false", "offset-syncs.topic.location = target")
    rights = rights_of_flows(settings.flows, [Purpose.REPLICATE], settings.heartbeats_only)
    assert {r.operation for r in rights if r.cluster == "west"} <= {"READ", "DESCRIBE", "DESCRIBE_CONFIGS"}


@pytest.mark.parametrize("purpose", Purpose)
def test_each_right_is_listed_once(flow, purpose):
    keys = [
        (r.cluster, r.resource_type, r.name, r.pattern, r.operation) for r in needed_rights(flow, purpose)
    ]
    assert len(set(keys)) == len(keys)


def test_a_right_that_one_purpose_needs_is_not_optional(flow):
    both = rights_of_flows([flow], [Purpose.REPLICATE, Purpose.SMOKE])
    assert ("west", "READ", "mmtool-canary", "literal", False) in brief(both)


def test_the_heartbeats_of_a_one_way_flow_are_written_on_both_clusters(settings_of):
    settings = settings_of()
    both = rights_of_flows(settings.flows, [Purpose.REPLICATE], settings.heartbeats_only)
    writes = {row[0] for row in brief(both) if row[1:3] == ("WRITE", "heartbeats")}
    assert writes == {"west", "east"}


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("sync.topic.acls.enabled = false", ("east", "ALTER", "kafka-cluster")),
        ("sync.topic.configs.enabled = false", ("east", "ALTER_CONFIGS", "west.orders")),
        ("emit.checkpoints.enabled = false", ("east", "WRITE", "west.checkpoints.internal")),
        ("emit.offset-syncs.enabled = false", ("west", "WRITE", "mm2-offset-syncs.east.internal")),
        ("emit.heartbeats.enabled = false", ("east", "WRITE", "heartbeats")),
    ],
)
def test_what_is_switched_off_needs_no_right(settings_of, line, right):
    on, off = (
        {row[:3] for row in brief(needed_rights(settings_of(*lines).flows[0], Purpose.REPLICATE))}
        for lines in ([], [line])
    )
    assert (right in on, right in off) == (True, False)


@pytest.mark.parametrize("topic", ["orders", "mmtool-canary"])
def test_a_mirror_is_created_with_its_topic_s_configuration_also_where_changes_are_not_copied(
    settings_of, topic
):
    flow = settings_of("sync.topic.configs.enabled = false").flows[0]
    found = [row[:3] for row in brief(needed_rights(flow, Purpose.REPLICATE))]
    assert ("west", "DESCRIBE_CONFIGS", topic) in found


def test_every_line_of_the_table_serves_a_purpose_and_says_what_is_lost():
    assert [need for need in NEEDS if not (need.needed | need.optional and need.lost)] == []


RIGHTS = (
    NeededRight("west", ResourceType.TOPIC, "orders", "literal", "READ", False, "why"),
    NeededRight("west", ResourceType.TOPIC, "orders", "literal", "DESCRIBE_CONFIGS", True, "why"),
    NeededRight("west", ResourceType.CLUSTER, "kafka-cluster", "literal", "ALTER", True, "why"),
    NeededRight("east", ResourceType.TRANSACTIONAL_ID, "mmtool.", "prefixed", "WRITE", False, "why"),
)
BOOTSTRAP = {"west": "w:9092,w2:9092", "east": "e:9092"}


def test_commands_grant_each_right_on_its_cluster():
    text = kafka_acls(RIGHTS, "User:CN=it's mm", BOOTSTRAP)
    commands = [shlex.split(line) for line in text.splitlines() if not line.startswith("#")]
    granted = [
        (words[2], words[5], words[words.index("--operation") + 1 :], "prefixed" in words)
        for words in commands
    ]
    assert granted == [
        ("w:9092,w2:9092", "User:CN=it's mm", ["Read", "--topic", "orders"], False),
        ("w:9092,w2:9092", "User:CN=it's mm", ["DescribeConfigs", "--topic", "orders"], False),
        ("w:9092,w2:9092", "User:CN=it's mm", ["Alter", "--cluster"], False),
        (
            "e:9092",
            "User:CN=it's mm",
            ["Write", "--transactional-id", "mmtool.", "--resource-pattern-type", "prefixed"],
            True,
        ),
    ]


def test_strimzi_has_a_document_for_each_cluster():
    text = strimzi(RIGHTS, "User:mm")
    orders = {"type": "topic", "name": "orders", "patternType": "literal"}
    transactions = {"type": "transactionalId", "name": "mmtool.", "patternType": "prefix"}
    rules = {
        "west": [(orders, ["Read"]), (orders, ["DescribeConfigs"]), ({"type": "cluster"}, ["Alter"])],
        "east": [(transactions, ["Write"])],
    }
    assert list(yaml.safe_load_all(text)) == [
        {
            "apiVersion": "kafka.strimzi.io/v1beta2",
            "kind": "KafkaUser",
            "metadata": {"name": "mm", "labels": {"strimzi.io/cluster": cluster}},
            "spec": {
                "authorization": {
                    "type": "simple",
                    "acls": [{"resource": resource, "operations": of} for resource, of in rules[cluster]],
                }
            },
        }
        for cluster in ("west", "east")
    ]
    assert text.count("# optional: why") == 2


@pytest.mark.parametrize("principal", ["Group:mm", "User:", "User:CN=mm,O=shop", "User:Mm"])
def test_a_principal_that_no_kafka_user_has_is_refused(principal):
    with pytest.raises(UsageError, match="KafkaUser"):
        strimzi(RIGHTS, principal)


def test_only_a_flow_with_the_sources_offsets_needs_alter_on_the_cluster_and_it_is_said_what_that_allows(
    settings_of,
):
    translated, same = (
        needed_rights(settings_of(*lines).flows[0], Purpose.REPLICATE)
        for lines in ((), ("east.mmtool.offsets = same",))
    )
    assert brief(same) - brief(translated) == {
        ("east", "ALTER", "kafka-cluster", "literal", False),
        *(("east", "DELETE", name, how, True) for name, how in MIRRORS),
    }
    assert {("east", "READ", *mirror, False) for mirror in MIRRORS} <= brief(same)
    text = kafka_acls(same, "User:mm", {"west": "w:9092", "east": "e:9092"})
    for said in (text, strimzi(same, "User:mm")):
        assert said.count("The holder of ALTER on the cluster can also create ACLs") == 1


@pytest.mark.parametrize("purpose", Purpose)
def test_a_flow_that_creates_no_topics_needs_no_right_to_create_or_grow_them(settings_of, purpose):
    wanted = rights_of_flows(settings_of().flows, [purpose])
    without = rights_of_flows(settings_of("west->east.mmtool.create.topics = false").flows, [purpose])
    assert set(wanted) - set(without) == {
        right
        for right in wanted
        if right.operation == "CREATE" or (right.operation == "ALTER" and right.resource_type == "topic")
    }
    assert set(without) <= set(wanted)
