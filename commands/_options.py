"""The definitions of all options that more than one command takes, and which of them need or exclude another."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from datetime import timedelta
from enum import StrEnum
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from mmtool.commands import _completion as completion
from mmtool.errors import UsageError
from mmtool.metrics.families import Level
from mmtool.output import LogFormat, OutputFormat
from mmtool.output.console import name_file, switches

NEEDS = {
    "yes": ("execute",),
    "fence_watch": ("fence",),
    "principal_map": ("promote_acls",),
    "sign": ("html",),
    "metrics_address": ("metrics_port",),
    "metrics_level": ("metrics_port",),
    "every": ("watching",),
    "partitions": ("by_group", "group"),
    "state_dir": ("keep",),
    "from_": ("format_",),
    "as_": ("positions",),
}
"""Options that have an effect only if one of others is not at its default, in commands that have them all."""

EXCLUDE = (
    ("all_groups", "group"),
    ("all_groups", "groups"),
    ("all_groups", "unit"),
    ("once", "every"),
    ("max_lag_seconds", "watching"),
    ("max_lag_seconds", "by_group"),
    ("max_lag_seconds", "group"),
    ("refine", "reverse"),
    ("strimzi", "connect"),
    ("from_", "group"),
    ("from_", "groups"),
    ("from_", "all_groups"),
    ("as_", "output"),
    *(
        ("positions", one)
        for one in (
            *("group", "groups", "all_groups", "unit", "group_map"),
            *("topic", "csv", "allow_rewind", "execute"),
        )
    ),
    ("topics", "principal"),
)
"""Options of which one takes away the effect of the other."""


def is_given(ctx: Any, name: str | None) -> bool:
    """Whether the command line sets a parameter of the command, if only to its default."""
    source = None if name is None else ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def check_pairs(ctx: Any) -> None:
    """Check that every given option has an effect.

    Raises:
        UsageError: One has none.
    """
    known = {parameter.name: parameter for parameter in ctx.command.params}
    given = {name for name in known if is_given(ctx, name)}

    def said(name: str) -> str:
        return str(max(known[name].opts, key=len))

    for name, needed in NEEDS.items():
        if name not in given or not known.keys() >= set(needed):
            continue
        if all((ctx.params[one] or None) == (known[one].get_default(ctx) or None) for one in needed):
            raise UsageError(
                f"{said(name)} has no effect without {said(needed[0])}",
                remedy=f"add {said(needed[0])}, or leave out {said(name)}",
            )
    for one, other in EXCLUDE:
        if {one, other} <= given:
            raise UsageError(
                f"{said(one)} and {said(other)} exclude each other", remedy="leave out one of them"
            )


WHAT = "Selection"
"""Panel: which flow, which groups, which topics."""

CONSENT = "Execution"
"""Panel: what changes something."""

COMMON = "Common"
"""Panel: the same on every command."""

selection_option = partial(typer.Option, rich_help_panel=WHAT)
execution_option = partial(typer.Option, rich_help_panel=CONSENT)
_common_option = partial(typer.Option, rich_help_panel=COMMON)
"""Options of a panel."""

_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)", re.ASCII)

_LONGEST = timedelta(days=7)
"""Clients count milliseconds in 31 bits, which are 24 days."""

LOG_FORMAT_VARIABLE = "MMTOOL_LOG_FORMAT"
"""What ``--log-format`` is where the command line does not say it."""

DEFAULT_TIMEOUT = timedelta(seconds=30)


def duration(text: str | timedelta) -> timedelta:
    """A duration as operators write it: ``500ms``, ``8s``, ``2m``, ``1h``.

    Raises:
        typer.BadParameter: anything else, and zero; a bare number is refused, because its unit would be a guess.
    """
    if isinstance(text, timedelta):
        return text
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a duration: write 500ms, 8s, 2m or 1h")
    milliseconds = float(match[1]) * _MILLISECONDS[match[2]]
    if milliseconds > _LONGEST / timedelta(milliseconds=1):
        raise typer.BadParameter(f"{text!r} is too long: write {_LONGEST.days * 24}h or less")
    length = timedelta(milliseconds=milliseconds)
    if not length:
        raise typer.BadParameter(f"{text!r} is zero: write more than zero, for example 500ms or 8s")
    return length


def _count_verbose(times: int) -> int:
    switches.verbosity += times
    return times


def _set_quiet(quiet: bool) -> bool:
    switches.verbosity -= int(quiet)
    return quiet


def _set_debug(debug: bool) -> bool:
    switches.debug |= debug
    return debug


def _set_log_format(log_format: LogFormat) -> LogFormat:
    switches.log_format = log_format
    return log_format


def _set_no_color(no_color: bool) -> bool:
    switches.color &= not no_color
    return no_color


def _name_file(config: Path | None) -> Path | None:
    if config is not None:
        name_file(str(config))
    return config


def config_option(help_: str, panel: str | None = None) -> Any:
    """``-c``: the properties file that a command reads, or writes."""
    return typer.Option(
        "-c",
        "--config",
        metavar="FILE",
        envvar="MMTOOL_CONFIG",
        show_envvar=True,
        callback=_name_file,
        help=help_,
        rich_help_panel=panel,
    )


Config = Annotated[
    Path | None,
    config_option("Properties file, in the format of MirrorMaker 2's connect-mirror-maker.properties.", WHAT),
]


def _alias_option(short: str, name: str, help_: str) -> Any:
    return selection_option(short, name, metavar="ALIAS", help=help_, autocompletion=completion.aliases)


_IF_SEVERAL = "needed when several flows are enabled."
Source = Annotated[str | None, _alias_option("-s", "--source", f"Source cluster; {_IF_SEVERAL}")]
Target = Annotated[str | None, _alias_option("-t", "--target", f"Target cluster; {_IF_SEVERAL}")]
OnlySource = Annotated[
    str | None,
    _alias_option("-s", "--source", "Only flows from this source cluster. Default: every enabled flow."),
]
OnlyTarget = Annotated[
    str | None,
    _alias_option("-t", "--target", "Only flows to this target cluster. Default: every enabled flow."),
]


class OffsetFormat(StrEnum):
    """A file of offsets, by the tool that reads it."""

    KAFKA = "kafka"
    CONNECT = "connect"
    SPARK = "spark"


OFFSET_FORMATS = (
    "kafka: the file for kafka-consumer-groups --reset-offsets --from-file; connect: the JSON of Kafka Connect's PATCH"
    " /connectors/NAME/offsets, for a stopped sink connector; spark: Structured Streaming's startingOffsets"
)


def group_option(help_: str) -> Any:
    """``-g``; ``help_`` says what a command does with the groups."""
    return selection_option("-g", "--group", metavar="NAME", help=help_, autocompletion=completion.groups)


Group = Annotated[
    list[str] | None,
    group_option("Consumer group; repeatable. Overrides the keys `groups` and `groups.exclude`."),
]
Groups = Annotated[
    str | None,
    selection_option(
        "--groups",
        metavar="REGEX",
        help="Groups whose whole name matches this Java regular expression and that the keys `groups` and"
        " `groups.exclude` allow.",
    ),
]
_ALLOWED = "Every group that the keys `groups` and `groups.exclude` allow"
AllGroups = Annotated[bool, selection_option("--all-groups", help=f"{_ALLOWED}.")]
AllByDefault = Annotated[bool, selection_option("--all-groups", help=f"{_ALLOWED} (default).")]


def _unit_option(what: str) -> Any:
    """``--unit``; ``what`` says what a command takes of the unit."""
    return selection_option("--unit", metavar="NAME", help=what)


_OF_A_UNIT = (
    "Groups that the key mmtool.unit.NAME.groups names, as far as `groups` and `groups.exclude` allow them"
)
Unit = Annotated[str | None, _unit_option(f"{_OF_A_UNIT}.")]
UnitWithTopics = Annotated[
    str | None, _unit_option(f"{_OF_A_UNIT}; only topics that the key mmtool.unit.NAME.topics names.")
]


def _topic_option(default: str) -> Any:
    """``--topic``; ``default`` says which topics a command takes without it."""
    return selection_option(
        "--topic",
        metavar="NAME",
        help=f"Topic, by its name on the source; repeatable. Default: {default}",
        autocompletion=completion.topics,
    )


Topic = Annotated[list[str] | None, _topic_option("all topics of the flow.")]
ReleasedTopic = Annotated[list[str] | None, _topic_option("all failed-over topics.")]
RebuiltTopic = Annotated[
    list[str] | None,
    _topic_option(
        "all partitions whose offset runs are missing or unreadable. A named topic is rebuilt in any case."
    ),
]
ForgottenTopic = Annotated[
    list[str] | None,
    _topic_option("all topics with stored state, also those that the flow no longer mirrors."),
]
PausedTopic = Annotated[list[str] | None, _topic_option("everything that is paused.")]
Output = Annotated[OutputFormat, _common_option("-o", "--output", help="Format of the result on stdout.")]
Partitions = Annotated[
    bool,
    selection_option(
        "--partitions", help="In the table, show one row per partition of each group; JSON and CSV always do."
    ),
]
Execute = Annotated[
    bool,
    execution_option(
        "--execute", help="Execute. Without it nothing is changed: mmtool shows what would happen."
    ),
]
Yes = Annotated[
    bool,
    execution_option("--yes", help="With --execute: do not ask for confirmation; needed without a terminal."),
]
WithoutState = Annotated[
    bool,
    execution_option(
        "--without-state",
        help="Also move Kafka Streams applications whose changelog topics are not on the cluster that they move to;"
        " they lose their state.",
    ),
]
AcceptUnverified = Annotated[
    bool,
    execution_option(
        "--accept-unverified",
        help="With mmtool.mirror = external: also use offsets around which the records of the mirror were not compared"
        " with the source's; how many records are read again is unknown.",
    ),
]
AllowRewind = Annotated[
    bool,
    execution_option(
        "--allow-rewind", help="Also move groups back: replace a committed offset with a lower one."
    ),
]


@dataclass(frozen=True, slots=True)
class ChosenFlow:
    """The options of a command about one flow: the properties file, and which flow of it."""

    config: Config = None
    source: Source = None
    target: Target = None

    @property
    def words(self) -> tuple[str, ...]:
        """The options as they were given, for commands to paste."""
        said = (("-c", self.config), ("-s", self.source), ("-t", self.target))
        return tuple(word for option, value in said if value is not None for word in (option, str(value)))


@dataclass(frozen=True, slots=True)
class ChosenFlows(ChosenFlow):
    """The same of a command about all flows that ``-s`` and ``-t`` leave."""

    source: OnlySource = None
    target: OnlyTarget = None


GroupMapFile = Annotated[
    Path | None,
    selection_option(
        "--group-map",
        metavar="FILE",
        help="CSV file (source name, target name) of groups that have another name on the target; instead of the key"
        " mmtool.group.map. Names that are stored on the target count before the file.",
    ),
]


@dataclass(frozen=True, slots=True)
class ChosenGroups:
    """The options that select groups, and that give them other names on the target."""

    group: Group = None
    groups: Groups = None
    all_groups: AllGroups = False
    group_map: GroupMapFile = None


@dataclass(frozen=True, slots=True)
class AllGroupsByDefault(ChosenGroups):
    """The same of a command that takes all groups where none is named."""

    all_groups: AllByDefault = False


@dataclass(frozen=True, slots=True)
class ChosenGroupsOrUnit(ChosenGroups):
    """The options that select groups, or a unit of groups and topics."""

    unit: Unit = None


@dataclass(frozen=True, slots=True)
class Execution:
    """The options of a command that changes nothing without ``--execute``; it shows what would change, or has."""

    execute: Execute = False
    yes: Yes = False
    output: Output = OutputFormat.TABLE


def with_single_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with one parameter for each field of a parameter that is a dataclass, as Typer needs it."""
    signature = inspect.signature(command, eval_str=True)
    sets: dict[str, Any] = {
        name: one.annotation for name, one in signature.parameters.items() if is_dataclass(one.annotation)
    }
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if name not in sets:
            parameters.append(parameter)
            continue
        hints = get_type_hints(sets[name], include_extras=True)
        parameters += [
            inspect.Parameter(one.name, parameter.kind, default=one.default, annotation=hints[one.name])
            for one in fields(sets[name])
        ]

    @wraps(command)
    def run(*arguments: Any, **values: Any) -> Any:
        for name, options in sets.items():
            values[name] = options(**{one.name: values.pop(one.name) for one in fields(options)})
        return command(*arguments, **values)

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


