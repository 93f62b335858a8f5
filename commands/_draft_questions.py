"""The questions and options of `mmtool init`, and the properties file that their answers describe."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mmtool.commands._dialogue import has_terminal, read_answer
from mmtool.commands._options import config_option, timeout_option
from mmtool.errors import RefusedError, UsageError
from mmtool.output import talk
from mmtool.output.console import write_err
from mmtool.plain_text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from mmtool.config.draft import Draft, DraftCluster, Login, Store
    from mmtool.config.placeholders import Placeholder


@dataclass(frozen=True, slots=True)
class Question:
    """One value that a command needs.

    Attributes:
        option: The option that gives it, as ``--topics``.
        text: The question, without a question mark.
        check: Returns the value as it is used; raises ValueError with the reason for a value that cannot be.
        default: Used where nothing is given; None where there is none.
        optional: Nothing is a valid answer.
    """

    option: str
    text: str
    check: Callable[[str], str]
    default: str | None = None
    optional: bool = False


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

    def of(self, question: Question) -> str | None:
        """The answer; None where an optional one is left out.

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
        if question.default is None and not question.optional:
            raise UsageError(
                f"{question.option} is missing: {question.text}", remedy=f"add {question.option}"
            )
        return question.default

    def needed(self, question: Question) -> str:
        """The answer of a question that is not optional; raises as `of`."""
        answer = self.of(question)
        assert answer is not None  # only an optional question goes without
        return answer

    def refuse_unused(self, otherwise: str) -> None:
        """Refuse options that no question asked for, since they would be ignored; ``otherwise`` completes the remedy.

        Raises:
            UsageError: There is one.
        """
        unused = [name for name in self.given if name not in self._used]
        if unused:
            names = ", ".join(unused)
            raise UsageError(
                f"{names} {'has' if len(unused) == 1 else 'have'} no effect with the other options",
                remedy=f"leave out {names}, or {otherwise}",
            )

    @staticmethod
    def _checked(question: Question, text: str) -> str:
        try:
            return question.check(text)
        except ValueError as error:
            raise UsageError(f"{question.option}: {error}", remedy=f"correct {question.option}") from None


def _asked(question: Question) -> str | None:
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
        if not text and (question.optional or question.default is not None):
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
        help="Ask no questions: the aliases and bootstrap servers of both clusters must be given; other options have"
        " their defaults.",
    ),
]
Topics = Annotated[
    str | None, typer.Option("--topics", metavar="REGEX,REGEX", help="Topics to mirror.  [default: .*]")
]
Groups = Annotated[
    str | None,
    typer.Option("--groups", metavar="REGEX,REGEX", help="Consumer groups to translate.  [default: .*]"),
]
TopicNames = Annotated[
    str | None,
    typer.Option(
        "--topic-names",
        metavar="prefixed|same",
        help="Topic names on the target: prefixed with the source's alias (east.orders), or the same as on the source."
        "  [default: prefixed]",
    ),
]


_SIDES = {"source": "the cluster to mirror from", "target": "the cluster to mirror to"}
_EXAMPLES = {"source": "east", "target": "west"}
_PLACES = "env:NAME, file:PATH:KEY or directory:PATH:FILE"
_STORES = "JKS, PKCS12 or PEM file with"
_OF_A_SIDE = {
    "servers HOST:PORT,...": "Bootstrap servers.",
    "protocol WORD": "Security protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.  [default: PLAINTEXT]",
    "mechanism WORD": "With SASL_PLAINTEXT or SASL_SSL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or"
    " AWS_MSK_IAM.  [default: SCRAM-SHA-512]",
    "user NAME": "With a mechanism other than AWS_MSK_IAM: user name; with OAUTHBEARER, client id.",
    "password-from PLACE": f"Where the password (OAUTHBEARER: client secret) is: {_PLACES}; never the password itself."
    "  [default: env:ALIAS_PASSWORD]",
    "token-endpoint URL": "With OAUTHBEARER: the token endpoint's URL.",
    "truststore FILE": f"With SSL or SASL_SSL: {_STORES} trusted certificates. Default: the system's.",
    "truststore-password-from PLACE": f"With a JKS or PKCS12 trust store: where its password is ({_PLACES})."
    "  [default: env:ALIAS_TRUSTSTORE_PASSWORD]",
    "keystore FILE": f"With SSL, not SASL_SSL: {_STORES} mmtool's key and certificate.",
    "keystore-password-from PLACE": f"With a JKS or PKCS12 key store: where its password is ({_PLACES})."
    "  [default: env:ALIAS_KEYSTORE_PASSWORD]",
}
"""The options of each cluster without `--source-` or `--target-`, each with its metavar; and their help."""
_ALIASES = {
    "source": "Alias that the file gives the cluster, for example east; unless --topic-names is same, the cluster's"
    " topics are named ALIAS.TOPIC on the target.",
    "target": "Alias that the file gives the cluster, for example west.",
}


