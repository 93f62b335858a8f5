"""Requests about rules, byte by byte, written by hand from Kafka's protocol guide."""

import pytest

from kit.protocol import raw, read
from mmtool.kafka.wire.acls import (
    ClusterRights,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeClusterRequest,
    ListedBindings,
    Rights,
)
from mmtool.kafka.wire.metadata import DescribeBrokerConfigRequest
from mmtool.plan.failover.acl_rules import Binding

DENY = Binding("a", "LITERAL", "User:b", "*", "WRITE", "DENY")
GIVE = Binding("o", "PREFIXED", "User:c", "*", "ALL", "ALLOW")
USER_B, USER_C = "0006" + b"User:b".hex(), "0006" + b"User:c".hex()
DENY_RAW = "02 0001 61 03" + USER_B + "0001 2a 04 02"
GIVE_RAW = "02 0001 6f 04" + USER_C + "0001 2a 02 03"


def test_describe_acls_asks_for_all_about_topics():
    assert DescribeAclsRequest().body(1) == raw("02 ffff 01 ffff ffff 01 01")


@pytest.mark.parametrize(
    ("resource", "number"), [("TRANSACTIONAL_ID", "05"), ("CLUSTER", "04"), (None, "01")]
)
def test_describe_acls_asks_for_another_kind_of_resource_or_for_all(resource, number):
    assert DescribeAclsRequest(resource=resource).body(1) == raw(f"{number} ffff 01 ffff ffff 01 01")


def test_a_rule_about_another_resource_is_read_and_written_as_it_is():
    rule = DENY._replace(resource="TRANSACTIONAL_ID")
    text = "05" + DENY_RAW[2:]
    assert CreateAclsRequest([rule]).body(1) == raw("00000001", text)
    answer = "00000000 0000 ffff 00000001" + "05 0001 61 03 00000001" + USER_B + "0001 2a 04 02"
    assert read(DescribeAclsRequest(resource=None), 1, answer) == (ListedBindings(0, {rule}), 0)


def test_describe_acls_answers_by_resource():
    first = "02 0001 61 03 00000001" + USER_B + "0001 2a 04 02"
    second = "02 0001 6f 04 00000002" + USER_C + "0001 2a 02 03" + USER_B + "0001 2a 63 03"
    answer = "00000000 0000 ffff 00000002" + first + second
    newer = GIVE._replace(principal="User:b", operation="99")  # an operation of a later Kafka
    assert read(DescribeAclsRequest(), 1, answer) == (ListedBindings(0, {DENY, GIVE, newer}), 0)


def test_a_cluster_without_an_authorizer_says_so():
    assert read(DescribeAclsRequest(), 1, "00000000 0036 0001 78 00000000") == (
        ListedBindings(54, frozenset()),
        0,
    )


@pytest.mark.parametrize("request_", [CreateAclsRequest([DENY, GIVE]), DeleteAclsRequest([DENY, GIVE])])
def test_a_rule_and_the_filter_for_it_alone_are_written_alike(request_):
    assert request_.body(1) == raw("00000002", DENY_RAW, GIVE_RAW)


def test_create_acls_answers_a_code_for_each():
    answer = "00000000 00000002 0000 ffff 001f 0001 78"
    assert read(CreateAclsRequest([DENY, GIVE]), 1, answer) == ([0, 31], 0)


def test_delete_acls_answers_a_code_for_each_and_those_of_what_it_found():
    failed = "001f ffff" + GIVE_RAW
    answer = (
        "00000000 00000003" + "0000 ffff 00000000" + "001f ffff 00000000" + f"0000 ffff 00000001 {failed}"
    )
    assert read(DeleteAclsRequest([DENY] * 3), 1, answer) == ([0, 31, 31], 0)


def test_describe_cluster_tells_our_rights():
    assert DescribeClusterRequest().body(0) == raw("01 00")
    broker = "00000001 02 68 00002384 00 00"
    answer = "00000000 0000 00 02 69 00000001 02" + broker + "00000180 00"
    seen, left = read(DescribeClusterRequest(), 0, answer)
    assert (seen, left) == (ClusterRights(0, Rights(0x180)), 0)
    assert (seen.rights.may_alter, seen.rights.may_write) == (True, False)


def test_describe_configs_leaves_out_what_is_not_set_and_keeps_what_is_hidden():
    request = DescribeBrokerConfigRequest(1, ["a", "b", "c"])
    assert request.body(1) == raw("00000001 04 0001 31 00000003 0001 61 0001 62 0001 63 00")
    shown = "0001 61 0001 78 00 04 00 00000001 0001 61 0001 78 04"
    hidden = "0001 62 ffff 00 04 01 00000000"
    answer = "00000000 00000001 0000 ffff 04 0001 31 00000002" + shown + hidden
    config, left = read(request, 1, answer)
    assert (config.error_code, config.values, left) == (0, {"a": "x", "b": None}, 0)
