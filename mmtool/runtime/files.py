"""Folders and files on disk: mmtool's cache and state, and a file that appears at once and whole."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from mmtool.errors import MmtoolError, RefusedError, UsageError
from mmtool.plain_text import did_you_mean, nearest, shell_word

_OWNER_ONLY = 0o600


def cache_root() -> Path:
    """The folder for caches: ``$XDG_CACHE_HOME/mmtool``, by default below ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mmtool"


def state_root() -> Path:
    """The folder for state, which is not replaceable: ``$XDG_STATE_HOME/mmtool``, default below ``~/.local/state``."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "mmtool"


def did_you_mean_file(path: Path) -> str:
    """The question about a file that does not exist: the nearest name in its folder; empty where none is near."""
    with suppress(OSError):
        if not path.exists():
            name = nearest(path.name, (one.name for one in path.parent.iterdir() if one.is_file()))
            return did_you_mean([name and str(path.with_name(name))])
    return ""


@contextmanager
def file_errors(
    said: str,
    remedy: str,
    kind: type[MmtoolError] = UsageError,
    *,
    and_so: str = "",
    near: Path | None = None,
) -> Iterator[None]:
    """Turn an error of the file system into one line.

    Args:
        said: What cannot be done, and with which file; the system's reason follows.
        remedy: As of any error.
        kind: The error's class, which gives the exit code.
        and_so: Behind the reason: what was done or left undone.
        near: The file, for the nearest name if it does not exist.

    Raises:
        MmtoolError: Of ``kind``.
    """
    try:
        yield
    except OSError as error:
        like = "" if near is None else did_you_mean_file(near)
        raise kind(f"{said}: {error.strerror or error}{like}{and_so}", remedy=remedy) from error


def write_named(option: str, path: Path, content: bytes) -> None:
    """Write the file that an option of the command names.

    Raises:
        UsageError: The file cannot be written.
    """
    with file_errors(
        f"{option} {path} cannot be written", "name a file in a folder that exists and can be written"
    ):
        path.write_bytes(content)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all, whoever else writes it; only the owner can read it.

    Raises:
        OSError: It cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, _OWNER_ONLY)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Hold a lock on ``folder``, so that one process at a time fills it; it is released when the process dies.

    Raises:
        UsageError: The folder cannot be written.
    """
    with file_errors(
        f"the cache folder {folder} cannot be written", "set XDG_CACHE_HOME to a folder that can be written"
    ):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# --- A file that appears at once and whole: written under another name first, then given its own ---------


def refuse_existing(path: Path, *, force: bool) -> None:
    """Refuse to overwrite a file.

    Raises:
        RefusedError: There is a file of this name, and ``force`` is not given.
    """
    if not force and os.path.lexists(path):
        raise RefusedError(
            f"{path} exists and was not changed",
            remedy=f"name another file with -c, or overwrite {shell_word(str(path))} with --force",
            code="file_exists",
        )


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file under its temporary name.

    Attributes:
        path: The name that it gets.
        place: Where it gets it: a link that is overwritten leads there.
        draft: The name that it has until then, in the folder of ``place``.
        force: Whether an existing file is overwritten.
    """

    path: Path
    place: Path
    draft: Path
    force: bool

    def write(self, content: bytes) -> None:
        """Replace the content under the temporary name; only the owner can read it.

        Raises:
            UsageError: The folder cannot be written.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with _writing(self.path), os.fdopen(os.open(self.draft, flags, _OWNER_ONLY), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def publish(self) -> None:
        """Give the file its name; an overwritten file's mode is kept.

        Raises:
            RefusedError: A file of this name was created meanwhile, and ``force`` is not given.
            UsageError: The folder cannot be written.
        """
        with _writing(self.path):
            try:
                if self.force:
                    with suppress(FileNotFoundError):
                        self.draft.chmod(self.place.stat().st_mode & 0o777)
                else:
                    os.close(os.open(self.place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY))
                self.draft.replace(self.place)
            except FileExistsError:
                refuse_existing(self.path, force=False)


@contextmanager
def new_file(path: Path, *, force: bool = False) -> Iterator[NewFile]:
    """A file to write and publish; a draft that was not published is removed.

    Raises:
        RefusedError: As `refuse_existing`.
        UsageError: The folder cannot be written.
    """
    refuse_existing(path, force=force)
    place = Path(os.path.realpath(path)) if force else path
    made = NewFile(path, place, place.with_name(f".{place.name}.{uuid4().hex[:8]}"), force)
    try:
        made.write(b"")  # a folder that cannot be written is reported before any work
        yield made
    finally:
        with suppress(OSError):
            made.draft.unlink()


def _writing(path: Path) -> AbstractContextManager[None]:
    remedy = "name a file in a folder that exists and can be written, with -c FILE"
    return file_errors(f"{path} cannot be written", remedy)
