"""``mmtool init``: write the first properties file, from options and from answers on a terminal.

One table has the values of the file: the option that gives each, and the question for it if it is asked.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from mmtool.commands._dialogue import has_terminal, read_answer
from mmtool.commands._options import Output, timeout_option
from mmtool.commands.config import NEW_FILE, Force, NewConfig, check_file, not_usable_yet, tell_next_steps
from mmtool.errors import ConfigError, MmtoolError, RefusedError, UsageError, with_remedy
from mmtool.output import Column, OutputFormat, Result, finish, hide, talk
from mmtool.output.console import write_err
from mmtool.plain_text import Lines, printable

if TYPE_CHECKING:
    from mmtool.commands.config import CheckedFile
    from mmtool.config import Settings
    from mmtool.doctor.entrances import FirstContact
    from mmtool.runtime.files import NewFile

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM")
_PLACES = "env:NAME, file:PATH:KEY or directory:PATH:FILE"
_PEM = (".pem", ".crt", ".cer")

Known = dict[str, str | None]
"""Values of a cluster or of the flow by their names in the table; None: it does not apply, or nothing gives it."""
_Check = Callable[[str, Known], str]
"""Returns a value as the file has it; raises ValueError with the reason for a text that cannot be used."""


def _filled(text: str, _: Known) -> str:
    if not text.strip():
        raise ValueError("a value is needed")
    return text.strip()


def _alias(text: str, known: Known) -> str:
    from mmtool.config.aliases import why_illegal

    alias = _filled(text, known)
    if why := why_illegal(alias):
        raise ValueError(why)
    if alias == known.get("source"):
        raise ValueError(f"{alias} is the alias of the source: the target needs another one")
    return alias


def _servers(text: str, known: Known) -> str:
    from mmtool.config.values import parse_servers

    try:
        return _filled(parse_servers(text).text, known)
    except ValueError as error:
        raise ValueError(f"expected {error}") from None


def _one_of(*words: str) -> _Check:
    """A check that takes one of the words, whatever its case."""

    def check(text: str, _: Known) -> str:
        found = next((word for word in words if word.lower() == text.strip().lower()), None)
        if found is None:
            raise ValueError(f"expected {', '.join(words)}")
        return found

    return check


def _place(text: str, _: Known) -> str:
    from mmtool.config.placeholders import Placeholder

    return str(Placeholder.parse(text))


def _patterns(text: str, known: Known) -> str:
    from mmtool.config.names import NameFilter
    from mmtool.config.values import parse_list

    NameFilter(parse_list(_filled(text, known)))
    return text.strip()


def _has_user(known: Known) -> bool:
    return known["mechanism"] not in {None, "AWS_MSK_IAM"}


@dataclass(frozen=True, slots=True)
class _Value:
    """One value of the file.

    Attributes:
        name: Of its option; for a cluster without ``source-`` or ``target-``.
        metavar: Of its option.
        help: Of its option.
        check: Reads the option or the answer.
        question: Asked on a terminal, without a question mark; empty: the file has commented lines instead.
        default: Used where nothing is given; ``{ALIAS}`` stands for the cluster's alias as a variable's name.
        is_needed: Whether an option has to give it where nothing is asked.
        applies: Whether the values before it leave room for it.
    """

    name: str
    metavar: str
    help: str
    check: _Check
    question: str = ""
    default: str = ""
    is_needed: bool = False
    applies: Callable[[Known], bool] = lambda _: True


_ALIAS = "Alias that the file gives the cluster, for example"
_ALIASES = {
    "source": _Value(
        "alias",
        "ALIAS",
        f"{_ALIAS} east; unless --topic-names is same, the cluster's topics are named ALIAS.TOPIC on the target.",
        _alias,
        "Alias of the cluster to mirror from, for example east",
    ),
    "target": _Value(
        "alias", "ALIAS", f"{_ALIAS} west.", _alias, "Alias of the cluster to mirror to, for example west"
    ),
}


def _store(kind: str, when: str, content: str, *protocols: str) -> tuple[_Value, _Value]:
    """A store and its password; ``when`` and ``content`` are the help around what both kinds have in common."""
    default = f"env:{{ALIAS}}_{kind.upper()}_PASSWORD"
    return (
        _Value(
            kind,
            "FILE",
            f"{when} JKS, PKCS12 or PEM file with {content}",
            _filled,
            applies=lambda known: known["protocol"] in protocols,
        ),
        _Value(
            f"{kind}-password-from",
            "PLACE",
            f"With a JKS or PKCS12 {kind.replace('store', ' store')}: where its password is ({_PLACES})."
            f"  [default: {default.format(ALIAS='ALIAS')}]",
            _place,
            default=default,
            applies=lambda known: not (known[kind] or ".pem").lower().endswith(_PEM),
        ),
    )


_OF_A_CLUSTER = (
    _Value(
        "servers",
        "HOST:PORT,...",
        "Bootstrap servers.",
        _servers,
        "Bootstrap servers of {alias}, as host:port,host:port",
    ),
    _Value(
        "protocol",
        "WORD",
        "Security protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.  [default: PLAINTEXT]",
        _one_of(*_PROTOCOLS),
        f"Security protocol of {{alias}}: {', '.join(_PROTOCOLS)}",
        "PLAINTEXT",
    ),
    _Value(
        "mechanism",
        "WORD",
        "With SASL_PLAINTEXT or SASL_SSL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM."
        "  [default: SCRAM-SHA-512]",
        _one_of(*_MECHANISMS),
        f"SASL mechanism of {{alias}}: {', '.join(_MECHANISMS)}",
        "SCRAM-SHA-512",
        applies=lambda known: str(known["protocol"]).startswith("SASL"),
    ),
    _Value(
        "user",
        "NAME",
        "With a mechanism other than AWS_MSK_IAM: user name; with OAUTHBEARER, client id.",
        _filled,
        is_needed=True,
        applies=_has_user,
    ),
    _Value(
        "password-from",
        "PLACE",
        f"Where the password (OAUTHBEARER: client secret) is: {_PLACES}; never the password itself."
        "  [default: env:ALIAS_PASSWORD]",
        _place,
        default="env:{ALIAS}_PASSWORD",
        applies=_has_user,
    ),
    _Value(
        "token-endpoint",
        "URL",
        "With OAUTHBEARER: the token endpoint's URL.",
        _filled,
        is_needed=True,
        applies=lambda known: known["mechanism"] == "OAUTHBEARER",
    ),
    *_store(
        "truststore",
        "With SSL or SASL_SSL:",
        "trusted certificates. Default: the system's.",
        "SSL",
        "SASL_SSL",
    ),
    *_store("keystore", "With SSL, not SASL_SSL:", "mmtool's key and certificate.", "SSL"),
)
_OF_THE_FLOW = (
    _Value("topics", "REGEX,REGEX", "Topics to mirror.  [default: .*]", _patterns),
    _Value("groups", "REGEX,REGEX", "Consumer groups to translate.  [default: .*]", _patterns),
    _Value(
        "topic-names",
        "prefixed|same",
        "Topic names on the target: prefixed with the source's alias (east.orders), or the same as on the source."
        "  [default: prefixed]",
        _one_of("prefixed", "same"),
    ),
)
_REQUIRED = ("--source", "--source-servers", "--target", "--target-servers")
"""Options without which a file needs questions."""


def _with_values(command: Any) -> Any:
    """Give a command an option for each value of the table in place of its ``**values``."""
    parameters = [_parameter(_option(value.name), value, None) for value in _OF_THE_FLOW]
    for side, alias in _ALIASES.items():
        panel = f"The {side} cluster"
        parameters.append(_parameter(f"--{side}", alias, panel, f"-{side[0]}"))
        parameters += [_parameter(_option(value.name, side), value, panel) for value in _OF_A_CLUSTER]
    signature = inspect.signature(command, eval_str=True)
    *own, _ = signature.parameters.values()
    command.__signature__ = signature.replace(parameters=[*own, *parameters])
    return command


def _option(name: str, side: str = "") -> str:
    return f"--{side}-{name}" if side else f"--{name}"


def _parameter(option: str, value: _Value, panel: str | None, *short: str) -> inspect.Parameter:
    shown = typer.Option(*short, option, metavar=value.metavar, help=value.help, rich_help_panel=panel)
    name = option.removeprefix("--").replace("-", "_")
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=None, annotation=Annotated[str | None, shown])


@dataclass(slots=True)
class _Draft:
    """What the file is going to say.

    Attributes:
        source: The values of the cluster by their names in the table, and its ``id`` if its brokers told it.
        target: Likewise.
        flow: Values by key; None: the default.
    """

    source: Known
    target: Known
    flow: Known

    @property
    def sides(self) -> Mapping[Literal["source", "target"], Known]:
        return {"source": self.source, "target": self.target}

    @property
    def text(self) -> str:
        """The file: MirrorMaker 2's keys, then mmtool's. MirrorMaker 2 reads it as well."""
        from mmtool.config import token_logins
        from mmtool.config.keys import FLOW_KEYS
        from mmtool.config.placeholders import provider_declarations
        from mmtool.config.properties import escaped
        from mmtool.config.sasl import login_text
        from mmtool.output.documents import page_template

        clusters = [
            one | {"jaas": login_text(one["mechanism"], one["user"] or "mmtool", one["password-from"] or "")}
            if one["mechanism"]
            else one
            for one in self.sides.values()
        ]
        secrets = [str(text) for one in clusters for name, text in one.items() if name.endswith("-from")]
        return page_template("mmtool.config", "first_file.properties.j2", escaped).render(
            flow=f"{self.source['alias']}->{self.target['alias']}",
            clusters=clusters,
            providers=provider_declarations(secrets),
            values=self.flow,
            keys=FLOW_KEYS,
            logins=token_logins,
        )

    @property
    def outside_keys(self) -> frozenset[str]:
        """Keys that may be wrong in a new file: a login that is to be completed, or what they name is not there yet."""
        stores = [
            f"ssl.{kind}.{what}" for kind in ("truststore", "keystore") for what in ("location", "password")
        ]
        keys = ("security.protocol", "sasl.jaas.config", *stores)
        return frozenset(f"{one['alias']}.{key}" for one in self.sides.values() for key in keys)


def _draft_of(path: Path, given: dict[str, str], *, asks: bool) -> _Draft:
    """The file that the options describe; on a terminal the operator is asked for what they leave open.

    Args:
        path: The file.
        given: The options that give a value.
        asks: Whether questions are wanted. Where the required options are given, nothing is asked.

    Raises:
        UsageError: An option is missing, or has no effect, or its value cannot be used.
        RefusedError: The terminal was closed.
    """
    missing = [name for name in _REQUIRED if name not in given]
    asks = asks and bool(missing) and has_terminal()
    if missing and not asks:
        raise UsageError(
            f"options are missing: {', '.join(missing)}",
            remedy="add them; or, to be asked for each value, run `mmtool init` on a terminal without --yes",
        )
    if asks:
        talk(f"{path} is written after the last question; Enter takes the value in brackets")
    clusters: dict[str, Known] = {}
    for side, alias in _ALIASES.items():
        known: Known = {"source": clusters["source"]["alias"]} if clusters else {}
        known["alias"] = _read(alias, f"--{side}", known, given, asks=asks)
        for value in _OF_A_CLUSTER:
            known[value.name] = _read(value, _option(value.name, side), known, given, asks=asks)
        clusters[side] = known | {"id": None}
    flow: Known = {
        value.name: _read(value, _option(value.name), {}, given, asks=asks) for value in _OF_THE_FLOW
    }
    if given:
        raise UsageError(
            f"without effect beside the other options: {', '.join(given)}",
            remedy="leave them out: `mmtool init --help` says which options go with each protocol, mechanism and store",
        )
    policy = {"prefixed": "DefaultReplicationPolicy", "same": "IdentityReplicationPolicy", None: None}
    named = policy[flow.pop("topic-names")]
    flow["replication.policy.class"] = named and f"org.apache.kafka.connect.mirror.{named}"
    flow |= dict.fromkeys(_replica_keys())
    return _Draft(clusters["source"], clusters["target"], flow)


def _read(value: _Value, option: str, known: Known, given: dict[str, str], *, asks: bool) -> str | None:
    """The value that its option gives, which is taken out of ``given``, or the answer, or the default; None: none."""
    if not value.applies(known):
        return None
    alias = known.get("alias") or ""
    default = value.default.format(ALIAS=re.sub(r"\W|^(?=\d)", "_", alias, flags=re.ASCII).upper())
    if option not in given and asks and value.question:
        return _asked(value.question.format(alias=alias), default, value.check, known)
    text = given.pop(option, default or None)
    if text is None:
        if value.is_needed and not asks:
            raise UsageError(f"{option} is missing", remedy=f"add {option}")
        return None
    try:
        return value.check(text, known)
    except ValueError as error:
        raise UsageError(f"{option}: {error}", remedy=f"correct {option}") from None


def _asked(question: str, default: str, check: _Check, known: Known) -> str:
    """Ask until the answer can be used."""
    while True:
        write_err(f"{printable(question)}{f' [{default}]' if default else ''}: ")
        line = read_answer()
        if not line:
            write_err("\n")
            raise RefusedError(
                "the input ended before the last question: nothing was written", code="declined"
            )
        try:
            return check(line.strip() or default, known)
        except ValueError as error:
            talk(str(error))


_MOST_REPLICAS = 3


class FirstContactRow(NamedTuple):
    """One cluster in `mmtool init`.

    Attributes:
        cluster: The alias.
        side: Of the flow.
        bootstrap_servers: As the file has them.
        state: `answers`, `not_asked`, or the code of the error, such as `unreachable` or `not_authorised`.
        cluster_id: As its brokers report it; null where it is not known.
        brokers: How many are alive; null where it is not known.
        message: Why the cluster did not answer; empty where it did, or was not asked.
        file: The file that was written.
    """

    cluster: str
    side: Literal["source", "target"]
    bootstrap_servers: str
    state: str = "not_asked"
    cluster_id: str | None = None
    brokers: int | None = None
    message: str = ""
    file: str = ""


_COLUMNS = (
    Column("cluster"),
    Column("side"),
    Column("bootstrap_servers"),
    Column("state"),
    Column("cluster_id"),
    Column("brokers"),
    Column("message", note=True),
)
_WAYS = (
    ("mirror the records that the source holds now, then stop", ("--until-caught-up",)),
    ("mirror until stopped", ()),
)
_TIMEOUT = timedelta(seconds=8)


@_with_values
def init(
    *,
    config: NewConfig = None,
    force: Force = False,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="Ask no questions: the aliases and bootstrap servers of both clusters must be given; other options"
            " have their defaults.",
        ),
    ] = False,
    no_probe: Annotated[
        bool,
        typer.Option(
            "--no-probe", help="Connect to no cluster; without this option mmtool connects to both."
        ),
    ] = False,
    output: Output = OutputFormat.TABLE,
    timeout: Annotated[timedelta, timeout_option("8s")] = _TIMEOUT,
    **values: str | None,
) -> None:
    """Write the first properties file: from answers on a terminal or from options; connect to both clusters once.

    On a terminal, mmtool asks for aliases, servers, protocol and mechanism; the file has commented lines for the rest.
    A cluster that does not answer is reported, and the file is written all the same. A password is never written: the
    file names the environment variable or the file that holds it.
    """
    from mmtool.runtime.files import new_file

    given = {_option(name.replace("_", "-")): text for name, text in values.items() if text is not None}
    path = config or NEW_FILE
    answers: Mapping[str, FirstContact | MmtoolError] = {}
    with new_file(path, force=force) as file:
        draft = _draft_of(path, given, asks=not yes)
        checked = _check(file, draft)
        if not no_probe and checked.settings is not None:
            answers = _ask(checked.settings, timeout)
            _complete(draft, answers)
            checked = _check(file, draft)
        file.publish()
    talk(f"{path} was written")
    away = [with_remedy(answer) for answer in answers.values() if isinstance(answer, MmtoolError)]
    if checked.good_for and not away:
        talk(f"{path} {checked.good_for}")
    warnings = [*away, *checked.warnings, *checked.exposed]
    rows = [
        _row(path, side, cluster, answers.get(str(cluster["alias"])))._asdict()
        for side, cluster in draft.sides.items()
    ]
    is_open = any(str(one.key).endswith("security.protocol") for one in checked.errors)
    do = (
        f"complete the commented lines of the login in {path}"
        if is_open
        else "set the variables and provide the files that the error names"
    )
    error = not_usable_yet(path, Lines.of(finding.sentence for finding in checked.errors), do)
    finish(Result("init", rows, _COLUMNS, warnings, applied=True), output, error)
    tell_next_steps(path, _WAYS)


def _check(file: NewFile, draft: _Draft) -> CheckedFile:
    """What `mmtool config check` says of the file, by the name that it gets.

    Raises:
        UsageError: An error that is not about what the operator still has to provide.
    """
    from dataclasses import replace

    file.write(draft.text.encode())
    checked = check_file(file.draft)
    findings = [
        replace(one, path=file.path, message=one.message.replace(str(file.draft), str(file.path)))
        for one in checked.findings
    ]
    checked = replace(checked, findings=tuple(findings))
    wrong = [f for f in checked.errors if f.key not in draft.outside_keys]
    if wrong:
        raise UsageError(
            Lines.of(f"`{f.key}`{f.joint}{f.message}" if f.key else f.message for f in wrong),
            remedy="correct the options or answers; nothing was written",
        )
    if checked.refusal is not None:
        raise checked.refusal
    return checked


def _ask(settings: Settings, timeout: timedelta) -> Mapping[str, FirstContact | MmtoolError]:
    from mmtool.commands._connections import examined_clusters
    from mmtool.doctor.entrances import contact

    for secret in settings.secrets():
        hide(secret)
    talk(f"connecting to {' and '.join(settings.clusters)}")
    return contact(examined_clusters(settings, settings.flows, timeout.total_seconds()))


def _complete(draft: _Draft, answers: Mapping[str, FirstContact | MmtoolError]) -> None:
    """Add the clusters' ids, and a replication factor that both can have.

    Raises:
        ConfigError: Both aliases lead to one cluster.
    """
    known = {alias: answer for alias, answer in answers.items() if not isinstance(answer, MmtoolError)}
    for cluster in draft.sides.values():
        if (answer := known.get(str(cluster["alias"]))) is not None:
            cluster["id"] = answer.cluster_id
    if len(known) < len(draft.sides):
        return
    if draft.source["id"] == draft.target["id"]:
        raise ConfigError(
            f"{draft.source['alias']} and {draft.target['alias']} are the same cluster, {draft.source['id']}; nothing"
            " was written",
            remedy="give each alias the bootstrap servers of its own cluster",
        )
    replicas = str(min(_MOST_REPLICAS, *(answer.brokers for answer in known.values())))
    draft.flow |= dict.fromkeys(_replica_keys(), replicas)


def _replica_keys() -> list[str]:
    from mmtool.config.keys import FLOW_KEYS

    return [name for name, key in FLOW_KEYS.items() if key.kind == "replicas"]


def _row(
    path: Path, side: Literal["source", "target"], cluster: Known, answer: FirstContact | MmtoolError | None
) -> FirstContactRow:
    row = FirstContactRow(str(cluster["alias"]), side, str(cluster["servers"]), file=str(path))
    if answer is None:
        return row
    if isinstance(answer, MmtoolError):
        return row._replace(state=answer.code, message=answer.message)
    return row._replace(state="answers", cluster_id=answer.cluster_id, brokers=answer.brokers)
