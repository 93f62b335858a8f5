"""The questions and options of `mmtool init`, and the properties file that their answers describe."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mmtool.commands._consent import has_terminal, read_answer
from mmtool.commands._options import config_option, timeout_option
from mmtool.errors import RefusedError, UsageError
from mmtool.output import talk
from mmtool.output.console import write_err
from mmtool.plain_text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from mmtool.config.draft import Draft, DraftCluster


@dataclass(frozen=True, slots=True)
class Question:
    """One value that a command needs.

    Attributes:
        option: The option that gives it, as ``--topics``.
        text: The question, without a question mark.
        check: Returns the value as it is used; raises ValueError with the reason for a value that cannot be.
        default: Used where nothing is given; None where there is none.
    """

    option: str
    text: str
    check: Callable[[str], str]
    default: str | None = None


@dataclass(slots=True)
class Answers:
    """The values of a command's questions, in the order in which they are asked.

    Attributes:
        given: The options of the command line that answer questions, by name.
        asks: Whether the operator is asked for what is not given.
    """

    given: Mapping[str, str]
    asks: bool
    _used: set[str] = field(default_factory=set)

    def of(self, question: Question) -> str:
        """The answer.

        Raises:
            UsageError: The option's value cannot be used, or nothing gives a value that is needed.
            RefusedError: The terminal was closed.
        """
        self._used.add(question.option)
        text = self.given.get(question.option)
        if text is not None:
            return self._checked(question, text)
        if self.asks:
            return _asked(question)
        if question.default is None:
            raise UsageError(
                f"{question.option} is missing: {question.text}", remedy=f"add {question.option}"
            )
        return question.default

    def refuse_unused(self) -> None:
        """Refuse options that no question asked for, since they would be ignored.

        Raises:
            UsageError: There is one.
        """
        unused = [name for name in self.given if name not in self._used]
        if unused:
            names = ", ".join(unused)
            raise UsageError(
                f"{names} {'has' if len(unused) == 1 else 'have'} no effect with the other options",
                remedy=f"leave out {names}, or choose a protocol with SASL",
            )

    @staticmethod
    def _checked(question: Question, text: str) -> str:
        try:
            return question.check(text)
        except ValueError as error:
            raise UsageError(f"{question.option}: {error}", remedy=f"correct {question.option}") from None


def _asked(question: Question) -> str:
    """Ask until the answer can be used. A refused answer is not repeated: it may be a secret."""
    hint = "" if question.default is None else f" [{question.default}]"
    while True:
        write_err(f"{printable(question.text + hint)}: ")
        line = read_answer()
        if not line:
            write_err("\n")
            raise RefusedError(
                "the input ended before the last question: nothing was written", code="declined"
            )
        text = line.strip()
        if not text and question.default is not None:
            return question.default
        try:
            return question.check(text)
        except ValueError as error:
            talk(str(error))


Timeout = Annotated[timedelta, timeout_option("8s")]
NEW_FILE = Path("mm2.properties")
NewConfig = Annotated[Path | None, config_option(f"The file to write.  [default: {NEW_FILE}]")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
NoProbe = Annotated[
    bool,
    typer.Option("--no-probe", help="Connect to no cluster; without this option mmtool connects to both."),
]
Yes = Annotated[
    bool,
    typer.Option(
        "--yes",
        help="Ask no questions: the aliases and bootstrap servers of both clusters must be given; protocols and"
        " mechanisms have their defaults.",
    ),
]


def _side(side: str, name: str, metavar: str, what: str, *short: str) -> Any:
    option = f"--{side}-{name}" if name else f"--{side}"
    return typer.Option(*short, option, metavar=metavar, help=what, rich_help_panel=f"The {side} cluster")


_SOURCE_ALIAS = (
    "Alias that the file gives the cluster, for example east; the cluster's topics are named ALIAS.TOPIC on the target,"
    " unless you change replication.policy.class in the file."
)
_TARGET_ALIAS = "Alias that the file gives the cluster, for example west."
_SERVERS = "Bootstrap servers."
_PROTOCOL = "Security protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.  [default: PLAINTEXT]"
_MECHANISM = (
    "With SASL_PLAINTEXT or SASL_SSL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM."
    "  [default: SCRAM-SHA-512]"
)

Source = Annotated[str | None, _side("source", "", "ALIAS", _SOURCE_ALIAS, "-s")]
SourceServers = Annotated[str | None, _side("source", "servers", "HOST:PORT,...", _SERVERS)]
SourceProtocol = Annotated[str | None, _side("source", "protocol", "WORD", _PROTOCOL)]
SourceMechanism = Annotated[str | None, _side("source", "mechanism", "WORD", _MECHANISM)]
Target = Annotated[str | None, _side("target", "", "ALIAS", _TARGET_ALIAS, "-t")]
TargetServers = Annotated[str | None, _side("target", "servers", "HOST:PORT,...", _SERVERS)]
TargetProtocol = Annotated[str | None, _side("target", "protocol", "WORD", _PROTOCOL)]
TargetMechanism = Annotated[str | None, _side("target", "mechanism", "WORD", _MECHANISM)]

_SIDES = {"source": "the cluster to mirror from", "target": "the cluster to mirror to"}
_EXAMPLES = {"source": "east", "target": "west"}
REQUIRED = ("--source", "--source-servers", "--target", "--target-servers")
"""Options without which a file needs questions."""
OPTIONS = frozenset(
    f"--{side}{name}" for side in _SIDES for name in ("", "-servers", "-protocol", "-mechanism")
)
"""Every option that answers a question."""


def draft_of(path: Path, given: Mapping[str, object], *, asks: bool) -> Draft:
    """The file that the options describe; on a terminal the operator is asked for what they leave open.

    Args:
        path: The file.
        given: The value of each option; None where it is not given.
        asks: Whether questions are wanted. Where the required options are given, nothing is asked.

    Raises:
        UsageError: An option is missing, or has no effect, or its value cannot be used.
        RefusedError: The terminal was closed.
    """
    from mmtool.config.draft import Draft

    said = {name: str(value) for name, value in given.items() if name in OPTIONS and value is not None}
    missing = [name for name in REQUIRED if name not in said]
    asks = asks and bool(missing) and has_terminal()
    if missing and not asks:
        raise UsageError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing",
            remedy=f"add {', '.join(missing)}; or, to be asked for each, run `mmtool init` on a terminal without --yes",
        )
    if asks:
        talk(f"{path} is written after the last question; Enter takes the value in brackets")
    answers = Answers(said, asks)
    source = _cluster(answers, "source", _alias(answers, "source"))
    target = _cluster(answers, "target", _alias(answers, "target", taken=source.alias))
    answers.refuse_unused()
    return Draft(source, target)


def _alias(answers: Answers, side: str, taken: str | None = None) -> str:
    def check(text: str) -> str:
        from mmtool.config.aliases import why_illegal

        if why := "a value is needed" if not text else why_illegal(text):
            raise ValueError(why)
        if text == taken:
            raise ValueError(f"{text} is the alias of the source: the target needs another one")
        return text

    return answers.of(Question(f"--{side}", f"Alias of {_SIDES[side]}, for example {_EXAMPLES[side]}", check))


def _cluster(answers: Answers, side: str, alias: str) -> DraftCluster:
    from mmtool.config.draft import DraftCluster
    from mmtool.config.sasl import MECHANISMS
    from mmtool.config.security import PROTOCOLS

    servers = Question(f"--{side}-servers", f"Bootstrap servers of {alias}, as host:port,host:port", _servers)
    protocol = Question(
        f"--{side}-protocol",
        f"Security protocol of {alias}: {', '.join(PROTOCOLS)}",
        _one_of(PROTOCOLS),
        "PLAINTEXT",
    )
    mechanism = Question(
        f"--{side}-mechanism",
        f"SASL mechanism of {alias}: {', '.join(MECHANISMS)}",
        _one_of(MECHANISMS),
        "SCRAM-SHA-512",
    )
    named, spoken = answers.of(servers), answers.of(protocol)
    return DraftCluster(alias, named, spoken, answers.of(mechanism) if spoken.startswith("SASL") else None)


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("a value is needed")
    return text.strip()


def _servers(text: str) -> str:
    from mmtool.config.values import parse_servers

    try:
        return _filled(parse_servers(text).text)
    except ValueError as error:
        raise ValueError(f"expected {error}") from None


def _one_of(words: Collection[str]) -> Callable[[str], str]:
    """A check that takes one of the words, whatever its case."""

    def check(text: str) -> str:
        found = next((word for word in words if word.lower() == text.strip().lower()), None)
        if found is None:
            raise ValueError(f"expected {', '.join(words)}")
        return found

    return check