def reason_option(what: str) -> Any:
    """``--reason`` of a command whose result keeps it; ``what`` says of what, and what shows it."""
    return typer.Option("--reason", metavar="TEXT", help=f"Reason for {what}.", show_default=False)


def duration_option(name: str, help_: str, panel: str | None = None) -> Any:
    """An option with a duration; ``help_`` says its default as well."""
    return typer.Option(
        name, metavar="DURATION", parser=duration, help=help_, show_default=False, rich_help_panel=panel
    )


def timeout_option(default: str) -> Any:
    """``--timeout`` of a command with this default, as it is typed."""
    waits = f"How long to wait for a cluster's answer, for example 500ms, 8s or 2m (default {default})."
    return duration_option("--timeout", waits, COMMON)


Timeout = Annotated[timedelta, timeout_option("30s")]
DrainTimeout = Annotated[
    timedelta | None,
    duration_option(
        "--timeout",
        "How long to wait for a cluster's answer (default 30s), and for the mirror to catch up (default: no limit);"
        " for example 8s or 2m.",
        COMMON,
    ),
]
MetricsAddress = Annotated[
    str,
    typer.Option(
        "--metrics-address",
        metavar="ADDRESS",
        help="Address to serve metrics on, without encryption or login.",
    ),
]
MetricsLevel = Annotated[
    Level,
    typer.Option(
        "--metrics-level", help="Detail of the metrics: each level has more series than the one before."
    ),
]
LOOPBACK = "127.0.0.1"


