"""Producers' ACLs that cannot be changed: the remedy is that of what was asked for."""

import pytest

from kit.clusters import FakeCluster
from kit.fences import FakeFences
from mmtool.errors import PartlyAppliedError, RefusedError
from mmtool.failover.fence.promotion import do, undo
from mmtool.plan.failover.acl_promotion import Promotion
from mmtool.plan.failover.acl_rules import Binding
from mmtool.translation.types import ClusterId

MAY = Binding("orders", "LITERAL", "User:alice", "*", "WRITE", "ALLOW")


@pytest.fixture
def stuck():
    """West, on which alice's rule exists and cannot be removed."""
    return FakeFences(FakeCluster("west", ClusterId("west-id")), rules={MAY}, undeletable={MAY})


@pytest.mark.parametrize(
    ("change", "withdraws", "again"),
    [
        (do, True, "remove the cause, then run `mmtool failover resume OPERATION_ID -c FILE --execute`"),
        (undo, False, "remove the cause, then run `mmtool failover cancel OPERATION_ID -c FILE --execute`"),
    ],
    ids=["withdrawal", "undo of a promotion"],
)
def test_acls_that_stay_are_listed_with_the_command_that_removes_them(stuck, change, withdraws, again):
    with pytest.raises(PartlyAppliedError, match="could not be removed on west") as error:
        change(stuck, Promotion(is_asked_for=True, acls=(MAY,), withdraws=withdraws))
    assert error.value.remedy.startswith(again)
    assert "kafka-acls.sh" in error.value.remedy


def test_one_that_cannot_be_created_takes_the_others_back():
    other = MAY._replace(name="bills")
    fences = FakeFences(FakeCluster("west", ClusterId("west-id")), stubborn={MAY})
    with pytest.raises(RefusedError, match="ALLOW WRITE on topic orders for User:alice"):
        do(fences, Promotion(is_asked_for=True, acls=(MAY, other)))
    assert fences.rules == set()
