"""The step ``promote``: it stops a mirror that another system keeps, and cannot be undone."""

import pytest

from mmtool.plan.failover.steps import HOOKABLE, Mode, StepName, order_of


@pytest.mark.parametrize("mode", [Mode.PLANNED, Mode.EMERGENCY])
def test_a_mirror_is_stopped_when_all_is_validated_and_nothing_is_written(mode):
    order = order_of(mode, changes_acls=True, stops_mirror=True)
    at = order.index(StepName.STOP_MIRROR)
    assert (order[at - 1], order[at + 1]) == (StepName.VALIDATE, StepName.WRITE)
    assert tuple(name for name in order if name is not StepName.STOP_MIRROR) == order_of(
        mode, changes_acls=True
    )


def test_its_name_is_that_of_the_hook():
    assert "promote" in HOOKABLE
