"""A rehearsal: a plan before it is executed, with its guards, refusals and warnings."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mmtool.errors import RefusedError
from mmtool.insight.group_names import check_names
from mmtool.insight.translation import selected_groups
from mmtool.plan.failover.failover_plan import drain_cures
from mmtool.plan.groups.applications import NO_STATE
from mmtool.plan.records.identity import FlowIdentity
from mmtool.plan.words import Names, counted, few
from mmtool.replication.ownership.checks import changed_names, names_refusal
from mmtool.translation.answers import Reason
from mmtool.translation.types import UNKNOWN, ClusterId

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from mmtool.config import FlowSettings
    from mmtool.failover.fence.promotion import AclsAsked
    from mmtool.insight.flow_now import FlowNow
    from mmtool.kafka.state.control_view import ControlView
    from mmtool.plan.failover.failover_plan import FailoverPlan
    from mmtool.plan.failover.risks import Guard
    from mmtool.plan.groups.applications import AppState
    from mmtool.plan.groups.facts import GroupSelection, SelectedGroups
    from mmtool.plan.groups.offsets import Direction
    from mmtool.plan.runbook.plan_file import Fingerprint
    from mmtool.translation.types import Unknown

_NAMED = 5
"""How many refusals have an error of their own; the first error counts the others."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What an operation would do.

    Attributes:
        source_id: UNKNOWN where neither the source nor the stored state has it.
        state: The state topics of the Kafka Streams applications among the groups.
    """

    settings: FlowSettings
    source_id: ClusterId | Unknown
    target_id: ClusterId
    plan: FailoverPlan
    warnings: tuple[str, ...] = ()
    state: AppState = field(default=NO_STATE, kw_only=True)

    @property
    def names(self) -> Names:
        return names_of(self.settings)

    @property
    def identity(self) -> FlowIdentity:
        """The flow; an unknown source id is replaced by the expected one of the file, or by the source's alias."""
        source = self.settings.source
        unknown = source.expected_cluster_id or source.alias
        source_id = ClusterId(unknown) if self.source_id is UNKNOWN else self.source_id
        return FlowIdentity(source_id, self.target_id, source.alias, self.settings.target.alias)

    @property
    def at_risk(self) -> bool:
        """Whether records or state may be lost; only an emergency failover can."""
        return False

    @property
    def moves(self) -> bool:
        """Whether there is an offset to write, now or after the drain."""
        verdicts = [verdict for group in self.plan.groups for verdict in group.verdicts]
        return any(verdict.refusal is None or drain_cures(verdict) for verdict in verdicts)

    @property
    def refusal(self) -> RefusedError | None:
        """The plan's guards as one error; None without guards."""
        return refusal_of(self.plan.guards) if self.plan.guards else None

    @property
    def further_refusals(self) -> tuple[RefusedError, ...]:
        """Errors for the next guards with a remedy of their own, as fence guards; the first error counts the others."""
        named = [guard for guard in self.plan.guards[1:] if guard.remedy][:_NAMED]
        return tuple(refusal_of((guard,)) for guard in named)


@dataclass(frozen=True, slots=True)
class SavableRehearsal(Rehearsal):
    """A rehearsal that can be saved to a file, and executed from it.

    Attributes:
        seen: The facts that its plan depends on.
        acls: The connections for its change of producers' ACLs; None where it makes none.
    """

    seen: Fingerprint = field(kw_only=True)
    acls: AclsAsked | None = field(default=None, kw_only=True)


def names_of(settings: FlowSettings) -> Names:
    """The aliases of a flow's clusters."""
    return Names(settings.source.alias, settings.target.alias)


def refuse_changed_names(settings: FlowSettings, control: ControlView, read: Collection[str]) -> None:
    """Raise if the properties file now gives a mirrored topic another name on the target than its stored state has.

    Topics that have failed over are skipped, as `replicate` skips them, unless they are read.

    Args:
        settings: The flow's settings, as the engine would use them.
        control: The flow's control topic.
        read: The topics that the groups read, by their names on the flow's source; for an emergency, which asks the
            target alone, those that the operation itself has marked.

    Raises:
        RefusedError: A name has changed; the message has both names of the first topics.
    """
    changed, skipped = (
        changed_names(settings, control.positions.values()),
        control.failed_over.keys() - set(read),
    )
    if counting := {topic: name for topic, name in changed.items() if topic not in skipped}:
        raise names_refusal(settings, counting)


def new_operation_id() -> str:
    """A new operation id, which sorts by time and is unique without coordination."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{uuid.uuid4().hex[:6]}"


def select(
    flow: FlowNow,
    selection: GroupSelection,
    direction: Direction,
    what: str,
    lists: str = "`mmtool status -c FILE --groups` lists the groups",
) -> SelectedGroups:
    """The groups of a flow that the command line selects.

    Args:
        flow: The flow.
        selection: The groups that the command line selects.
        direction: The groups are listed where their commits are read.
        what: What would be done with a group, as ``move``.
        lists: What lists the groups to choose from, as a sentence.

    Raises:
        RefusedError: No group is selected; the error names the options or keys that leave every group out. Or another
            group has the name that a selected one would get on the target.
        UnreachableError, NotAuthorisedError: The cluster does not list its groups.
    """
    selected = selected_groups(flow, selection, direction)
    if selected.known or selected.unknown:
        return replace(selected, said=check_names(flow, selected.known, direction))
    why, remedy = "", f"check whether the keys groups and groups.exclude leave out every group: {lists}"
    if selected.excluded:
        why = f", as the keys groups and groups.exclude leave out {few(selected.excluded)}"
        remedy = "name the group with -g, which overrides these keys, or change these keys"
    elif selection.patterns:
        remedy = f"check --groups or --unit: {lists}"
    raise RefusedError(f"no group matches{why}: there is nothing to {what}", remedy=remedy)


def refuse(guards: Iterable[Guard]) -> None:
    """Raise guards as one error; return if there are none."""
    found = tuple(guards)
    if found:
        raise refusal_of(found)


def refusal_of(guards: tuple[Guard, ...]) -> RefusedError:
    """One or more guards as one error: the first in full, the others counted, as each is in the rows."""
    more = f" (and {counted(len(guards) - 1, 'more refusal')})" if len(guards) > 1 else ""
    codes = {guard.code for guard in guards}
    return RefusedError(
        guards[0].sentence + more,
        remedy=guards[0].remedy or _REMEDIES.get(guards[0].code, _FIX_THAT),
        code=codes.pop() if len(codes) == 1 else "refused",
    )


_FIX_THAT = "no offset was committed; do what the error says, then run the same command again"


_REMEDIES: dict[str, str] = {
    Reason.NEVER_RAN: (
        "check -s and -t: groups can move once `mmtool replicate` or MirrorMaker 2 has mirrored their topics;"
        " nothing was changed"
    ),
    "source_commits_moved": "stop the client that commits for the group (a consumer with assign(), or a tool); then"
    " run the same command again",
}
