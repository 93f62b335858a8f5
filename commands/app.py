"""``mmtool``: the root command, and the entry point of the process."""

from __future__ import annotations

import gc
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from mmtool import __version__
from mmtool.commands._completion import VARIABLE, quietly
from mmtool.commands._help import MmtoolCommand, MmtoolGroup, dress, with_options_last, write_options
from mmtool.commands._options import LOG_FORMAT_VARIABLE, with_single_options
from mmtool.errors import UsageError
from mmtool.output import LogFormat, OutputFormat, handle_failures, write
from mmtool.plain_text import did_you_mean, shell_line


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One line of ``mmtool --help``.

    Attributes:
        name: The name on the command line.
        panel: The heading under which help shows it.
        help: One short sentence, without a full stop.
        group: The module holds ``app``, a ``typer.Typer`` with verbs of its own. Otherwise it holds a
            function with the command's name (``-`` written ``_``).
    """

    name: str
    panel: str
    help: str
    group: bool = False

    @property
    def module(self) -> str:
        return f"mmtool.commands.{self.symbol}"

    @property
    def symbol(self) -> str:
        return self.name.replace("-", "_")


@cache
def load(entry: CommandEntry) -> Any:
    """A command, ready to run; imports its module. One object per process: a command keeps no state."""
    module = import_module(entry.module)
    root = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    root.callback()(_nothing)
    if entry.group:
        root.add_typer(dress(module.app), name=entry.name, cls=MmtoolGroup, help=f"{entry.help}.")
    else:
        command = with_single_options(getattr(module, entry.symbol))
        root.command(entry.name, cls=MmtoolCommand)(command)
    group: Any = typer.main.get_command(root)
    return group.commands[entry.name]


class CommandTable(Mapping[str, Any]):
    """Commands by name, each imported at its first use."""

    def __init__(self, entries: tuple[CommandEntry, ...]) -> None:
        self.entries = {entry.name: entry for entry in entries if find_spec(entry.module)}

    def __getitem__(self, name: str) -> Any:
        return load(self.entries[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


def _nothing() -> None:
    """A Typer with a callback is a group, even around one command."""


MOVE = "Replicate and fail over"
SET_UP = "Set up"
LOOK = "Inspect"
TRY = "Try it"

_COLLECTED = (50_000, 20, 20)
"""How often Python looks for cycles: the offsets of thousands of groups are millions of objects that have none."""

COMMANDS = (
    CommandEntry("replicate", MOVE, "Run the flows of the configuration until stopped"),
    CommandEntry("translate-offsets", MOVE, "Translate committed offsets, or --execute them"),
    CommandEntry("groups", MOVE, "Audit, sync, export and import consumer groups", group=True),
    CommandEntry("failover", MOVE, "Plan failovers of consumer groups, or --execute them", group=True),
    CommandEntry(
        "flow",
        MOVE,
        "Pause or resume a flow; rehearse changes of its stored state, or --execute them",
        group=True,
    ),
    CommandEntry("init", SET_UP, "Write the first properties file"),
    CommandEntry("config", SET_UP, "Check, show or import the properties file", group=True),
    CommandEntry("transform", SET_UP, "Try a flow's transforms on records of a topic", group=True),
    CommandEntry("doctor", SET_UP, "Check clusters, rights and configuration"),
    CommandEntry("acls", SET_UP, "Print the ACLs or the topics that mmtool needs"),
    CommandEntry("status", LOOK, "Show lag and state of flows, or of groups with --groups"),
    CommandEntry("verify", LOOK, "Compare source and target record by record"),
    CommandEntry("evidence", LOOK, "Check the signed page of a failover, drill or verify", group=True),
    CommandEntry("metrics", LOOK, "Serve Prometheus metrics"),
    CommandEntry(
        "demo", TRY, "Run a tour: two clusters, replication, a failover, and a check for lost records"
    ),
    CommandEntry("lab", TRY, "Start, list and stop embedded Kafka clusters", group=True),
    CommandEntry("smoke", TRY, "Test a flow end to end with a canary record, for CI"),
)
"""One line per command; a line whose module is not there is not shown."""

EXAMPLES = """\
  mmtool demo                                       tour on two local clusters
  mmtool replicate -c mm2.properties                run the flows of the file
  mmtool failover planned -c mm2.properties -g app  plan to move group app
