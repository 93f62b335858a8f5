"""Rights that are missing become one row each, needed ones as problems."""

from types import SimpleNamespace

from mmtool.doctor.rights import (
    Lack,
    judge_rights,
    lacking_on_cluster,
    lacking_on_topics,
)
from mmtool.kafka.wire.acls import AclOperation, Rights
from mmtool.kafka.wire.metadata import TopicMetadata
from mmtool.rights.needs import Need, Purpose, Resource, ResourceType
from mmtool.translation.types import UNKNOWN, TopicId

MM = SimpleNamespace(alias="B", principal="User:mm", bootstrap="b:9092")
EVERY = frozenset(Purpose)
NEEDS = (
    Need("target", Resource.MIRRORS, "READ", "is read", EVERY),
    Need("target", Resource.MIRRORS, "ALTER", "grows", optional=EVERY),
)


def topic(name, *operations):
    return TopicMetadata(name, TopicId(name), 0, [], Rights(sum(1 << operation for operation in operations)))


def test_a_needed_right_is_a_problem_with_the_command_that_grants_it():
    (finding,) = judge_rights(
        MM, [Lack(ResourceType.TOPIC, "WRITE", "A.orders", "records are mirrored to it")]
    )
    assert (finding.severity, finding.cluster, finding.subject) == ("problem", "B", "A.orders")
    assert finding.message == "User:mm lacks WRITE on topic A.orders of B: records are mirrored to it"
    assert "--allow-principal User:mm --operation Write --topic A.orders" in finding.remedy


def test_a_right_on_the_cluster_and_one_on_a_prefix_are_granted_as_such():
    lacks = [
        Lack(ResourceType.CLUSTER, "DESCRIBE", "", "is shown", is_optional=True),
        Lack(ResourceType.TRANSACTIONAL_ID, "WRITE", "mmtool.*", "claims"),
    ]
    needed, optional = judge_rights(MM, lacks)
    assert "--transactional-id mmtool. --resource-pattern-type prefixed" in needed.remedy
    assert (optional.severity, "--operation Describe --cluster" in optional.remedy) == ("warning", True)


def test_a_right_on_every_group_is_granted_on_the_star():
    (finding,) = judge_rights(
        MM, [Lack(ResourceType.GROUP, "DELETE", "*", "is taken back", is_optional=True)]
    )
    assert "--operation Delete --group '*';" in finding.remedy


def test_only_what_the_broker_tells_is_missing():
    topics = {
        "all": topic("all", AclOperation.READ, AclOperation.ALTER),
        "some": topic("some", AclOperation.ALTER),
        "untold": TopicMetadata("untold", TopicId("untold"), 0, [], UNKNOWN),
    }
    found = list(lacking_on_topics(topics, ["all", "some", "untold", "absent"], NEEDS))
    assert found == [Lack(ResourceType.TOPIC, "READ", "some", "is read")]
    assert list(lacking_on_cluster(UNKNOWN, NEEDS)) == []
    assert [lack.operation for lack in lacking_on_cluster(Rights(0), NEEDS)] == ["READ", "ALTER"]


def test_a_thousand_topics_without_one_right_are_not_a_thousand_rows():
    lacks = [Lack(ResourceType.TOPIC, "READ", f"t{number:04}", "is read") for number in range(1000)]
    *named, rest = judge_rights(MM, lacks)
    assert len(named) == 20
    assert "980 more topics of B (t0020, t0021, t0022 and 977 more)" in rest.message


def test_a_right_that_two_checks_miss_is_told_once():
    lack = Lack(ResourceType.GROUP, "READ", "app", "is committed")
    assert len(list(judge_rights(MM, [lack, lack]))) == 1
