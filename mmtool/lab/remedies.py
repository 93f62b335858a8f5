"""Remedies that several parts of the lab share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.plain_text import shell_word

if TYPE_CHECKING:
    from pathlib import Path


def down_command(directory: Path) -> str:
    """The command that stops the lab of a state directory and deletes its clusters."""
    return f"`mmtool lab down --state-dir {shell_word(str(directory))}`"