"""


class Root(MmtoolGroup):
    """The root command: finds commands in the table, and shows them by panel with examples."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.commands: CommandTable = CommandTable(COMMANDS)  # type: ignore[assignment]  # a group only reads it

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature is Typer's
        """Names only; nothing is loaded."""
        return list(self.commands)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """The names and help of the table; no command is loaded for a TAB."""
        self.commands = {entry.name: TyperCommand(entry.name, help=entry.help) for entry in COMMANDS}  # type: ignore[assignment]
        return super().shell_complete(ctx, incomplete)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Commands by panel, then the options."""
        names = max(map(len, self.commands), default=0)
        for panel in dict.fromkeys(entry.panel for entry in self.commands.entries.values()):
            with formatter.section(panel):
                formatter.write_dl(
                    [
                        (e.name.ljust(names), e.help)
                        for e in self.commands.entries.values()
                        if e.panel == panel
                    ]
                )
        write_options(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the signature is Typer's
        """Three examples."""
        formatter.write(f"\nExamples:\n{EXAMPLES}")


app = typer.Typer(
    name="mmtool",
    cls=Root,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,  # they print values, and values may be secrets
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        write(f"mmtool {__version__}\n", applied=False)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Replicate Kafka topics on Spark, translate consumer-group offsets exactly, and fail groups over."""


@dataclass(frozen=True, slots=True)
class Early:
    """The options that the error handler needs even when the command line cannot be parsed.

    Attributes:
        command: The words of the command line that name a command.
        output: The value of ``-o`` or ``--format``, wherever it is.
        debug: Whether ``--debug`` is given anywhere.
        log_format: The value of ``--log-format``, wherever it is, or else of the environment.
    """

    command: str
    output: OutputFormat
    debug: bool
    log_format: LogFormat = LogFormat.TEXT

    @classmethod
    def of(cls, arguments: Sequence[str]) -> Early:
        """Read it from the bare arguments; what is not understood counts as not said."""
        ours = list(arguments)[: arguments.index("--")] if "--" in arguments else list(arguments)
        entry = next((entry for entry in COMMANDS if ours[:1] == [entry.name]), None)
        verbs = [word for word in ours[1:2] if entry and entry.group and not word.startswith("-")]
        line = "\0".join(ours)
        outputs = re.findall(r"(?:^|\0)(?:-[vq]*o\0?|--(?:output|format)[=\0])([a-z]+)(?=\0|$)", line)
        formats = re.findall(r"(?:^|\0)--log-format[=\0]([a-z]+)(?=\0|$)", line)
        output = [OutputFormat.TABLE, *(word for word in outputs if word in set(OutputFormat))][-1]
        from_environ = os.environ.get(LOG_FORMAT_VARIABLE)
        named = [word for word in (from_environ, *formats) if word in set(LogFormat)]
        return cls(
            " ".join([entry.name if entry else "mmtool", *verbs]),
            OutputFormat(output),
            "--debug" in ours,
            LogFormat([LogFormat.TEXT, *named][-1]),
        )


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line, by default this process's own, and end with the contract's exit code.

    Raises:
        SystemExit: always.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    gc.set_threshold(*_COLLECTED)
    if VARIABLE in os.environ:
        raise SystemExit(quietly(lambda: _run(arguments)))
    early = Early.of(arguments)
    if early.log_format is LogFormat.JSON:
        from mmtool.output.library_logs import log_what_others_tell

        log_what_others_tell(debug=early.debug)
    elif not early.debug:
        keep_libraries_quiet()
    with handle_failures(early.command, early.output, debug=early.debug, log_format=early.log_format):
        raise SystemExit(_run(arguments))


def keep_libraries_quiet() -> None:
    """What a library logs, with its traceback, is for ``--debug``: what matters of it is told by a line of ours.

    Where nobody handles a record, Python itself shows it on stderr.
    """
    logging.getLogger().addHandler(logging.NullHandler())


def _run(arguments: Sequence[str]) -> int:
    command: Any = typer.main.get_command(app)
    try:
        ended = command.main(args=list(arguments), prog_name="mmtool", standalone_mode=False)
    except typer.TyperException as error:
        raise _usage_error(error, command, arguments) from None
    return ended if isinstance(ended, int) else 0


def _usage_error(error: typer.TyperException, root: Any, arguments: Sequence[str]) -> UsageError:
    message = " ".join(error.format_message().split()).rstrip(".")
    for theirs, plain in _PLAIN:
        message = re.sub(theirs, plain, message)
    context: Any = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "mmtool"
    remedy = f"see `{path} --help`"
    if (option := getattr(error, "option_name", None)) is not None and hasattr(error, "possibilities"):
        message = f"no such option: {option}"
        message += did_you_mean((error.possibilities or ())[:1])  # the most similar one is the first
        if not error.possibilities and (words := with_options_last(root, arguments, option)):
            remedy = f"write options after the command: `{shell_line(['mmtool', *words])}`"
    return UsageError(message[:1].lower() + message[1:], remedy=remedy)


_PLAIN = (
    (r"Value error, ", ""),
    (r"Input should be greater than or equal to (\S+)", r"must be \1 or more"),
    (r"Input should be less than or equal to (\S+)", r"must be \1 or less"),
    (r"Input should be a valid integer\b.*", "must be a whole number"),
)
"""What the library behind Typer says of a value, and the same as an operator would."""
