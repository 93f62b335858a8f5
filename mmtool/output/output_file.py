"""A file that a command writes at its end: opened first, so that a finished command can write it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import CheckFailedError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


def claim(path: Path, option: str) -> None:
    """Leave an empty file.

    Args:
        path: Which file.
        option: What named it, as ``--html``.

    Raises:
        UsageError: The file cannot be written.
    """
    try:
        path.write_bytes(b"")
    except OSError as error:
        raise UsageError(
            f"{option} {path}: {error.strerror or error}",
            remedy="name a file in a folder that can be written",
        ) from error


def write_claimed(path: Path, content: bytes, what: str, *, over: str, remedy: str) -> None:
    """Write all of it.

    Args:
        path: That was claimed.
        content: What the file is to hold.
        what: The file in words, as ``the page``.
        over: What has been done by then, in words.
        remedy: What helps.

    Raises:
        CheckFailedError: The file cannot be written any more.
    """
    try:
        path.write_bytes(content)
    except OSError as error:
        raise CheckFailedError(
            f"{what} cannot be written to {path}: {error.strerror or error}; {over} is not affected",
            remedy=remedy,
        ) from error