def with_clusters(command: Any) -> Any:
    """Give a command the options of both clusters in place of its ``**clusters``."""
    signature = inspect.signature(command, eval_str=True)
    *own, _ = signature.parameters.values()
    command.__signature__ = signature.replace(parameters=[*own, *_cluster_parameters()])
    return command


def _cluster_parameters() -> Iterator[inspect.Parameter]:
    for side, alias_help in _ALIASES.items():
        yield _parameter(side, "ALIAS", alias_help, f"-{side[0]}", f"--{side}")
        for option, help_ in _OF_A_SIDE.items():
            name, metavar = option.split()
            yield _parameter(side, metavar, help_, f"--{side}-{name}")


def _parameter(side: str, metavar: str, help_: str, *names: str) -> inspect.Parameter:
    shown = typer.Option(*names, metavar=metavar, help=help_, rich_help_panel=f"The {side} cluster")
    name = names[-1].removeprefix("--").replace("-", "_")
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=None, annotation=Annotated[str | None, shown])


REQUIRED = ("--source", "--source-servers", "--target", "--target-servers")
"""Options without which a file needs questions."""


def draft_of(path: Path, given: Mapping[str, str | None], *, asks: bool) -> Draft:
    """The file that the options describe; on a terminal the operator is asked for what they leave open.

    Args:
        path: The file.
        given: The value of each option that answers a question; None where it is not given.
        asks: Whether questions are wanted. Where the required options are given, nothing is asked.

    Raises:
        UsageError: An option is missing, or has no effect, or its value cannot be used.
        RefusedError: The terminal was closed.
    """
    said = {name: value for name, value in given.items() if value is not None}
    missing = [name for name in REQUIRED if name not in said]
    asks = asks and bool(missing) and has_terminal()
    if missing and not asks:
        raise UsageError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing",
            remedy=f"add {', '.join(missing)}; or, to be asked for each, run `mmtool init` on a terminal without --yes",
        )
    if asks:
        talk(f"{path} is written after the last question; Enter takes the value in brackets")
    return _draft(Answers(said, asks))


def _draft(answers: Answers) -> Draft:
    """Ask both clusters' questions, then those of the flow."""
    from mmtool.config.draft import Draft

    source = _cluster(answers, "source", _alias(answers, "source"))
    target = _cluster(answers, "target", _alias(answers, "target", taken=source.alias))
    topics = Question(
        "--topics", "Topics to mirror, as Java regular expressions with commas between them", _patterns, ".*"
    )
    groups = Question(
        "--groups",
        "Consumer groups to translate, as Java regular expressions with commas between them",
        _patterns,
        ".*",
    )
    naming = Question(
        "--topic-names",
        f"Topic names on {target.alias}: prefixed ({source.alias}.orders) or same (orders)",
        _one_of(("prefixed", "same")),
        "prefixed",
    )
    draft = Draft(
        source, target, answers.needed(topics), answers.needed(groups), answers.needed(naming) == "same"
    )
    answers.refuse_unused(
        "choose another protocol, SASL mechanism or store: `mmtool init --help` says which options go with each"
    )
    return draft


def _alias(answers: Answers, side: str, taken: str | None = None) -> str:
    def check(text: str) -> str:
        from mmtool.config.aliases import why_illegal

        if why := "a value is needed" if not text else why_illegal(text):
            raise ValueError(why)
        if text == taken:
            raise ValueError(f"{text} is the alias of the source: the target needs another one")
        return text

    return answers.needed(
        Question(f"--{side}", f"Alias of {_SIDES[side]}, for example {_EXAMPLES[side]}", check)
    )


