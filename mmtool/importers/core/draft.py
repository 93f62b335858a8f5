"""The properties file as keys and notes, made of connectors: one scope per cluster and per flow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from mmtool.config.aliases import LONGEST_TOPIC_NAME
from mmtool.config.keys import FLOW_KEYS
from mmtool.config.redaction import HIDDEN
from mmtool.errors import UsageError
from mmtool.importers.core.connect import (
    COMPARED,
    IDENTITY,
    SOURCE_ALIAS,
    SWITCHES,
    TARGET_ALIAS,
    Connector,
    ConnectorKind,
    Deployment,
    Note,
    NoteKind,
    Setting,
    is_secret,
    reader_of,
    why_no_cluster_key,
    why_no_flow_key,
)

_SIDES = {"source.cluster.": 0, "target.cluster.": 1}
ALL = ""
"""The scope of keys without a prefix."""
_ALIASES = ("source", "target")
"""What a cluster without an alias is called in the file; its topics keep their names without a prefix."""

Pair = tuple[str, str]
_Connectors = dict[ConnectorKind, Connector]


@dataclass(slots=True)
class ImportDraft:
    """The file while it is put together.

    Attributes:
        aliases: Of the clusters, in the order in which they appear.
        lines: The values by key; they may be secrets.
        notes: What is not in the file, and what needs a decision.
        scopes: The keys of each cluster and of each flow, by its name.
    """

    aliases: tuple[str, ...]
    lines: dict[str, Setting] = field(default_factory=dict)
    notes: dict[Note, None] = field(default_factory=dict)
    scopes: dict[str, list[str]] = field(default_factory=lambda: {ALL: []})

    def put(self, scope: str, name: str, setting: Setting) -> None:
        """Set a key; another value than the one that it has is reported, and the first one stays."""
        key = _key(scope, name)
        if key not in self.lines:
            self.replace(scope, name, setting)
        elif (known := self.lines[key]).value != setting.value:
            self.differ(key, known, setting)

    def replace(self, scope: str, name: str, setting: Setting) -> None:
        """Set a key, whatever value it has."""
        key = _key(scope, name)
        if key not in self.lines:
            self.scopes.setdefault(scope, []).append(key)
        self.lines[key] = setting

    def differ(self, key: str, used: Setting, other: Setting) -> None:
        """Report two values of one key."""
        one, two = _shown(key, used.value), _shown(key, other.value)
        self.note(
            NoteKind.DIFFERS,
            other.path,
            f"is {two}, but {used.path} is {one}; {key} gets the value of {used.path}",
        )

    def note(self, kind: NoteKind, path: str, message: str) -> None:
        """Add a note, once."""
        self.notes[Note(kind, path, message)] = None


def draft_of(deployment: Deployment) -> ImportDraft:
    """The properties file of a deployment; secrets are still in clear text.

    Raises:
        UsageError: Two connectors of one class mirror the same pair of clusters, or an alias cannot be
            used.
    """
    pairs = _pairs(deployment.connectors)
    aliases = tuple(dict.fromkeys(alias for pair in pairs for alias in pair))
    draft = ImportDraft(aliases, notes=dict.fromkeys(deployment.notes))
    draft.replace(ALL, "clusters", Setting(", ".join(draft.aliases), "clusters"))
    draft.replace(ALL, SWITCHES[ConnectorKind.HEARTBEAT], Setting("false", "heartbeats"))
    for pair, connectors in pairs.items():
        _put_clusters(draft, pair, connectors)
    for worker in deployment.workers:
        draft.put(*worker)
    for pair, connectors in pairs.items():
        _put_flow(draft, pair, connectors)
    return draft


def _pairs(connectors: tuple[Connector, ...]) -> dict[Pair, _Connectors]:
    """The connectors of each pair of clusters."""
    pairs: defaultdict[Pair, _Connectors] = defaultdict(dict)
    for connector in connectors:
        found = pairs[_pair_of(connector)]
        if (first := found.setdefault(connector.kind, connector)) is not connector:
            names = "->".join(_pair_of(connector))
            raise UsageError(
                f"{first.origin} and {connector.origin} are both a {connector.kind} of {names}; a properties file has"
                " one flow per pair of clusters",
                remedy=f"make one {connector.kind} of both, or import only one of them",
            )
    return dict(pairs)


def _pair_of(connector: Connector) -> Pair:
    source, target = (_alias(connector, side) for side in range(2))
    if source == target:
        raise UsageError(
            f"{connector.origin}: source and target have the same alias {source!r}",
            remedy="give the two clusters different aliases",
        )
    return source, target


def _alias(connector: Connector, side: int) -> str:
    """The alias of the source (0) or of the target (1); a blank one is replaced."""
    key = (SOURCE_ALIAS, TARGET_ALIAS)[side]
    setting = connector.config.get(key)
    if setting is None and side == 0:
        raise UsageError(f"{connector.origin} has no {key}", remedy=f"add {key} to the connector")
    alias = setting.value.strip() if setting else ""
    wrong = f"{alias!r} contains a comma" if "," in alias else ""
    if len(alias) > LONGEST_TOPIC_NAME:
        wrong = f"has {len(alias)} characters, more than {LONGEST_TOPIC_NAME}"
    if wrong:
        raise UsageError(f"{connector.origin}: the alias {wrong}", remedy="give the cluster another alias")
    return alias or _ALIASES[side]


def _put_clusters(draft: ImportDraft, pair: Pair, connectors: _Connectors) -> None:
    for connector in connectors.values():
        for name, setting in connector.config.items():
            side = next((side for side in _SIDES if name.startswith(side)), None)
            if side is None or name in IDENTITY:
                continue
            alias, rest = pair[_SIDES[side]], name.removeprefix(side)
            if why := why_no_cluster_key(alias, rest, pair):
                draft.note(NoteKind.LEFT_OUT, setting.path, why)
            else:
                draft.put(alias, rest, setting)


def _put_flow(draft: ImportDraft, pair: Pair, connectors: _Connectors) -> None:
    flow = "->".join(pair)
    _put_switches(draft, flow, connectors)
    _put_blank_aliases(draft, flow, connectors)
    ordered = (connectors[kind] for kind in ConnectorKind if kind in connectors)
    for name in dict.fromkeys(name for connector in ordered for name in connector.config):
        if name in IDENTITY or name.startswith(tuple(_SIDES)):
            continue
        found = {kind: c.config[name] for kind, c in connectors.items() if name in c.config}
        if why := why_no_flow_key(f"{flow}.", name, pair):
            for setting in found.values():
                draft.note(NoteKind.LEFT_OUT, setting.path, why)
            continue
        _put_one(draft, flow, name, found)
    for name in COMPARED:
        _compare_default(draft, flow, name, connectors)


def _put_one(draft: ImportDraft, flow: str, name: str, found: Mapping[ConnectorKind, Setting]) -> None:
    """Set a flow's key to the value in the connector that reads it; without a single reader, to the first value."""
    reader = reader_of(name)
    if reader is not None and reader not in found:
        for kind, setting in found.items():
            draft.note(
                NoteKind.LEFT_OUT, setting.path, f"without effect in a {kind}: only a {reader} reads it"
            )
        return
    order = [kind for kind in ConnectorKind if kind in found]
    draft.replace(flow, name, found[reader or order[0]])
    for kind in order:
        draft.put(flow, name, found[kind])


