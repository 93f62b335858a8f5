"""A drill as data: a planned failover of copies (shadows) of the groups.

S  a drill commits for shadows only: groups of mmtool's own, which no selector and no sync matches
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.plan.failover.failover_plan import FailoverPlan, blocking_guards, name_guards, state_guards
from mmtool.plan.failover.steps import Mode, steps_of
from mmtool.plan.groups.applications import NO_STATE, with_lost_state
from mmtool.plan.groups.facts import OWN_GROUP_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.plan.groups.applications import AppState
    from mmtool.plan.groups.facts import GroupFacts
    from mmtool.plan.groups.offsets import GroupPlan
    from mmtool.plan.words import Names

_MARK = ".drill-"


def shadow_of(group: str, operation_id: str) -> str:
    """The name of a group's shadow in a drill."""
    return f"{OWN_GROUP_PREFIX}{group}{_MARK}{operation_id}"


def shadowed(shadow: str) -> str:
    """The name of the group that a shadow is a copy of; that of a group without one stays."""
    name, mark, _ = shadow.removeprefix(OWN_GROUP_PREFIX).rpartition(_MARK)
    return name if mark else shadow


def plan_drill(
    operation_id: str,
    names: Names,
    plans: Iterable[GroupPlan],
    groups: Iterable[GroupFacts] = (),
    state: AppState = NO_STATE,
) -> FailoverPlan:
    """Plan a drill with the shadows of ``groups``; ``plans`` are translated as far as the mirror reaches."""
    found = tuple(with_lost_state(plan, state, shadowed(plan.group)) for plan in plans)
    guards = (
        *name_guards(groups, names.target),
        *state_guards(state, names.target),
        *blocking_guards(found, after_drain=False),
    )
    steps = steps_of(Mode.DRILL, names, found, state=state.moved)
    return FailoverPlan(
        operation_id,
        Mode.DRILL,
        names.flow,
        found,
        steps,
        guards,
        state=state.moved,
        without_state=state.without,
    )
