"""Plain-text help for every command, with examples, common switches, and the nearest name of a mistyped one."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Iterator, Mapping
from textwrap import wrap
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from mmtool.commands._options import (
    COMMON,
    Debug,
    LogFormatOption,
    NoColor,
    Quiet,
    Verbose,
    check_pairs,
    with_single_options,
)
from mmtool.errors import RefusedError, StoppedError, UsageError
from mmtool.output import LogFormat, write
from mmtool.output.console import switches
from mmtool.plain_text import did_you_mean, nearest

_OPERATION = "20260131T120000Z-5eed01"
_EXAMPLES = (
    "replicate -c mm2.properties --until-caught-up",
    "translate-offsets -c mm2.properties -g app",
    "groups audit -c mm2.properties --all-groups",
    "groups sync -c mm2.properties --all-groups",
    "groups export -c mm2.properties -g app",
    "groups import offsets.csv -c mm2.properties -g app",
    "failover planned -c mm2.properties -g app --out plan.json",
    "failover emergency -c mm2.properties --all-groups",
    "failover failback -c mm2.properties --all-groups",
    "failover drill -c mm2.properties --all-groups",
    "failover list -c mm2.properties",
    f"failover show {_OPERATION} -c mm2.properties",
    f"failover resume {_OPERATION} -c mm2.properties",
    f"failover cancel {_OPERATION} -c mm2.properties",
    f"failover rollback {_OPERATION} -c mm2.properties",
    "failover release -c mm2.properties --topic orders",
    "flow seek -c mm2.properties --topic orders --to 2026-01-31T12:00:00Z",
    "flow forget -c mm2.properties --topic orders",
    "flow rebuild -c mm2.properties --topic orders",
    "flow pause -c mm2.properties --topic orders",
    "flow resume -c mm2.properties --topic orders",
    "status -c mm2.properties --groups",
    "verify -c mm2.properties --topic orders",
    "evidence verify drill.html --key ann.pub",
    "doctor -c mm2.properties",
    "init -s east --source-servers east-1:9092 -t west --target-servers west-1:9092",
    "config check -c mm2.properties",
    "config show -c mm2.properties",
    "config import --strimzi mirror-maker-2.yaml",
    "transform try -c mm2.properties --topic orders --records 20",
    "acls -c mm2.properties --for replicate --format kafka-acls --principal User:mmtool",
    "metrics -c mm2.properties --port 9404",
    "demo --keep",
    "lab up --clusters east,west",
    "lab down --keep-data",
    "lab status",
    "smoke -c mm2.properties --timeout 1m",
)


def examples_of(command: str) -> list[str]:
    """The example of a command, or those of a group's commands, by its words without ``mmtool``; may be empty."""
    return [line for line in _EXAMPLES if f"{line} ".startswith(f"{command} ")]


def suggested_commands(group: Any, path: str, word: str) -> list[str]:
    """The commands that may be meant, as they are typed: the nearest of the group, or those of this name elsewhere.

    Args:
        group: The group that has no such command.
        path: How the group is called, as ``mmtool failover``.
        word: What was typed.
    """
    elsewhere = [one for one, _ in _every_command(group, path) if one.split()[-1] == word.lower()]
    verb = nearest(word, group.commands)
    return elsewhere or ([] if verb is None else [f"{path} {verb}"])


def with_options_last(command: Any, arguments: Iterable[str], option: str) -> list[str] | None:
    """The words of a command line with the options behind the command; None where the command lacks the option."""
    names, others = [], []
    for word in arguments:
        if word in getattr(command, "commands", ()):
            command = command.commands[word]
            names.append(word)
        else:
            others.append(word)
    has_option = any(option in parameter.opts for parameter in command.params)
    return [*names, *others] if has_option else None


