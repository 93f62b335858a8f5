"""Give OpenSSL PEM text as a file path, for calls that read files only; the ``with`` block ends the path."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from mmtool.errors import UsageError
from mmtool.runtime.files import state_root

if TYPE_CHECKING:
    from collections.abc import Iterator

_SUFFIX = ".pem"


@contextlib.contextmanager
def pem_path(text: str) -> Iterator[str]:
    """Provide PEM text as a path that OpenSSL can read, until the ``with`` block ends.

    Raises:
        UsageError: no folder can hold the file.
    """
    remove_abandoned()
    with contextlib.ExitStack() as ends:
        path = _in_memory(text, ends) or _on_disk(text, ends)
        yield path


def remove_abandoned() -> None:
    """Remove the key files of killed processes: files that no process holds locked."""
    for folder in _folders():
        if not _is_private(folder):
            continue
        for path in folder.glob(f"*{_SUFFIX}"):
            with contextlib.suppress(OSError), path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


def _in_memory(text: str, ends: contextlib.ExitStack) -> str | None:
    """A path to the text in an anonymous memory file; None where the system has none, or no /proc."""
    if sys.platform != "linux":
        return None
    try:
        file = ends.enter_context(os.fdopen(os.memfd_create("mmtool-pem"), "wb"))
        file.write(text.encode())
        file.flush()
        path = f"/proc/self/fd/{file.fileno()}"
        os.stat(path)  # noqa: PTH116  a missing /proc is an error here and not at OpenSSL
    except (OSError, AttributeError):
        return None
    return path


_FULL = (errno.ENOSPC, errno.EDQUOT)
_FREE = (
    "free some space on the file system of that folder, or set XDG_RUNTIME_DIR to another folder of this user"
)
_OTHER_FOLDER = "set XDG_RUNTIME_DIR or XDG_STATE_HOME to a folder that this user can write to"


def _on_disk(text: str, ends: contextlib.ExitStack) -> str:
    folder = _private_folder()
    while True:
        path = folder / f"{secrets.token_hex(8)}{_SUFFIX}"
        try:
            number = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            file = ends.enter_context(os.fdopen(number, "wb"))
            ends.callback(path.unlink, missing_ok=True)
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(text.encode())
            file.flush()
        except OSError as error:
            raise UsageError(
                f"mmtool's private key for TLS cannot be written to a file for OpenSSL in {folder}: {error.strerror}",
                remedy=_FREE if error.errno in _FULL else _OTHER_FOLDER,
            ) from error
        if path.exists():  # else another process took it for abandoned before it was locked
            return str(path)


def _private_folder() -> Path:
    """The first usable folder that only this user may enter; created if it is missing.

    Raises:
        UsageError: no folder can be used.
    """
    for folder in _folders():
        with contextlib.suppress(OSError):
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
        if _is_private(folder) and os.access(folder, os.W_OK):
            return folder
    raise UsageError(
        "OpenSSL needs the private key in a file that only this user can read, and none of these folders can hold it:"
        f" {', '.join(map(str, _folders()))}",
        remedy=_OTHER_FOLDER,
    )


def _folders() -> list[Path]:
    """Folders that may hold key files, in order of preference; a Spark executor may have no home."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    found = [Path(runtime) / "mmtool-keys"] if runtime else []
    with contextlib.suppress(RuntimeError):  # no home
        found.append(state_root() / "keys")
    return [*found, Path(tempfile.gettempdir()) / f"mmtool-keys-{os.getuid()}"]


def _is_private(folder: Path) -> bool:
    """Whether a path is a real folder of this user that no other user may enter."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
