"""Load a properties file as ``Settings``: read, resolve placeholders, expand scopes, check, advise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

from mmtool.config.advice import advise, has_meaning, warn_of_mirrors
from mmtool.config.aliases import check_aliases, warn_of_left_out, warn_of_meeting, warn_of_shared_syncs
from mmtool.config.credentials import Security
from mmtool.config.flows import FlowReader, extras
from mmtool.config.keys import CLUSTER_ID
from mmtool.config.placeholders import (
    Resolver,
    UnresolvedError,
    holds_comment,
    holds_pem,
    unsubstituted,
    variable_in_secret,
)
from mmtool.config.properties import PropertiesFile, PropertyEntry, read_properties
from mmtool.config.read_files import ReadFiles
from mmtool.config.report import FileFinding, Part, Report
from mmtool.config.scopes import ROLES, Clients, Scopes, Side, part_of_key, sibling
from mmtool.config.security import PROTOCOLS, read_security
from mmtool.config.settings import ClusterSettings, FlowSettings, Settings
from mmtool.config.values import java_parse_boolean, parse_list, parse_servers
from mmtool.errors import ConfigError
from mmtool.keystores import one_jvm
from mmtool.plain_text import shell_line

_LATE_COMMENT = (
    "contains ` #`: a comment starts only at the start of a line, so this text is part of the value; if it is a "
    "comment, move it to its own line"
)


def load_settings(path: Path | None, environ: Mapping[str, str], files: ReadFiles | None = None) -> Settings:
    """Read MirrorMaker 2's properties file.

    Args:
        path: The file; None means the one that ``MMTOOL_CONFIG`` names.
        environ: The environment, for ``MMTOOL_CONFIG`` and ``${env:}``.
        files: Gets the files that are read, also where an error ends the reading.

    Raises:
        ConfigError: There is no file, it cannot be read, or a value cannot be used; all problems are named at once.
    """
    return read_file(config_path(path, environ), environ, files).settings


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """Settings, and the scopes that they came from, which ``config show`` needs to name origins."""

    settings: Settings
    scopes: Scopes
    findings: tuple[FileFinding, ...]

    def asks_for_heartbeats(self) -> tuple[str, ...]:
        """Flows that are not enabled and whose heartbeats the file enables by name: MM2 then writes only heartbeats."""
        entries = {
            flow.name: self.scopes.entries.get(f"{flow.name}.emit.heartbeats.enabled")
            for flow in self.settings.all_flows
            if not flow.enabled
        }
        return tuple(
            name for name, entry in entries.items() if entry and java_parse_boolean(entry.value.strip())
        )


def read_file(path: Path, environ: Mapping[str, str], files: ReadFiles | None = None) -> LoadedFile:
    """Read a properties file: its settings, scopes and findings; ``files`` as in `load_settings`.

    Raises:
        ConfigError: As `load_settings`.
    """
    report = Report.over(path, ReadFiles() if files is None else files)
    report.files.note(path)
    file = read_properties(path)
    for entry in file.duplicates:
        report.warn(entry, "is set more than once: the last value counts")
    scopes = Scopes(_resolved(file, environ, report))
    with one_jvm():
        settings = _settings(scopes, report)
    report.keep_errors_of(_needed(settings.flows))
    _warn_of_silent(settings, report)
    _warn_of_same_servers(settings, report)
    report.raise_problems()
    return LoadedFile(settings.model_copy(update={"warnings": report.warnings}), scopes, report.findings)


def _warn_of_silent(settings: Settings, report: Report) -> None:
    for pair in settings.all_flows:
        if pair.name in settings.without_heartbeats:
            command = ("-c", str(report.path), "-s", pair.source.alias, "-t", pair.target.alias)
            report.note(
                f"{pair.name}: no heartbeats are written for this pair, because its settings have errors; "
                f"`mmtool config check {shell_line(command)}` lists them"
            )


def _warn_of_same_servers(settings: Settings, report: Report) -> None:
    pairs = {frozenset((flow.source.alias, flow.target.alias)): flow for flow in settings.flows}
    for flow in pairs.values():
        here, there = (
            {server.strip().lower() for server in side.bootstrap_servers.split(",")}
            for side in (flow.source, flow.target)
        )
        if here == there != {""}:
            report.note(
                f"{flow.source.alias} and {flow.target.alias} have the same bootstrap servers, so both are one cluster,"
                " and `mmtool replicate` refuses the flow: give each alias the servers of its own cluster"
            )


_USUAL_NAMES = ("connect-mirror-maker.properties", "mm2.properties")
"""Those of Kafka's distribution and of `mmtool init`."""


