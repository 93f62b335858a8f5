"""Bring the configs of share groups to the cluster where their positions are written, before they are.

Without them a group skips: `share.auto.offset.reset` is `latest` by default, and counts for each partition that the
group has no position in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mmtool.errors import MmtoolError
from mmtool.kafka.ports import ClusterPort
from mmtool.output import warn
from mmtool.plan.groups.facts import GroupKind
from mmtool.plan.groups.offsets import GroupPlan

Configs = Mapping[str, str]


def bring_configs(
    groups: Iterable[str], source: ClusterPort, target: ClusterPort, known: Mapping[str, Configs]
) -> tuple[dict[str, Configs], list[str]]:
    """Set the configs that share groups have on one cluster on the other one; those that are only there stay.

    Args:
        groups: The share groups.
        source: Where they have the configs.
        target: Where the configs are set.
        known: What was brought before, and is not set again.

    Returns:
        The configs that are there now, by group, and a sentence for each group whose configs are not.
    """
    try:
        found = source.groups.configs(list(groups))
    except MmtoolError as error:
        return {}, [_not_there("share groups", target, error.message)]
    brought: dict[str, Configs] = {}
    problems = [_not_there(group, target, error.message) for group, error in found.failed.items()]
    for group, configs in found.items():
        wanted = configs.items() - known.get(group, {}).items()
        problem = target.groups.configure(group, dict(wanted)) if wanted else None
        if problem is None:
            brought[group] = configs
        else:
            problems.append(_not_there(group, target, str(problem)))
    return brought, problems


def bring_configs_of(plans: Iterable[GroupPlan], source: ClusterPort, target: ClusterPort) -> None:
    """Bring the configs of the share groups that are about to be written; warn of those that were not brought."""
    groups = share_groups({plan.group: plan.kind for plan in plans if plan.to_write()})
    for problem in bring_configs(groups, source, target, {})[1] if groups else ():
        warn(problem)


def share_groups(kinds: Mapping[str, GroupKind]) -> list[str]:
    """The share groups among some groups, in alphabetical order."""
    return sorted(group for group, kind in kinds.items() if kind is GroupKind.SHARE)


def _not_there(group: str, target: ClusterPort, why: str) -> str:
    return (
        f"the configs of {group} (share.auto.offset.reset and others) were not brought to {target.alias}, where the"
        f" defaults hold: {why}"
    )
