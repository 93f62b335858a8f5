"""Reload the properties file of a running engine, and the files that it names, when one changes, and on SIGHUP."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.config.changes import Changes, compare
from mmtool.config.live import Chosen, FileWatch, LiveFile, first_problem
from mmtool.errors import MmtoolError
from mmtool.events import Event, Notice
from mmtool.runtime.threads import came_within, in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mmtool.config import FlowSettings
    from mmtool.replication.driver.supervisor import FlowSupervisor

_LOOK_SECONDS = 0.5
_STAYS = "the old configuration stays in force"


@dataclass(slots=True)
class Reloader:
    """Watches the properties file of a running engine and the files that it names, and applies what has changed.

    Attributes:
        file: The file.
        flows: Applies the changes.
        say: Called with what was applied.
        warn: Called with what was not.
        asked: Set it to have the file read at once.
    """

    file: LiveFile
    flows: FlowSupervisor
    say: Callable[[str], None]
    warn: Callable[[str], None]
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    _watch: FileWatch = field(init=False)
    _complaint: str = ""
    _waits: str = ""

    def __post_init__(self) -> None:
        self._watch = FileWatch(self.file.path)

    async def run(self) -> None:
        """Reload the files when one changes, until cancelled; the first time when the engine owns its flows."""
        await self.flows.ready.wait()
        while True:
            asked = self.asked.is_set()
            self.asked.clear()
            if asked:
                self._watch.taken()
            if asked or self._watch.is_due():
                await self._reload(asked=asked)
            await came_within(_LOOK_SECONDS, self.asked.wait())

    async def _reload(self, *, asked: bool) -> None:
        chosen = await self._read(asked=asked)
        if chosen is None:
            return
        refused, self._complaint = self._complaint, ""
        # a flow that the file no longer enables keeps its settings
        new = {flow.name: flow for flow in chosen.flows}
        changes = {flow.name: compare(flow, new.get(flow.name, flow)) for flow in self.flows.settings}
        try:
            await self.flows.adopt(changes, self._beating(chosen))
        except Exception as error:  # noqa: BLE001  who ends here hears of no later change and of no SIGHUP
            name = type(error).__name__
            said = (
                f"{self.file.path} was applied in part ({name}): restart `mmtool replicate` to apply the rest"
            )
            self.warn(Notice(said, Event.CONFIG_REFUSED))
            return
        applied = [f"changed in {flow}: {', '.join(c.applied)}" for flow, c in changes.items() if c.applied]
        if applied:
            said = f"{self.file.path} reloaded: {'; '.join(applied)}"
            self.say(Notice(said, Event.CONFIG_RELOADED, changes={f: c.applied for f, c in changes.items()}))
        elif asked or refused:
            said = f"{self.file.path} reloaded: no change for the running flows"
            self.say(Notice(said, Event.CONFIG_RELOADED))
        self._tell_waiting(chosen, changes)

    async def _read(self, *, asked: bool) -> Chosen | None:
        """Read the files; None where they cannot be used, which is reported."""
        chosen, why = None, ""
        try:
            chosen = await in_thread(self.file.load)
        except MmtoolError as error:
            why = first_problem(error)
        except Exception as error:  # noqa: BLE001  no file may end a flow that runs
            why = f"{self.file.path}: {type(error).__name__}"
        self._watch.follow(self.file.files, also_earlier=chosen is None)
        if chosen is None:
            if asked or why != self._complaint:  # once, and to each operator who asked
                self.warn(Notice(f"{why}; {_STAYS}", Event.CONFIG_REFUSED))
            self._complaint = why
        return chosen

    def _beating(self, chosen: Chosen) -> list[FlowSettings]:
        """The pairs of clusters that get heartbeats only, and pairs that became flows but are not started as such."""
        before = {pair.name: pair for pair in self.flows.heartbeats_only}
        begun = [flow for flow in chosen.flows if flow.name in before and flow.emit_heartbeats]
        pairs = (*chosen.heartbeats_only, *begun)
        running = {flow.name for flow in self.flows.settings}
        return [
            compare(before[pair.name], pair).settings if pair.name in before else pair
            for pair in pairs
            if pair.name not in running
        ]

    def _tell_waiting(self, chosen: Chosen, changes: Mapping[str, Changes]) -> None:
        """Report, once per set of differences, what the file says and the running process does not do."""
        before, now = ({flow.name for flow in flows} for flows in (self.flows.settings, chosen.flows))
        start = "the next start of `mmtool replicate`"
        sentences = [f"flow {name} is new: it starts at {start}" for name in sorted(now - before)]
        sentences += [
            f"flow {name} is no longer enabled: it runs until {start}" for name in sorted(before - now)
        ]
        for flow, c in changes.items():
            if c.waiting:
                sentences.append(f"{flow}: {start} applies the changes of {', '.join(c.waiting)}")
            if c.fixed:
                sentences.append(
                    f"{flow}: {', '.join(c.fixed)} cannot change after the flow's first start: the old value stays in"
                    " force; nothing has to be done"
                )
        waits = "; ".join(sentences)
        if waits and waits != self._waits:
            self.warn(Notice(f"{self.file.path}: {waits}", Event.CONFIG_REFUSED))
        self._waits = waits
