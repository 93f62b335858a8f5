"""What a command replaces, kept in a file on this host."""

from __future__ import annotations

import os
from time import gmtime, strftime
from typing import TYPE_CHECKING
from uuid import uuid4

from mmtool.errors import UsageError
from mmtool.folders import state_root
from mmtool.plan.documents import UnreadableDocumentError
from mmtool.plan.undo import Undo

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from mmtool.kafka.ports import ClusterPort
    from mmtool.plan.offsets import GroupPlan


def keep(cluster: ClusterPort, plans: Iterable[GroupPlan]) -> Path | None:
    """Write down, before they are written, what the plans will replace; None when that is nothing.

    Raises:
        UsageError: The file cannot be written.
        UnreachableError: The cluster does not answer.
    """
    undo = Undo.of(cluster.probe(), plans)
    if not undo.replaced:
        return None
    folder = state_root() / "undo"
    path = folder / f"{strftime('%Y%m%dT%H%M%SZ', gmtime())}-{cluster.alias}-{uuid4().hex[:6]}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with path.open("xb") as file:
            file.write(undo.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UsageError(
            f"what is replaced cannot be kept in {folder}: {error.strerror}; nothing was written",
            remedy="set XDG_STATE_HOME to a folder that can be written",
        ) from error
    return path


def is_undo(path: Path) -> bool:
    """Whether a file is one of `keep`'s, and no reset file of Kafka's."""
    try:
        with path.open("rb") as file:
            return file.read(1) == b"{"
    except OSError:
        return False


def read_undo(path: Path) -> Undo:
    """A file of `keep`'s.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        return Undo.decode(path.read_bytes())
    except (OSError, UnreadableDocumentError) as error:
        raise UsageError(f"{path}: {error}", remedy="name a file that mmtool has kept, as it was") from error