def _put_switches(draft: ImportDraft, flow: str, connectors: _Connectors) -> None:
    """Turn on what has a connector, and turn the rest off: MirrorMaker 2's own process has all three."""
    source = connectors.get(ConnectorKind.SOURCE)
    draft.replace(flow, SWITCHES[ConnectorKind.SOURCE], Setting("false" if source is None else "true", flow))
    if source is None:
        one = next(iter(connectors.values()))
        message = (
            f"{flow} has no MirrorSourceConnector in the input, so the flow is not enabled: to mirror it, add this"
            " connector to the input, and import again"
        )
        draft.note(NoteKind.ATTENTION, one.origin, message)
    elif ConnectorKind.CHECKPOINT not in connectors:
        switch = SWITCHES[ConnectorKind.CHECKPOINT]
        draft.replace(flow, switch, Setting("false", flow))
        message = (
            f"{flow} has no MirrorCheckpointConnector in the input: checkpoints are turned off; to write them, set"
            f" {flow}.{switch} = true"
        )
        draft.note(NoteKind.ATTENTION, source.origin, message)
    if ConnectorKind.HEARTBEAT in connectors:
        draft.replace(flow, SWITCHES[ConnectorKind.HEARTBEAT], Setting("true", flow))


def _put_blank_aliases(draft: ImportDraft, flow: str, connectors: _Connectors) -> None:
    """Keep a blank alias for topic names: the file's own alias cannot be blank."""
    for name in (SOURCE_ALIAS, TARGET_ALIAS):
        for connector in connectors.values():
            setting = connector.config.get(name)
            if setting is not None and not setting.value.strip():
                draft.replace(flow, name, setting)


def _compare_default(draft: ImportDraft, flow: str, name: str, connectors: _Connectors) -> None:
    """Report a key that only one of the source and the checkpoint connector has."""
    source, checkpoint = (connectors.get(kind) for kind in (ConnectorKind.SOURCE, ConnectorKind.CHECKPOINT))
    if source is None or checkpoint is None:
        return
    for one, other in ((source, checkpoint), (checkpoint, source)):
        default = FLOW_KEYS[name].default or ""
        if name in other.config or name not in one.config or one.config[name].value.strip() == default:
            continue
        used, known = one.config[name], _shown(name, default)
        value = _shown(name, used.value)
        message = (
            f"is not set (default {known}), but {used.path} is {value}; {flow}.{name} gets the value of"
            f" {used.path}"
        )
        draft.note(NoteKind.DIFFERS, f"{other.origin}: {name}", message)


def _key(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _shown(key: str, value: str) -> str:
    """A value for a message; a Java class by its simple name."""
    if is_secret(key, value):
        return HIDDEN
    simple = value.rpartition(".")[2] if key.endswith(".class") else value
    return simple or "empty"
