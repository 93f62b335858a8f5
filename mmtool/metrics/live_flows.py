"""The settings of flows for a command that only reads: their credentials follow the files that they were read from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.config.changes import compare
from mmtool.config.live import FileWatch, first_problem
from mmtool.errors import MmtoolError
from mmtool.events import Event, Notice

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.config.live import LiveFile


class LiveFlows:
    """The flows of a file, always the same ones.

    Args:
        file: The file; read here for the first time.
        warn: Called once with why a changed file is not used.

    Attributes:
        settings: The settings in force now.

    Raises:
        UsageError: The file cannot be used.
    """

    def __init__(self, file: LiveFile, warn: Callable[[str], None]) -> None:
        self._file = file
        self._warn = warn
        self._watch = FileWatch(file.path)
        self.settings = file.load().flows
        self._watch.follow(file.files, also_earlier=False)

    def look(self) -> None:
        """Read the files again if one has changed; call it about twice a second."""
        if not self._watch.is_due():
            return
        chosen = None
        try:
            chosen = self._file.load()
        except MmtoolError as error:
            said = f"{first_problem(error)}; the old configuration stays in force"
            self._warn(Notice(said, Event.CONFIG_REFUSED))
        self._watch.follow(self._file.files, also_earlier=chosen is None)
        if chosen is not None:
            new = {flow.name: flow for flow in chosen.flows}
            self.settings = tuple(compare(flow, new.get(flow.name, flow)).settings for flow in self.settings)
