"""Undo files on this host: the commits that a command replaces, for `mmtool groups import` to restore."""

from __future__ import annotations

import os
from time import gmtime, strftime
from typing import TYPE_CHECKING
from uuid import uuid4

from mmtool.errors import UsageError
from mmtool.plain_text import did_you_mean, nearest
from mmtool.plan.groups.undo import Undo
from mmtool.plan.records.documents import UnreadableDocumentError
from mmtool.plan.words import file_part
from mmtool.runtime.files import state_root

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from mmtool.kafka.ports import ClusterPort
    from mmtool.plan.groups.offsets import GroupPlan


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
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(undo.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UsageError(
            f"previous offsets cannot be saved in {folder}: {error.strerror}; no offset was committed",
            remedy="set XDG_STATE_HOME to a writable folder with free space",
        ) from error
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