def _cluster(answers: Answers, side: str, alias: str) -> DraftCluster:
    from mmtool.config.draft import DraftCluster
    from mmtool.config.security import PROTOCOLS

    servers = Question(f"--{side}-servers", f"Bootstrap servers of {alias}, as host:port,host:port", _servers)
    protocol = Question(
        f"--{side}-protocol",
        f"Security protocol of {alias}: {', '.join(PROTOCOLS)}",
        _one_of(PROTOCOLS),
        "PLAINTEXT",
    )
    named, spoken = answers.needed(servers), answers.needed(protocol)
    has_tls, has_login = spoken.endswith("SSL"), spoken.startswith("SASL")
    return DraftCluster(
        alias,
        named,
        spoken,
        _login(answers, side, alias) if has_login else None,
        _store(answers, side, alias, "truststore", "Trust store") if has_tls else None,
        _store(answers, side, alias, "keystore", "Key store") if has_tls and not has_login else None,
    )


def _login(answers: Answers, side: str, alias: str) -> Login:
    from mmtool.config.draft import Login
    from mmtool.config.sasl import MECHANISMS

    mechanism = Question(
        f"--{side}-mechanism",
        f"SASL mechanism of {alias}: {', '.join(MECHANISMS)}",
        _one_of(MECHANISMS),
        "SCRAM-SHA-512",
    )
    chosen = answers.needed(mechanism)
    if chosen == "AWS_MSK_IAM":
        return Login(chosen)
    is_token = chosen == "OAUTHBEARER"
    who, what = ("Client id", "client secret") if is_token else ("User name", "password")
    user = answers.needed(Question(f"--{side}-user", f"{who} of mmtool on {alias}", _filled))
    secret = _secret(answers, f"--{side}-password-from", f"{what} of {user} on {alias}", f"{alias}_PASSWORD")
    endpoint = Question(f"--{side}-token-endpoint", f"Token endpoint of {alias}, a URL", _filled)
    return Login(chosen, user, secret, answers.needed(endpoint) if is_token else None)


def _store(answers: Answers, side: str, alias: str, kind: str, name: str) -> Store | None:
    from mmtool.config.draft import Store

    absent = "the system's trusted certificates" if kind == "truststore" else "no client certificate"
    question = Question(
        f"--{side}-{kind}",
        f"{name} of {alias}, a JKS, PKCS12 or PEM file; empty: {absent}",
        _filled,
        optional=True,
    )
    path = answers.of(question)
    if path is None:
        return None
    store = Store(path)
    if store.is_pem:
        return store
    variable = f"{alias}_{kind}_PASSWORD"
    return Store(path, _secret(answers, f"--{side}-{kind}-password-from", f"password of {path}", variable))


def _secret(answers: Answers, option: str, what: str, variable: str) -> Placeholder:
    """Where a secret is read from. It is never asked for itself."""
    from mmtool.config.placeholders import Placeholder

    def check(text: str) -> str:
        return str(Placeholder.parse(text))

    name = re.sub(r"\W|^(?=\d)", "_", variable, flags=re.ASCII).upper()
    text = f"Where mmtool reads the {what}: env:NAME, file:PATH:KEY or directory:PATH:FILE"
    return Placeholder.parse(answers.needed(Question(option, text, check, f"env:{name}")))


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


def _patterns(text: str) -> str:
    from mmtool.config.names import NameFilter, PatternRefusedError
    from mmtool.config.values import parse_list

    try:
        NameFilter(parse_list(_filled(text)))
    except PatternRefusedError as error:
        raise ValueError(str(error)) from None
    return text.strip()


def _one_of(words: Collection[str]) -> Callable[[str], str]:
    """A check that takes one of the words, whatever its case."""

    def check(text: str) -> str:
        found = next((word for word in words if word.lower() == text.strip().lower()), None)
        if found is None:
            raise ValueError(f"expected {', '.join(words)}")
        return found

    return check
