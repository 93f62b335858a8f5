"""The questions of `mmtool init`, and the properties file that their answers describe."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mmtool.commands._consent import has_terminal
from mmtool.commands._questions import Answers, Question
from mmtool.errors import UsageError
from mmtool.output import talk

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from mmtool.config.draft import Draft, DraftCluster, Login, Store
    from mmtool.config.placeholders import Placeholder

_SIDES = {"source": "the cluster to mirror from", "target": "the cluster to mirror to"}
_EXAMPLES = {"source": "east", "target": "west"}
REQUIRED = ("--source", "--source-servers", "--target", "--target-servers")
"""Options without which a file needs questions."""
_OF_A_SIDE = (
    "servers protocol mechanism user password-from token-endpoint"
    " truststore truststore-password-from keystore keystore-password-from"
)
OPTIONS = frozenset(
    {
        *("--topics", "--groups", "--topic-names", "--source", "--target"),
        *(f"--{side}-{name}" for side in _SIDES for name in _OF_A_SIDE.split()),
    }
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
    from mmtool.config.servers import parse_servers

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
