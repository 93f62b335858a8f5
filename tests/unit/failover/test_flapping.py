"""Groups that go to and fro within minutes."""

from dataclasses import replace

import pytest

from mmtool.errors import RefusedError
from mmtool.failover.operation.operation import Operation
from mmtool.failover.operation.records import Recorded
from mmtool.failover.operation.states import OperationState, OperationStatus, Phase
from mmtool.failover.service.execution import check
from mmtool.plan.failover.failover_plan import FailoverPlan
from mmtool.plan.failover.steps import Mode
from mmtool.plan.words import Names
from mmtool.translation.types import ClusterId

THERE, BACK = Names("east", "west"), Names("west", "east")
NOW_MS = 10_000_000


def done(mode, names, *groups, seconds_ago, state=OperationState.COMPLETED):
    plan = FailoverPlan("op-1", mode, names, ())
    operation = Operation(plan, OperationStatus(state, Phase.AFTER))
    at_ms = NOW_MS - 1000 * seconds_ago
    return Recorded(operation, names, ClusterId("a"), ClusterId("b"), groups, "", "ann@host-1", at_ms, at_ms)


@pytest.mark.parametrize(
    "before",
    [done(Mode.FAILBACK, THERE, "app", seconds_ago=200), done(Mode.PLANNED, BACK, "app", seconds_ago=200)],
)
def test_a_group_that_came_the_other_way_within_five_minutes_is_a_warning_that_names_who_did_it(before):
    (warning,) = check([before], THERE, ["app", "other"], NOW_MS, None)
    assert "moved app from west to east" in warning
    assert "op-1 by ann@host-1" in warning


@pytest.mark.parametrize(
    "before",
    [
        done(Mode.FAILBACK, THERE, "app", seconds_ago=301),
        done(Mode.FAILBACK, THERE, "other", seconds_ago=10),
        done(Mode.FAILBACK, BACK, "app", seconds_ago=10),
        done(Mode.EMERGENCY, THERE, "app", seconds_ago=10),
        done(Mode.DRILL, BACK, "app", seconds_ago=10),
        done(Mode.PLANNED, BACK, "app", seconds_ago=10, state=OperationState.ROLLED_BACK),
    ],
)
def test_nothing_else_is(before):
    assert check([before], THERE, ["app"], NOW_MS, None) == []


def test_where_the_file_forbids_it_it_is_three():
    before = done(Mode.PLANNED, BACK, "app", seconds_ago=50)
    with pytest.raises(
        RefusedError, match=r"min\.interval\.seconds = 60 forbids moving groups back"
    ) as refused:
        check([before], THERE, ["app"], NOW_MS, 60)
    assert (refused.value.exit_code, refused.value.code) == (3, "moved_just_now")
    older = replace(before, last_ms=NOW_MS - 61_000)
    assert len(check([older], THERE, ["app"], NOW_MS, 60)) == 1
