"""Execute offset plans on a cluster: check each commit, save the replaced ones, commit, read back."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from time import gmtime, strftime
from typing import TYPE_CHECKING
from uuid import uuid4

from mmtool.errors import NotAuthorisedError, RefusedError, UsageError
from mmtool.failover.commits.write import WriteOutcome, failure_of_writing, write_groups, written_places
from mmtool.output import warn
from mmtool.plain_text import did_you_mean, nearest, shell_word
from mmtool.plan.groups.facts import ABSENT, make_room, occupied
from mmtool.plan.groups.undo import Undo
from mmtool.plan.records.documents import UnreadableDocumentError
from mmtool.plan.words import AGAIN, few, file_part
from mmtool.runtime.files import file_errors, state_root
from mmtool.translation.answers import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path

    from mmtool.errors import MmtoolError
    from mmtool.failover.commits.write import Written
    from mmtool.failover.report.rows import WrittenPlaces
    from mmtool.kafka.ports import ClusterPort
    from mmtool.plan.groups.facts import Commit
    from mmtool.plan.groups.offsets import GroupPlan
    from mmtool.translation.types import TopicPartition

    Wanted = Mapping[str, Mapping[TopicPartition, Commit]]


def keep(cluster: ClusterPort, plans: Iterable[GroupPlan]) -> Path | None:
    """Save the commits that the plans will replace to a file, before any is replaced; None if none will be.

    Raises:
        UsageError: The file cannot be written.
        UnreachableError: The cluster does not answer.
    """
    undo = Undo.of(cluster.probe(), plans)
    if not undo.replaced:
        return None
    folder = (state_root() / "undo").absolute()
    path = (
        folder / f"{strftime('%Y%m%dT%H%M%SZ', gmtime())}-{file_part(cluster.alias)}-{uuid4().hex[:6]}.json"
    )
    with file_errors(
        f"previous offsets cannot be saved in {folder}",
        "set XDG_STATE_HOME to a writable folder with free space",
        and_so="; no offset was committed",
    ):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(undo.encode())
            file.flush()
            os.fsync(file.fileno())
    return path


def is_undo(content: bytes) -> bool:
    """Whether a file's content is an undo file of `keep`, not a Kafka reset file."""
    return content.lstrip()[:1] == b"{"


def read_undo(name: str, content: bytes, group: str | None = None) -> Undo:
    """The replaced commits from the content of an undo file that `keep` wrote.

    Args:
        name: The file's name, for errors.
        content: The file's content.
        group: The group to select; None for all.

    Raises:
        UsageError: The content is damaged or no undo file, or has no commit of the group.
    """
    try:
        kept = Undo.decode(content)
    except UnreadableDocumentError as error:
        raise UsageError(
            f"{name}: damaged, truncated, or not an undo file of this version of mmtool: {error}",
            remedy="give `mmtool groups import` the unchanged undo file that mmtool wrote; if another version of mmtool"
            " wrote it, run that version",
        ) from error
    if group is None:
        return kept
    of_group = tuple(one for one in kept.replaced if one.group == group)
    if not of_group:
        near = did_you_mean([nearest(group, (one.group for one in kept.replaced))])
        raise UsageError(
            f"{name} names no group {group}{near}", remedy="leave out -g to restore the whole file"
        )
    return Undo(kept.cluster_id, of_group)


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
    missing = cluster.groups.missing_rights(wanted)
    if missing:
        raise NotAuthorisedError(
            f"mmtool may not commit these offsets on {cluster.alias}: it lacks {few(missing, _NAMED)};"
            " no offset was committed",
            remedy=f"grant these rights on {cluster.alias} to mmtool's principal, then run the same command again",
        )
    _check_metadata(cluster, wanted)
    _check_standing(cluster, writing)
    if not synced and (young := _young(cluster, writing)):
        pause(_COMMITS_EVERY_SECONDS)
        _check_standing(cluster, young)