def config_path(path: Path | None, environ: Mapping[str, str]) -> Path:
    """The path of the properties file: ``-c/--config``, else ``MMTOOL_CONFIG``.

    Raises:
        ConfigError: Neither is set.
    """
    if path is not None:
        return path
    named = environ.get("MMTOOL_CONFIG", "").strip()
    if not named:
        here = next((name for name in _USUAL_NAMES if Path(name).is_file()), None)
        raise ConfigError(
            "no configuration: neither -c/--config nor MMTOOL_CONFIG names a file",
            remedy=f"add -c {here}"
            if here
            else f"name MirrorMaker 2's properties file, for example -c {_USUAL_NAMES[0]}, or write one: `mmtool init`",
        )
    return Path(named)


def _resolved(file: PropertiesFile, environ: Mapping[str, str], report: Report) -> dict[str, PropertyEntry]:
    """The entries with their placeholders replaced; unsubstituted text is reported before anything else of a key."""
    raw = {key: entry.raw for key, entry in file.entries.items()}
    try:
        resolver = Resolver.declared_in(raw, environ, report.files)
    except ConfigError as error:
        raise ConfigError(f"{file.path}: {error.message}") from None
    aliases = _named_aliases(file, resolver)
    entries = {}
    for key, entry in file.entries.items():
        part = part_of_key(key, aliases)
        there = report if part is None else report.of(part)
        entries[key] = _resolved_entry(entry, resolver, there, needed=has_meaning(key, aliases))
    return entries


def _resolved_entry(
    entry: PropertyEntry, resolver: Resolver, report: Report, *, needed: bool
) -> PropertyEntry:
    say_last = report.unusable if needed else report.warn_only
    if sentence := unsubstituted(entry.key, entry.raw, is_read=needed):
        say_last(entry, sentence)
        return entry
    if needed and (sentence := variable_in_secret(entry.key, entry.raw)):
        report.warn(entry, sentence)
    if holds_comment(entry.key, entry.raw):
        report.warn(entry, _LATE_COMMENT)
    try:
        resolved = replace(entry, value=resolver.resolve(entry.raw))
    except UnresolvedError as error:
        report.unusable(entry, str(error))
        return entry
    if holds_pem(entry.key, resolved.value):
        say_last(
            entry,
            f"contains PEM text, expected a path: {_place_of_pem(entry)}",
        )
    return resolved


def _place_of_pem(entry: PropertyEntry) -> str:
    """Where the PEM text of a key that expects a path belongs."""
    chain, key = sibling(entry, "ssl.keystore.certificate.chain"), sibling(entry, "ssl.keystore.key")
    if entry.key.endswith("ssl.keystore.location"):
        return f"move the private key to {key}, and the certificates to {chain}"
    trusted = sibling(entry, "ssl.truststore.certificates")
    places = {"ssl.key.location": key, "ssl.certificate.location": chain}
    return f"move the text to {next((to for end, to in places.items() if entry.key.endswith(end)), trusted)}"


def _named_aliases(file: PropertiesFile, resolver: Resolver) -> tuple[str, ...]:
    """The aliases of ``clusters``, needed to read the other keys; empty where its placeholder is not resolved."""
    entry = file.entries.get("clusters")
    try:
        return tuple(filter(None, parse_list(resolver.resolve(entry.raw)))) if entry else ()
    except UnresolvedError:
        return ()


def _settings(scopes: Scopes, report: Report) -> Settings:
    aliases = _aliases(scopes, report)
    clusters = {
        alias: _cluster(alias, scopes, scopes.cluster(alias), report.of((alias,))) for alias in aliases
    }
    flows = {
        f"{source}->{target}": _flow(source, target, scopes, report.of((source, target)))
        for source, target in permutations(aliases, 2)
    }
    own = {name: flow.group_map for name, flow in flows.items()}
    for name, flow in flows.items():
        back = flows[f"{flow.target.alias}->{flow.source.alias}"]
        is_turned = own[back.name].file and (not own[name].file or (back.enabled and not flow.enabled))
        turned = {"group_map": own[back.name].inverse} if is_turned else {}
        if own[name].file and own[back.name].file and flow.enabled and back.enabled and name < back.name:
            report.problem(
                f"mmtool.group.map is set for {flow.name} and {back.name}: set it for one of them only, with the prefix"
                f" `{flow.name}.`; the other one uses the same file the other way round"
            )
        way_back = back.origins if back.enabled else None
        flows[name] = flow.model_copy(update={"way_back": way_back, **turned})
    # in the order of their lines; flows that only the global `enabled` enables come last
    lines = {name: scopes.entries.get(f"{name}.enabled") for name in flows}
    order = sorted(flows, key=lambda name: entry.line if (entry := lines[name]) else float("inf"))
    enabled = tuple(flows[name] for name in order if flows[name].enabled)
    check_aliases(scopes, [(flow.source.alias, flow.target.alias) for flow in enabled], report)
    warn_of_meeting(enabled, report)
    warn_of_shared_syncs(enabled, report)
    warn_of_left_out(enabled, report)
    advise(scopes, aliases, report)
    warn_of_mirrors(scopes, enabled, report)
    return Settings(
        path=report.path,
        clusters=clusters,
        flows=enabled,
        all_flows=tuple(flows.values()),
        faults={name: faults for name, flow in flows.items() if (faults := report.faults(_needed((flow,))))},
    )


