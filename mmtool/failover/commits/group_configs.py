"""Bring the configs of share groups to the cluster where their positions are written, before they are.

Without them a group skips: `share.auto.offset.reset` is `latest` by default, and counts for each partition that the
group has no position in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from mmtool.errors import MmtoolError
from mmtool.kafka.ports import ClusterPort
from mmtool.output import warn
from mmtool.plain_text import shell_word
from mmtool.plan.groups.facts import GroupKind
from mmtool.plan.groups.offsets import GroupPlan

Configs = Mapping[str, str]


def bring_configs(
    groups: Iterable[str],
    source: ClusterPort,
    target: ClusterPort,
    known: Mapping[str, Configs],
    there: Callable[[str], str],
) -> tuple[dict[str, Configs], list[str], list[str]]:
    """Set the configs that share groups have on one cluster on the other one; those that are only there stay.

    Args:
        groups: The share groups.
        source: Where they have the configs.
        target: Where the configs are set.
        known: What was brought before, and is not set again.
        there: A group's name on ``target``.

    Returns:
        The configs that are there now, by group; a sentence for each group whose configs are not; and one for each
        group whose configs had other values there.
    """
    try:
        found = source.groups.configs(list(groups))
        news = [group for group, configs in found.items() if configs.items() - known.get(group, {}).items()]
        before = target.groups.configs(news)
    except MmtoolError as error:
        return {}, [_not_there("share groups", target, error.message)], []
    failed = found.failed | before.failed
    brought: dict[str, Configs] = {group: found[group] for group in found.keys() - set(news)}
    problems, replaced = (
        [_not_there(group, target, error.message) for group, error in failed.items()],
        list[str](),
    )
    for group, old in before.items():
        wanted = dict(found[group].items() - known.get(group, {}).items() - old.items())
        problem = target.groups.configure(group, wanted) if wanted else None
        if problem is None:
            brought[group] = found[group]
            if others := {name: old[name] for name in sorted(wanted) if name in old}:
                replaced.append(_replaced(there(group), others, wanted, source, target))
        else:
            problems.append(_not_there(group, target, str(problem)))
    return brought, problems, replaced


def bring_configs_of(plans: Iterable[GroupPlan], source: ClusterPort, target: ClusterPort) -> None:
    """Bring the configs of the share groups that are about to be written; warn of those that were not brought."""
    writing = {plan.group: plan for plan in plans if plan.to_write()}
    groups = share_groups({group: plan.kind for group, plan in writing.items()})
    if not groups:
        return
    there = {group: plan.written_group for group, plan in writing.items()}.__getitem__
    _, problems, replaced = bring_configs(groups, source, target, {}, there)
    for sentence in (*problems, *replaced):
        warn(sentence)


def share_groups(kinds: Mapping[str, GroupKind]) -> list[str]:
    """The share groups among some groups, in alphabetical order."""
    return sorted(group for group, kind in kinds.items() if kind is GroupKind.SHARE)


def _replaced(group: str, old: Configs, new: Configs, source: ClusterPort, target: ClusterPort) -> str:
    now = ", ".join(f"{name} is {new[name]}, as on {source.alias}; before it was {old[name]}" for name in old)
    back = ",".join(f"{name}={value}" for name, value in old.items())
    return (
        f"share group {group} on {target.alias}: {now}. An undo of the offsets does not restore configs; this command"
        " does: kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type groups --entity-name"
        f" {shell_word(group)} --add-config {shell_word(back)}"
    )


def _not_there(group: str, target: ClusterPort, why: str) -> str:
    return (
        f"the configs of {group} (share.auto.offset.reset and others) were not brought to {target.alias}, where the"
        f" defaults hold: {why}"
    )