def state_dir_option(what: str, name: str) -> Any:
    """``--state-dir`` of a command that starts clusters; ``name`` is that of the default folder."""
    default = f"$XDG_STATE_HOME/mmtool/{name}, else ~/.local/state/mmtool/{name}"
    help_ = f"{what} for clusters, logs and mmtool.properties. Default: {default}."
    return typer.Option("--state-dir", metavar="DIR", help=help_)


Verbose = Annotated[
    int,
    _common_option(
        "-v",
        "--verbose",
        count=True,
        callback=_count_verbose,
        help="More messages on stderr; repeat for more.",
        show_default=False,
    ),
]
Quiet = Annotated[
    bool,
    _common_option("-q", "--quiet", callback=_set_quiet, help="Only warnings and errors on stderr."),
]
Debug = Annotated[
    bool,
    _common_option("--debug", callback=_set_debug, help="Show tracebacks."),
]
NoColor = Annotated[
    bool,
    _common_option("--no-color", callback=_set_no_color, help="No colours; NO_COLOR=1 does the same."),
]
LogFormatOption = Annotated[
    LogFormat,
    _common_option(
        "--log-format",
        callback=_set_log_format,
        envvar=LOG_FORMAT_VARIABLE,
        show_envvar=True,
        help="Format of stderr: text, or one JSON object per line.",
    ),
]
