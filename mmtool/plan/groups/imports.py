"""Check imported offsets before they are committed, and plan the commits of each group.

A  every line of the file has one verdict
B  a group is written whole or not at all
C  a writable offset lies within the log's bounds, and moves no group back unless that was allowed
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from mmtool.plan.groups.facts import ABSENT, Commit
from mmtool.plan.groups.offsets import Direction, GroupPlan, Verdict, guard
from mmtool.translation.answers import Exact
from mmtool.translation.known import UNKNOWN, Unknown
from mmtool.translation.refusals import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.plan.groups.facts import GroupStanding
    from mmtool.translation.answers import TargetLog
    from mmtool.translation.types import TopicPartition


def plan_import(
    group: str,
    wanted: Mapping[TopicPartition, int],
    before: Mapping[TopicPartition, Commit],
    logs: Mapping[TopicPartition, TargetLog | Unknown],
    standing: GroupStanding = ABSENT,
    *,
    allow_rewind: bool = False,
    problems: Mapping[TopicPartition, str] = MappingProxyType({}),
    hidden: str = "",
) -> GroupPlan:
    """Plan the commits of one group from an offsets file: one verdict for each line.

    Args:
        group: The group's name.
        wanted: Its offsets in the file, by partition of the target.
        before: Its current commits on the target.
        logs: The target's logs; a partition without one is refused as missing.
        standing: The group's state on the target.
        allow_rewind: Also move the group back.
        problems: Why a partition's log did not answer.
        hidden: Why the cluster does not describe the group; empty where it does.
    """
    verdicts = [
        _verdict(
            group,
            place,
            offset,
            before.get(place),
            Reason.UNKNOWN_GROUP
            if hidden
            else _refusal(
                offset, before.get(place), logs.get(place, UNKNOWN), standing, allow_rewind=allow_rewind
            ),
            hidden or problems.get(place, ""),
        )
        for place, offset in sorted(wanted.items())
    ]
    return GroupPlan(group, Direction.FORWARD, tuple(verdicts))


def _verdict(
    group: str,
    place: TopicPartition,
    offset: int,
    before: Commit | None,
    refusal: Reason | None,
    detail: str,
) -> Verdict:
    return Verdict(
        group,
        None,
        place,
        Commit(offset),
        Exact(offset),
        refusal,
        blocks=refusal is not None,
        before=before,
        detail=detail,
    )


def _refusal(
    offset: int,
    before: Commit | None,
    log: TargetLog | Unknown,
    standing: GroupStanding,
    *,
    allow_rewind: bool,
) -> Reason | None:
    if log is UNKNOWN:
        return Reason.PARTITION_MISSING
    if offset < log.log_start:
        return Reason.TARGET_LOG_START_PASSED
    if offset > log.log_end:
        return Reason.BEYOND_MIRROR
    return guard(standing, offset, before, allow_rewind=allow_rewind)
