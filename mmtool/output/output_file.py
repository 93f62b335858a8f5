"""A file that a command writes at its end: opened first, so that a finished command can write it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import CheckFailedError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


def claim(path: Path, option: str) -> None:
    """Create an empty file, so that an unwritable path is reported before the command's work.

    Args:
        path: The file.
        option: The option that named it, as ``--html``.

    Raises:
        UsageError: The file cannot be written.
    """
    try:
        path.write_bytes(b"")
    except OSError as error:
        raise UsageError(
            f"{option} {path} cannot be written: {error.strerror or error}",
            remedy="name a file in a folder that exists and can be written",
        ) from error


def write_claimed(path: Path, content: bytes, what: str, *, over: str, remedy: str) -> None:
    """Write the content of a claimed file.

    Args:
        path: The file that `claim` created.
        content: The whole content.
        what: The file in words, as ``the page``.
        over: The work that has ended by then, in words.
        remedy: The error's remedy.

    Raises:
        CheckFailedError: The file can no longer be written.
    """
    try:
        path.write_bytes(content)
    except OSError as error:
        raise CheckFailedError(
            f"{what} cannot be written to {path}: {error.strerror or error}; {over} is not affected",
            remedy=remedy,
        ) from error
