"""Messages of commands that have committed offsets: how to restore the previous ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.output import talk
from mmtool.plain_text import shell_line

if TYPE_CHECKING:
    from pathlib import Path

    from mmtool.config import FlowSettings
    from mmtool.failover.commits.move import Moved


def say_undo(ended: Moved, flow: FlowSettings, config: Path | None) -> None:
    """The command that puts back what was replaced; nothing where nothing was."""
    if ended.undo is None:
        return
    file = [] if config is None else ["-c", str(config)]
    words = ["mmtool", "groups", "import", *file, "-s", flow.source.alias, "-t", flow.target.alias]
    talk("to restore the previous offsets:")
    talk(f"   {shell_line([*words, str(ended.undo), '--execute'])}")