def _every_command(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every command below a group, as it is typed, groups before their verbs."""
    commands: Mapping[str, Any] = getattr(group, "commands", {})
    for name in commands:
        yield f"{path} {name}", commands[name]
        yield from _every_command(commands[name], f"{path} {name}")


class _Helpful:
    """``--help`` is a result like any other: what keeps it from stdout is said in our words."""

    def get_help_option(self, ctx: Any) -> Any:
        """Typer's own, which writes by itself, with our way of writing."""
        option = super().get_help_option(ctx)  # type: ignore[misc]  # Typer's classes stand behind this one
        if option is not None:
            option.callback = _show_help
        return option


class MmtoolCommand(_Helpful, TyperCommand):
    """A command with the common switches, options grouped by panel, and mmtool's errors for those of Typer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        named = {option for parameter in self.params for option in parameter.opts}
        self.params += [switch for switch in _switches() if not named.intersection(switch.opts)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options; one without an effect is refused."""
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            check_pairs(ctx)
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run it; Ctrl-C and a declined prompt become errors of our tree, with its exit codes."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise StoppedError(signal.SIGINT) from None
        except typer.Abort:
            raise RefusedError("declined: nothing was changed", code="declined") from None

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_options(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """An example that can be typed as it stands."""
        write_example(ctx, formatter)


class MmtoolGroup(_Helpful, TyperGroup):
    """A group of verbs; called without one it shows its help on stderr and counts as a usage error."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs | {"no_args_is_help": False, "suggest_commands": False})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the group's own options."""
        if not args and not ctx.resilient_parsing and not self.invoke_without_command:
            if switches.logs:
                raise UsageError("no command was given", remedy=f"see `{ctx.command_path} --help`")
            typer.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; for a mistyped one, name the nearest."""
        word = args[0]
        if ctx.resilient_parsing or word.startswith("-") or self.get_command(ctx, word) is not None:
            return super().resolve_command(ctx, args)
        meant = suggested_commands(self, ctx.command_path, word)
        question = did_you_mean(f"`{one}`" for one in meant)
        shown = meant[0] if len(meant) == 1 else ctx.command_path
        raise UsageError(f"no such command '{word}'{question}", remedy=f"see `{shown} --help`")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)
        write_options(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """An example of one of its commands."""
        write_example(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the signature is Typer's
        """Every verb with the whole first sentence of its help; Typer would cut it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, first_sentence(verb.help)) for name, verb in self.commands.items()])


def dress(app: typer.Typer) -> typer.Typer:
    """Give a group's commands, at any depth, our class."""
    for command in app.registered_commands:
        command.cls = MmtoolCommand
        if command.callback is not None:
            command.callback = with_single_options(command.callback)
    for group in app.registered_groups:
        group.cls = MmtoolGroup
        if group.typer_instance is not None:
            dress(group.typer_instance)
    return app


def first_sentence(text: str | None) -> str:
    """What stands in a list of commands: the first paragraph's first sentence, without its full stop."""
    paragraph = " ".join((text or "").split("\n\n")[0].split())
    return re.split(r"\.(?= |$)", paragraph)[0]


def write_example(ctx: Any, formatter: Any) -> None:
    """The command's examples; a long one is continued with a backslash."""
    lines = examples_of(ctx.command_path.removeprefix("mmtool "))
    if lines:
        shown = "\n".join(continued(f"mmtool {line}", formatter.width) for line in lines)
        formatter.write(f"\nExample{'s' if len(lines) > 1 else ''}:\n{shown}\n")


def continued(line: str, width: int) -> str:
    """A command line, indented, over as many lines as a terminal needs; it can be pasted as a whole."""
    lines = wrap(
        line,
        width - 4,
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return " \\\n".join(lines)


def write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """One section per panel: arguments, the command's own options, then the shared panels."""
    for title, records in sections_of(command, ctx).items():
        with formatter.section(title):
            formatter.write_dl(records)


def sections_of(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """The names and meanings of arguments and options, by panel; the shared panel is the last."""
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        if (record := parameter.get_help_record(ctx)) is not None:
            is_argument, (name, meaning) = parameter.param_type_name == "argument", record
            if is_argument:  # as in the usage line: Typer adds ``<str>`` or ``<list[Path]>``
                name = name.partition(" <")[0]
            panel = getattr(parameter, "rich_help_panel", None) or ("Arguments" if is_argument else "Options")
            panel = COMMON if "--help" in parameter.opts else panel
            sections.setdefault(panel, []).append((name, meaning))
    common = sections.pop(COMMON, [])
    return {title: records for title, records in (*sections.items(), (COMMON, common)) if records}


def _show_help(ctx: Any, _: Any, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        write(f"{ctx.get_help()}\n", applied=False)
        ctx.exit()


def _switches() -> list[Any]:
    app = typer.Typer(add_completion=False)

    @app.command()
    def _template(
        verbose: Verbose = 0,
        quiet: Quiet = False,
        debug: Debug = False,
        no_color: NoColor = False,
        log_format: LogFormatOption = LogFormat.TEXT,
    ) -> None:
        """Only its options are taken."""

    common = list(typer.main.get_command(app).params)
    for switch in common:
        switch.expose_value = False
    return common
