"""Requests about rules, byte by byte, written by hand from Kafka's protocol guide."""

from kit.protocol import raw, read
from mmtool.kafka.wire.acls import (
    ClusterRights,
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


def test_describe_acls_answers_by_resource():
    first = "02 0001 61 03 00000001" + USER_B + "0001 2a 04 02"
    second = "02 0001 6f 04 00000002" + USER_C + "0001 2a 02 03" + USER_B + "0001 2a 63 03"
    answer = "00000000 0000 ffff 00000002" + first + second
    newer = GIVE._replace(principal="User:b", operation="99")  # an operation of a later Kafka
    assert read(DescribeAclsRequest(), 1, answer) == (ListedBindings(0, {DENY, GIVE, newer}), 0)


def test_delete_acls_answers_a_code_for_each_and_those_of_what_it_found():
    failed = "001f ffff 02 0001 6f 04" + USER_C + "0001 2a 02 03"
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
