"""The names of a flow's groups on its target: checked before they are used for the first time.

A listing of either cluster is needed only for groups that get another name for the first time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import RefusedError, UsageError
from mmtool.plan.groups.offsets import Direction
from mmtool.plan.words import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mmtool.insight.flow_now import FlowNow
    from mmtool.kafka.ports import ClusterPort
    from mmtool.plan.groups.names import GroupNames


NAME_TAKEN = "group_name_taken"
"""The code of a group whose name on the target is not its own, or unknown."""


def refused_names(
    names: GroupNames, target: ClusterPort, groups: Collection[str], here: Collection[str]
) -> dict[str, str]:
    """Why groups must not be written under their names on the target, by group; ``here`` has the source's groups."""
    is_new = any(names.renamed(group) is not None and not names.is_known(group) for group in groups)
    return names.refused(groups, here, frozenset(listed_groups(target) if is_new else ()))


def claim_names(flow: FlowNow, groups: Collection[str]) -> dict[str, str]:
    """Store the names of groups that are about to be written; return why others must not be, by group."""
    clusters, names = flow.clusters, flow.clusters.names
    if not names.in_use:
        return {}
    refused = refused_names(names, clusters.target, groups, clusters.source.groups.listing().states)
    names.keep(flow.identity, [group for group in groups if group not in refused])
    return refused


def check_names(flow: FlowNow, groups: Collection[str], direction: Direction) -> tuple[str, ...]:
    """Raise if groups cannot be written under their names on the target; return warnings about the group map.

    Raises:
        UnreachableError, NotAuthorisedError: A cluster does not list its groups.
        UsageError: A flow of a chain gives groups other names.
        As `refuse_names`.
    """
    clusters, names = flow.end.clusters, flow.end.clusters.names
    if flow.then is not None and flow.renames_groups:
        message = "a flow of this chain gives groups other names on its target (mmtool.group.map)"
        raise UsageError(message, remedy="run the command once for each flow of the chain, with -s and -t")
    if not names.in_use:
        return ()
    if direction is Direction.REVERSE:
        refuse_names(names, {group: names.map.problem for group in groups if names.is_unnamed(group)})
        return ()
    here = clusters.source.groups.listing().states
    refuse_names(names, refused_names(names, clusters.target, groups, here))
    return tuple(names.warnings(here))


def refuse_names(names: GroupNames, refused: Mapping[str, str]) -> None:
    """Raise for groups that must not be written; return if there are none.

    Raises:
        RefusedError: Another group has the name of one of them.
        UsageError: The group map cannot be read, and the name of one of them is not stored.
    """
    for group, why in refused.items():
        more = f" (and {counted(len(refused) - 1, 'more group')})" if len(refused) > 1 else ""
        message = f"group {group} cannot be written: {why}{more}; no offset was committed"
        if names.map.problem:
            raise UsageError(message, remedy=cure(names))
        raise RefusedError(message, remedy=cure(names), code=NAME_TAKEN)


def cure(names: GroupNames) -> str:
    """What helps groups that must not be written under their names on the target."""
    if names.map.problem:
        return f"restore {names.map.file}, or name another file with mmtool.group.map or --group-map"
    return f"give the group another target name in {names.map.file or 'the file of mmtool.group.map'}; or leave it out"


def listed_groups(cluster: ClusterPort) -> list[str]:
    """The names of all groups of a cluster, of whatever kind; errors as `ClusterPort.groups` has them."""
    found = cluster.groups.listing()
    return [*found.states, *found.others]