def _needed(flows: Iterable[FlowSettings]) -> frozenset[Part]:
    """The flows and their clusters, as parts of a report."""
    pairs = [(flow.source.alias, flow.target.alias) for flow in flows]
    return frozenset(pairs) | frozenset((alias,) for pair in pairs for alias in pair)


def _aliases(scopes: Scopes, report: Report) -> tuple[str, ...]:
    entry = scopes.entries.get("clusters")
    aliases = parse_list(entry.value) if entry else ()
    if entry is None:
        report.problem("clusters is not set: expected a comma list of cluster aliases, as clusters = A, B")
    elif not aliases or not all(aliases):
        report.expected(entry, "a comma list of cluster aliases, as A, B")
    return tuple(alias for alias in aliases if alias)


def _flow(source: str, target: str, scopes: Scopes, report: Report) -> FlowSettings:
    def side(alias: str, which: Side) -> ClusterSettings:
        return _cluster(alias, scopes, scopes.flow_cluster(source, target, which), report)

    return FlowReader(scopes, side(source, "source"), side(target, "target"), report).settings()


def _cluster(alias: str, scopes: Scopes, clients: Clients, report: Report) -> ClusterSettings:
    common = read_security(clients.common, report)
    securities = {role: read_security(clients.roles[role], report) for role in ROLES}
    bootstrap = _bootstrap(alias, clients, report)
    servers = {role: _servers(clients.roles[role].get("bootstrap.servers"), report) for role in ROLES}
    _compare_protocols(clients, {"": common} | securities, report)
    cluster_id = scopes.entries.get(f"{alias}.{CLUSTER_ID}")
    return ClusterSettings(
        alias=alias,
        bootstrap_servers=bootstrap,
        expected_cluster_id=cluster_id.value.strip() or None if cluster_id else None,
        security=common,
        role_bootstrap_servers={role: text for role, text in servers.items() if text not in {"", bootstrap}},
        role_security={role: security for role, security in securities.items() if security != common},
        producer=extras(clients.roles["producer"]),
        consumer=extras(clients.roles["consumer"]),
        admin=extras(clients.roles["admin"]),
    )


def _bootstrap(alias: str, clients: Clients, report: Report) -> str:
    """The bootstrap servers: ``A.bootstrap.servers``, or a role's own where only those are set."""
    found = [properties.get("bootstrap.servers") for properties in (clients.common, *clients.roles.values())]
    for entry in found:
        servers = _servers(entry, report)
        if servers:
            return servers
    if not any(found):
        report.problem(f"{alias}.bootstrap.servers is not set: expected a comma list of host:port")
    return ""


def _servers(entry: PropertyEntry | None, report: Report) -> str:
    """The servers as Kafka's clients read them; empty where the entry is missing or invalid."""
    if entry is None:
        return ""
    try:
        servers = parse_servers(entry.value).text
    except ValueError as error:
        report.expected(entry, "a comma list of host:port" if entry.has_placeholder else str(error))
        return ""
    if not servers:
        report.expected(entry, "a comma list of host:port")
    return servers


def _compare_protocols(clients: Clients, securities: Mapping[str, Security], report: Report) -> None:
    """Warn where a server's protocol prefix differs from ``security.protocol``, which wins, as in Java's clients."""
    sides = [(clients.common, securities[""]), *((clients.roles[role], securities[role]) for role in ROLES)]
    for properties, security in sides:
        entry = properties.get("bootstrap.servers")
        try:
            named = parse_servers(entry.value).protocols if entry else ()
        except ValueError:
            continue
        other = [protocol for protocol in named if protocol in PROTOCOLS and protocol != security.protocol]
        if entry is not None and other:
            report.warn(
                entry,
                f"says {other[0]}, but security.protocol is {security.protocol}: mmtool uses {security.protocol}, as "
                "MirrorMaker 2 does",
            )
