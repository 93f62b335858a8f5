"""Folders on disk: a cache, which may be deleted, and mmtool's state, which may not."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

from mmtool.errors import UsageError
from mmtool.plain_text import did_you_mean, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator


def cache_root() -> Path:
    """The folder for caches: ``$XDG_CACHE_HOME/mmtool``, by default below ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mmtool"


def state_root() -> Path:
    """The folder for state, which is not replaceable: ``$XDG_STATE_HOME/mmtool``, default below ``~/.local/state``."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "mmtool"


def did_you_mean_file(path: Path) -> str:
    """The question about a file that does not exist: the nearest name in its folder; empty where none is near."""
    with contextlib.suppress(OSError):
        if not path.exists():
            name = nearest(path.name, (one.name for one in path.parent.iterdir() if one.is_file()))
            return did_you_mean([name and str(path.with_name(name))])
    return ""


@contextlib.contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Hold a lock on ``folder``, so that one process at a time fills it; it is released when the process dies.

    Raises:
        UsageError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise UsageError(
            f"the cache folder {folder} cannot be written: {error.strerror}",
            remedy="set XDG_CACHE_HOME to a folder that can be written",
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
