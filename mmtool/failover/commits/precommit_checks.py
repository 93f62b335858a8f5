"""Checks before the first commit: whether a broker would refuse one, or it would overwrite a newer commit.

A commit that a broker accepts only in part is undone (`mmtool.failover.commits.write`); these checks make that
unlikely. The plan has already checked the offsets and their bounds.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mmtool.errors import NotAuthorisedError, RefusedError
from mmtool.plan.groups.facts import ABSENT, make_room, occupied
from mmtool.plan.words import AGAIN, few
from mmtool.translation.refusals import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mmtool.kafka.ports import ClusterPort
    from mmtool.plan.groups.facts import Commit
    from mmtool.plan.groups.offsets import GroupPlan
    from mmtool.translation.types import TopicPartition

    Wanted = Mapping[str, Mapping[TopicPartition, Commit]]

_NAMED = 3
_YOUNG_SECONDS = 60.0
_COMMITS_EVERY_SECONDS = 6.0  # auto.commit.interval.ms is 5 s by default


def clear(
    cluster: ClusterPort,
    plans: Iterable[GroupPlan],
    *,
    synced: bool = False,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Check before the first commit that the cluster will accept every offset of the plans; raise if not.

    A group with commits of the last minute that would be replaced is checked a second time after 6 s, longer than a
    consumer's usual commit interval: a consumer with ``assign()`` is not a member of the group.

    Args:
        cluster: The cluster to commit on.
        plans: The groups' plans.
        synced: Recent commits are expected and not watched, because offset sync writes them
            (``sync.group.offsets.enabled``).
        pause: Waits for a number of seconds.

    Raises:
        NotAuthorisedError: mmtool's principal lacks a right.
        RefusedError: A commit's metadata is longer than the brokers accept; or a group has members now, or other
            commits than when the plan was made.
        UnreachableError: The cluster does not answer.
    """
    writing = [plan for plan in plans if plan.to_write()]
    if not writing:
        return
    wanted = {plan.group: plan.to_write() for plan in writing}
    _check_rights(cluster, wanted)
    _check_metadata(cluster, wanted)
    _check_standing(cluster, writing)
    if not synced and (young := _young(cluster, writing)):
        pause(_COMMITS_EVERY_SECONDS)
        _check_standing(cluster, young)


def _young(cluster: ClusterPort, writing: Iterable[GroupPlan]) -> list[GroupPlan]:
    """Plans of groups whose commits to be replaced are less than a minute old, as far as brokers tell."""
    replacing = {plan.group: _replaced(plan) for plan in writing}
    times = cluster.commit_times([group for group, places in replacing.items() if places])
    since_ms = (time.time() - _YOUNG_SECONDS) * 1000
    young = {group for group, of in times.items() if any(of.get(at, 0) > since_ms for at in replacing[group])}
    return [plan for plan in writing if plan.group in young]


def _replaced(plan: GroupPlan) -> set[TopicPartition]:
    wanted = plan.to_write()
    return {place for place, before in plan.before().items() if before != wanted[place]}


def _check_rights(cluster: ClusterPort, wanted: Wanted) -> None:
    missing = cluster.groups.missing_rights(wanted)
    if missing:
        raise NotAuthorisedError(
            f"mmtool may not commit these offsets on {cluster.alias}: it lacks {few(missing, _NAMED)};"
            " no offset was committed",
            remedy=f"grant these rights on {cluster.alias} to mmtool's principal, then run the same command again",
        )


def _check_metadata(cluster: ClusterPort, wanted: Wanted) -> None:
    lengths = {
        (group, place): _length(commit.metadata)
        for group, of_group in wanted.items()
        for place, commit in of_group.items()
        if commit.metadata
    }
    longest = max(lengths, key=lambda key: lengths[key], default=None)
    if longest is None:
        return
    limit = cluster.longest_metadata()
    if lengths[longest] > limit:
        group, place = longest
        raise RefusedError(
            f"the commit of group {group} for {place} has {lengths[longest]} characters of metadata, and"
            f" {cluster.alias} accepts {limit} at most; no offset was committed",
            remedy=f"raise offset.metadata.max.bytes on {cluster.alias}, or leave the group out",
            code="metadata_too_large",
        )


def _length(metadata: str) -> int:
    """Length in UTF-16 code units, as Java's ``String.length``, which brokers compare."""
    return len(metadata.encode("utf-16-le")) // 2


def _check_standing(cluster: ClusterPort, writing: list[GroupPlan]) -> None:
    """Raise if a group has members now, or other commits than when the plan was made."""
    names = [plan.group for plan in writing]
    standing, now = cluster.groups.describe(names), cluster.groups.commits(names)
    for plan in writing:
        there = standing.get(plan.group, ABSENT)
        if not there.idle:
            by_now = occupied(plan.group, cluster.alias, there)
            raise _at_work(by_now, f"{make_room(plan.group, cluster.alias, there)}; then {AGAIN}")
        before = plan.before()
        moved = sorted(at for at in plan.to_write() if now[plan.group].get(at) != before.get(at))
        if moved:
            raise _at_work(
                f"group {plan.group} has no members on {cluster.alias}, but its committed offset in"
                f" {moved[0]} has changed since this command read it: a consumer with assign(), another tool, a"
                " running `mmtool groups sync`, or `mmtool replicate` with sync.group.offsets.enabled commits for it",
                "run the same command again; if it is refused again, stop that consumer, tool or offset sync until the"
                " command has ended",
            )


def _at_work(message: str, remedy: str) -> RefusedError:
    return RefusedError(
        f"{message}; mmtool has committed no offset", remedy=remedy, code=Reason.ACTIVE_ON_TARGET
    )
