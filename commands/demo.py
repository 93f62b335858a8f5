"""``mmtool demo``: the tour, with the proof at its end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mmtool.commands._options import Output, state_dir_option
from mmtool.output import Column, OutputFormat, Result, finish, talk

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from mmtool.lab.demo_story import TwoClusters
    from mmtool.lab.state import StateDirectory

Keep = Annotated[bool, typer.Option("--keep", help="Leave the clusters running, and show what to try next.")]
StateDir = Annotated[Path | None, state_dir_option("With --keep: folder", "demo")]

COLUMNS = (
    Column("group"),
    Column("read_on_east"),
    Column("read_on_west"),
    Column("committed_records"),
    Column("skipped"),
    Column("reread", "RE-READ"),
    Column("verdict"),
)


def demo(*, keep: Keep = False, state_dir: StateDir = None, output: Output = OutputFormat.TABLE) -> None:
    """Run a tour on two clusters on this host: replication, a planned failover, and a check that nothing is lost."""
    from mmtool.lab import demo_story
    from mmtool.lab.state import StateDirectory, default_directory

    if not keep:
        with demo_story.folder() as folder:
            _play(demo_story.temporary(folder), folder, output)
        return
    directory = StateDirectory((state_dir or default_directory().with_name("demo")).absolute())
    _play(demo_story.kept(directory), directory.path, output)
    _tell_next_steps(directory)


def _play(stage: AbstractContextManager[TwoClusters], logs: Path, output: OutputFormat) -> None:
    from mmtool.lab.demo_story import STEPS, tour
    from mmtool.output.progress import Steps

    with Steps(STEPS) as steps:
        done = tour(stage, logs, steps)
    finish(Result("demo", done.rows, COLUMNS, applied=True), output, done.error)
    talk(done.summary)


def _tell_next_steps(directory: StateDirectory) -> None:
    talk("the clusters keep running; try next:")
    talk(f"  export MMTOOL_CONFIG={directory.properties}")
    talk("  mmtool translate-offsets -g shipping --reverse    show where shipping would continue on east")
    talk("  mmtool translate-offsets -g shipping              refused: shipping has read further on west")
    talk("  mmtool replicate                                  mirror new records of east, until Ctrl-C")
    talk("  mmtool config show                                every setting, and where it comes from")
    talk(f"  mmtool lab status --state-dir {directory.path}")
    talk(f"  mmtool lab down --state-dir {directory.path}")
