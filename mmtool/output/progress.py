"""Show a long job on stderr: its numbered steps and its progress, live on a terminal, else as plain lines."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Self

from mmtool.events import Event, Notice, flow_fields
from mmtool.output import console, human
from mmtool.output.redaction import shown
from mmtool.plain_text import duration, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from rich.console import Console
    from rich.live import Live
    from rich.status import Status
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class ProgressSnapshot:
    """One flow at one moment.

    Attributes:
        flow: ``source->target``.
        records: Mirrored since the start of this process.
        bytes: The same, in bytes of record batches.
        records_per_second: Over the last seconds.
        bytes_per_second: Over the last seconds.
        lag_records: Between the frontiers and the source's ends, all partitions; ``None`` until each has a position.
        lag_seconds: Age of the oldest record not yet mirrored; ``None`` where that is unknown.
        eta_seconds: Until the lag is gone at the present pace; ``None`` when it is not shrinking.
        partitions: How many the flow has.
        states: How many partitions are in which state.
        silent_seconds: For how long no worker has reported, where that is too long; the figures are as old.
    """

    flow: str
    records: int
    bytes: int
    records_per_second: float
    bytes_per_second: float
    lag_records: int | None
    lag_seconds: float | None
    eta_seconds: float | None
    partitions: int
    states: Mapping[str, int]
    silent_seconds: float | None = None


@dataclass(slots=True)
class Progress:
    """Shows snapshots while a job runs; a context manager, because a live status must be removed at the end.

    Attributes:
        every: Seconds between two plain lines off a terminal. The first and, at the end, the last snapshot
            are always shown.
        clock: Seconds that only go forward.
    """

    every: float = 10.0
    clock: Callable[[], float] = time.monotonic
    _live: Live | None = None
    _next_line: float = field(default=float("-inf"))
    _unshown: Sequence[ProgressSnapshot] = ()

    def __enter__(self) -> Self:
        if console.is_watched_live():
            from rich.live import Live

            self._live = Live(
                console=_terminal(), refresh_per_second=4, transient=False, redirect_stdout=False
            )
            self._live.start()
        return self

    def show(self, snapshots: Sequence[ProgressSnapshot]) -> None:
        """Show the newest snapshots; cheap enough for several calls per second."""
        if self._live is not None:
            self._live.update(_live_table(snapshots))
            return
        self._unshown = snapshots
        if self.clock() >= self._next_line:
            self._flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            with suppress(OSError):  # the terminal is gone: the command's verdict still counts
                self._live.stop()
        self._flush()

    def _flush(self) -> None:
        for snapshot in self._unshown:
            figures = {
                one.name: getattr(snapshot, one.name) for one in fields(snapshot) if one.name != "flow"
            }
            of_flow = flow_fields(snapshot.flow)
            console.talk(Notice(line(snapshot), Event.PROGRESS, **of_flow, **figures))
        self._unshown = ()
        self._next_line = self.clock() + self.every


def line(snapshot: ProgressSnapshot) -> str:
    """A snapshot as one plain line."""
    return "  ".join((snapshot.flow, *(f"{name} {text}" for name, text in _figures(snapshot))))


def _figures(snapshot: ProgressSnapshot) -> list[tuple[str, str]]:
    return [
        ("records", human.count(snapshot.records)),
        ("rate", human.record_rate(snapshot.records_per_second)),
        ("bytes", human.byte_rate(snapshot.bytes_per_second)),
        ("lag", _lag(snapshot)),
        ("eta", human.eta(snapshot.eta_seconds)),
        ("partitions", _states(snapshot)),
    ]


def _lag(snapshot: ProgressSnapshot) -> str:
    if snapshot.silent_seconds is not None:
        return f"unknown, no worker report for {duration(snapshot.silent_seconds)}"
    if snapshot.lag_records is None:
        return "-"
    records = f"{human.count(snapshot.lag_records)} rec"
    return records if snapshot.lag_seconds is None else f"{records} {duration(snapshot.lag_seconds)}"


def _states(snapshot: ProgressSnapshot) -> str:
    counted = ", ".join(f"{number} {state}" for state, number in sorted(snapshot.states.items()) if number)
    return counted or str(snapshot.partitions)


def _live_table(snapshots: Sequence[ProgressSnapshot]) -> Table:
    from rich.table import Table
    from rich.text import Text

    status = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    status.add_column("FLOW", overflow="fold")
    for name in ("RECORDS", "RATE", "BYTES", "LAG", "ETA"):
        status.add_column(name, justify="right", no_wrap=True)
    status.add_column("PARTITIONS", overflow="fold")
    for snapshot in snapshots:
        texts = (snapshot.flow, *(text for _, text in _figures(snapshot)))
        status.add_row(*(Text(printable(text)) for text in texts))
    return status


_INDENT = "      "


@dataclass(slots=True)
class Steps:
    """Shows ``total`` steps; a context manager, because a spinner must be removed at the end.

    Attributes:
        total: How many steps there are.
        clock: Seconds that only go forward.
        title: Of the current step; empty before the first.
        number: Of the current step, counted from 1; 0 before the first.
    """

    total: int
    clock: Callable[[], float] = time.monotonic
    title: str = ""
    number: int = 0
    _began: float = 0.0
    _terminal: Console | None = None
    _spinner: Status | None = None

    def __enter__(self) -> Self:
        if console.is_watched_live():
            self._terminal = _terminal()
        return self

    def __exit__(self, *_: object) -> None:
        self._rest()

    def begin(self, title: str, why: str = "") -> None:
        """Begin the next step; ``why`` says in one sentence what it is for."""
        self._rest()
        self.number, self.title, self._began = self.number + 1, title, self.clock()
        self._print(self._event(f"[{self.number}/{self.total}] {title}", Event.STEP_STARTED), "bold")
        if why:
            self._print(f"{_INDENT}{why}", "dim")
        if self._terminal is not None:
            self._spinner = self._terminal.status("")
            self._spinner.start()

    def note(self, sentence: str) -> None:
        """Print a finding of the step, which stays on the screen."""
        self._print(f"{_INDENT}{sentence}", "")

    def live(self, sentence: str) -> None:
        """Show the step's progress: beside the spinner, without a terminal as a line."""
        if self._spinner is None:
            self.note(sentence)
            return
        from rich.text import Text

        self._spinner.update(Text(_shown(sentence)))

    def done(self, sentence: str = "done") -> None:
        """End the step, and print how long it took."""
        seconds = self.clock() - self._began
        self._rest()
        told = f"{_INDENT}{sentence} ({duration(seconds)})"
        self._print(self._event(told, Event.STEP_DONE, seconds=seconds), "green")

    def _event(self, line: str, event: Event, **fields: object) -> Notice:
        return Notice(line, event, step=self.title, number=self.number, steps=self.total, **fields)

    def _rest(self) -> None:
        if self._spinner is not None:
            self._spinner.stop()
        self._spinner = None

    def _print(self, line: str, style: str) -> None:
        if self._terminal is None:
            console.talk(line)
            return
        from rich.text import Text

        self._terminal.print(Text(_shown(line), style))


def _shown(line: str) -> str:
    return shown(line, console.switches.replaced)


def _terminal() -> Console:
    from rich.console import Console

    return Console(stderr=True, no_color=not console.color_wanted(stream_is_tty=True), highlight=False)
