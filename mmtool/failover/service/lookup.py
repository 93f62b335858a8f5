"""Find recorded operations in the journals of the flows' targets: all of them, or one by its id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.errors import RefusedError
from mmtool.events import flow_fields
from mmtool.failover.operation.records import in_journal_order
from mmtool.failover.service import connections
from mmtool.insight.flow_now import ask_each, worst
from mmtool.output import bind
from mmtool.plan.groups.facts import GroupSelection
from mmtool.plan.groups.names import GroupMap

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from mmtool.config import FlowSettings, Settings
    from mmtool.failover.operation.records import Recorded
    from mmtool.insight.flow_now import FlowFailures


@dataclass(frozen=True, slots=True)
class FlowOperation:
    """An operation, with its flow and the reverse flow."""

    flow: FlowSettings
    back: FlowSettings
    found: Recorded

    @property
    def groups(self) -> GroupSelection:
        return GroupSelection(self.found.group_names)

    @property
    def named(self) -> FlowSettings:
        """The flow, whose groups have their names of the operation on the target, whatever the file says now."""
        names = {group: self.found.target_groups.get(group, group) for group in self.found.group_names}
        return self.flow.model_copy(update={"group_map": GroupMap(names, "the journal")})


def find_operations(
    settings: Settings, flows: Sequence[FlowSettings], timeout: timedelta
) -> tuple[list[FlowOperation], FlowFailures]:
    """Operations on some flows of the file, the oldest first, and failures of the flows that cannot be read."""

    def ask(flow: FlowSettings) -> list[FlowOperation]:
        back = settings.one(flow.target.alias, flow.source.alias)
        return [FlowOperation(flow, back, found) for found in operations_of(flow, timeout)]

    found, failures = ask_each(flows, ask)
    return sorted((one for of in found for one in of), key=lambda one: one.found.began_ms), failures


def find_operation(
    settings: Settings, flows: Sequence[FlowSettings], timeout: timedelta, operation_id: str
) -> FlowOperation:
    """The operation with this id on one of some flows of the file.

    Raises:
        RefusedError: No journal has the operation.
        MmtoolError: A journal cannot be read, and no other has the operation.
    """
    known, failures = find_operations(settings, flows, timeout)
    for one in known:
        if one.found.operation_id == operation_id:
            bind(operation=operation_id, **flow_fields(one.found.names.flow))
            return one
    error = worst(failures.errors)
    if error is not None:
        raise error
    raise RefusedError(
        f"no journal has an operation {operation_id}",
        remedy="`mmtool failover list -c FILE` shows every recorded operation; check the id, -c, -s and -t",
        code="unknown_operation",
    )


def operations_of(flow: FlowSettings, timeout: timedelta) -> list[Recorded]:
    """The operations on one flow, in the order in which its target's journal has their starts."""
    aliases = flow.source.alias, flow.target.alias
    found = in_journal_order(connections.journal(flow, timeout).entries())
    return [one for one in found if (one.names.source, one.names.target) == aliases]