def _young(cluster: ClusterPort, writing: Iterable[GroupPlan]) -> list[GroupPlan]:
    """Plans of groups whose commits to be replaced are less than a minute old, as far as brokers tell."""
    replacing = {
        plan.group: {at for at, before in plan.before().items() if before != plan.to_write()[at]}
        for plan in writing
    }
    times = cluster.commit_times([group for group, places in replacing.items() if places])
    since_ms = (time.time() - _YOUNG_SECONDS) * 1000
    young = {group for group, of in times.items() if any(of.get(at, 0) > since_ms for at in replacing[group])}
    return [plan for plan in writing if plan.group in young]


def _check_metadata(cluster: ClusterPort, wanted: Wanted) -> None:
    lengths = {
        (group, place): len(commit.metadata.encode("utf-16-le"))
        // 2  # as Java's String.length, which brokers compare
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


def _check_standing(cluster: ClusterPort, writing: list[GroupPlan]) -> None:
    """Raise if a group has members now, or other commits than when the plan was made."""
    names = [plan.group for plan in writing]
    standing, now = cluster.groups.describe(names), cluster.groups.commits(names)
    for plan in writing:
        there = standing.get(plan.group, ABSENT)
        if not (there.idle and there.fits(plan.kind)):
            by_now = occupied(plan.shown, cluster.alias, there)
            raise _at_work(by_now, f"{make_room(plan.shown, cluster.alias, there)}; then {AGAIN}")
        before = plan.before()
        moved = sorted(at for at in plan.to_write() if now[plan.group].get(at) != before.get(at))
        if moved:
            raise _at_work(
                f"group {plan.shown} has no members on {cluster.alias}, but its committed offset in"
                f" {moved[0]} has changed since this command read it: a consumer with assign(), another tool, a"
                " running `mmtool groups sync`, or `mmtool replicate` with sync.group.offsets.enabled commits for it",
                "run the same command again; if it is refused again, stop that consumer, tool or offset sync until the"
                " command has ended",
            )


def _at_work(message: str, remedy: str) -> RefusedError:
    return RefusedError(
        f"{message}; mmtool has committed no offset", remedy=remedy, code=Reason.ACTIVE_ON_TARGET
    )


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of executed offset plans.

    Attributes:
        ended: The result for each group.
        undo: The file with the replaced commits; None where none was replaced.
        where: The cluster's alias.
    """

    ended: tuple[Written, ...]
    undo: Path | None
    where: str

    @property
    def written(self) -> WrittenPlaces:
        """As `written_places`."""
        return written_places(self.ended)

    @property
    def may_have_written(self) -> bool:
        """Whether a commit was replaced, or may have been."""
        unclear = {WriteOutcome.PARTLY, WriteOutcome.DIFFERENT}
        return any(result.written or result.outcome in unclear for result in self.ended)

    @property
    def error(self) -> MmtoolError | None:
        """The error with which the command ends; None if every group was written."""
        return failure_of_writing(self.ended, self.where)


def apply(cluster: ClusterPort, plans: Collection[GroupPlan], *, synced: bool) -> Applied:
    """Check, save the commits to be replaced, and commit the plans' offsets; blocked groups stay unchanged.

    Args:
        cluster: The cluster to commit on.
        plans: The groups' plans.
        synced: As for `clear`: the groups' commits may be recent because offset sync writes them.

    Raises:
        MmtoolError: As `clear` and `keep`; nothing was written.
    """
    looked_at = time.monotonic()
    clear(cluster, plans, synced=synced)
    undo = keep(cluster, plans)
    try:
        ended = tuple(write_groups(cluster.groups, plans, looked_at=looked_at))
    except BaseException:  # Ctrl-C, of somebody who waits for a silent cluster
        if undo is not None:
            warn(
                f"interrupted: offsets of some groups may already be committed on {cluster.alias};"
                f" `mmtool groups import {shell_word(str(undo))} -c FILE --execute` restores the previous ones"
            )
        raise
    applied = Applied(ended, undo, cluster.alias)
    if undo is not None and not applied.may_have_written:
        undo.unlink(missing_ok=True)
        return Applied(ended, None, cluster.alias)
    return applied
