"""A local file with an operation's journal entries, for when the target cannot be reached."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.output import warn
from mmtool.runtime.files import state_root

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mmtool.plan.records.journal import Entry


def local_copy(operation_id: str) -> Path:
    """Path of this host's local file with an operation's journal entries."""
    return state_root() / "journal" / f"{operation_id}.jsonl"


@dataclass(slots=True)
class LocalCopy:
    """One operation's journal entries in a local file; a failed write is reported once and is no error."""

    _deaf: bool = False

    def write(self, operation_id: str, entries: Sequence[Entry]) -> None:
        """Append entries to the file, one per line, and sync it to disk; warn once if that fails."""
        path = local_copy(operation_id)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.writelines(entry.encode() + b"\n" for entry in entries)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            if not self._deaf:
                warn(
                    f"the copy of the journal on this host, {path}, cannot be written: {error.strerror}; the operation"
                    " continues, and is recorded on the target"
                )
            self._deaf = True
