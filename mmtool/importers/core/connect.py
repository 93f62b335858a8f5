"""Read MirrorMaker 2's connectors from JSON, in each form in which Kafka Connect takes or gives them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from mmtool.config.advice import has_meaning, is_connect_key
from mmtool.config.clientkeys import CLIENT_KEYS, may_show_client_key
from mmtool.config.keys import FLOW_KEYS
from mmtool.config.placeholders import holds_secret, may_hold_secret
from mmtool.config.scopes import ROLES, is_security_key
from mmtool.errors import UsageError
from mmtool.plain_text import did_you_mean, marks_secret, nearest, shell_line

_CLASS = "connector.class"
_MIRROR = re.compile(
    r"(?:org\.apache\.kafka\.connect\.mirror\.)?(Mirror(?:Source|Checkpoint|Heartbeat))(?:Connector)?"
)
"""A connector class of MirrorMaker 2, also by the short names that Connect accepts."""
_FORMS = (
    'a connector ({"name": ..., "config": {...}}), its config alone, a list of these, or the answer to'
    " GET /connectors?expand=info"
)


def connect_deployment(files: Sequence[tuple[str, object]]) -> Deployment:
    """The connectors in some JSON documents.

    Args:
        files: The name and the document of each file.

    Raises:
        UsageError: A document is none of the known forms, or no connector is MirrorMaker 2's `ConnectorKind.SOURCE`.
    """
    connectors: list[Connector] = []
    notes: list[Note] = []
    for file, document in files:
        for name, config in _configs(file, document):
            _read(file, name, config, connectors, notes)
    names = [name for name, _ in files]
    if not connectors:
        raise UsageError(
            f"{', '.join(names)}: no connector of MirrorMaker 2",
            remedy=f"name the file of the {ConnectorKind.SOURCE}, and the files of the {ConnectorKind.CHECKPOINT} and"
            f" {ConnectorKind.HEARTBEAT} if you have them",
        )
    deployment = Deployment(tuple(connectors), notes=tuple(notes))
    if not deployment.has_flow:
        raise UsageError(
            f"{', '.join(names)}: no {ConnectorKind.SOURCE}, so no flow can be imported",
            remedy=f"name the file with the {ConnectorKind.SOURCE} as well:"
            f" {with_other('--connect', names, 'OTHER.json')}",
        )
    return deployment


def _configs(file: str, document: object) -> Iterator[tuple[str, dict[str, object]]]:
    """Name and config of each connector of a document; the name is empty where the document has none."""
    if isinstance(document, list):
        for item in document:
            yield from _configs(file, item)
        return
    if not isinstance(document, dict):
        raise _unknown(file)
    config = document.get("config")
    if isinstance(config, dict):
        yield str(document.get("name") or config.get("name") or ""), config
    elif _CLASS in document:
        yield str(document.get("name") or ""), document
    elif document and all(isinstance(item, dict) for item in document.values()):
        for name, item in document.items():  # the answer to ``GET /connectors?expand=info``
            info = item.get("info")
            config = info.get("config") if isinstance(info, dict) else None
            if not isinstance(config, dict):
                raise _unknown(file)
            yield name, config
    else:
        raise _unknown(file)


def _unknown(file: str) -> UsageError:
    return UsageError(
        f"{file} is not the JSON of Kafka Connect connectors", remedy=f"name a file that has {_FORMS}"
    )


def _read(
    file: str, name: str, config: dict[str, object], connectors: list[Connector], notes: list[Note]
) -> None:
    """Add one connector, or the note that it is another program's."""
    named = config.get(_CLASS)
    found = _MIRROR.fullmatch(named.strip()) if isinstance(named, str) else None
    origin = f"{file}: {name}" if name else file
    if found is None:
        notes.append(Note(NoteKind.LEFT_OUT, origin, "is no connector of MirrorMaker 2"))
        return
    kind = ConnectorKind(f"{found[1]}Connector")
    path = origin if name and name != kind else f"{file}: {kind}"
    settings = {}
    for key, value in config.items():
        text = _text(value)
        if text is None:
            notes.append(
                Note(NoteKind.LEFT_OUT, f"{path}: {key}", "has no value, or a value that Connect refuses")
            )
        else:
            settings[key] = Setting(text, f"{path}: {key}")
    connectors.append(Connector(kind, path, settings))


def _text(value: object) -> str | None:
    """A value as Connect reads it; None for null, a list or an object."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else None


# --- connectors as settings, each with the place that it comes from, and what is said about them ---------

SOURCE_ALIAS, TARGET_ALIAS = "source.cluster.alias", "target.cluster.alias"


class ConnectorKind(StrEnum):
    """MirrorMaker 2's connectors, by the simple names of their classes."""

    SOURCE = "MirrorSourceConnector"
    CHECKPOINT = "MirrorCheckpointConnector"
    HEARTBEAT = "MirrorHeartbeatConnector"


class NoteKind(StrEnum):
    """Kinds of notes about an import, in the order in which they are shown."""

    ATTENTION = "attention"
    DIFFERS = "differs"
    SECRET = "secret"  # noqa: S105  a kind of note
    LEFT_OUT = "left_out"


@dataclass(frozen=True, slots=True)
class Note:
    """One sentence about a setting; it never contains a secret.

    Attributes:
        kind: What happened to the setting.
        path: Where it is in the input, or which secret.
        message: The reason, or what to do.
    """

    kind: NoteKind
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of the input.

    Attributes:
        value: As MirrorMaker 2 gets it; may be a secret.
        path: Where it is in the input.
    """

    value: str = field(repr=False)
    path: str


def with_other(kind: str, names: Sequence[str], other: str) -> str:
    """The command that imports one more file, for a remedy; ``kind`` is ``--strimzi`` or ``--connect``."""
    return f"`{shell_line(('mmtool', 'config', 'import', '-c', 'FILE', kind, *names, other))}`"


def overlaid(low: dict[str, Setting], high: dict[str, Setting], notes: list[Note]) -> dict[str, Setting]:
    """Two layers of settings as one; a value that the higher layer changes is noted."""
    notes.extend(
        Note(NoteKind.LEFT_OUT, low[key].path, f"{high[key].path} sets {key} as well, and wins")
        for key in low
        if key in high and low[key].value != high[key].value
    )
    return low | high


@dataclass(frozen=True, slots=True)
class Connector:
    """One connector.

    Attributes:
        kind: Its class.
        origin: The connector's name, for messages.
        config: Its settings, as Kafka Connect gets them.
    """

    kind: ConnectorKind
    origin: str
    config: Mapping[str, Setting]


WorkerName = tuple[str, str, Setting]
"""The name of the group or of the offsets topic of Connect's workers: the cluster's alias, the key, and the name."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """What an input holds.

    Attributes:
        connectors: MirrorMaker 2's, in the input's order.
        workers: Names by which mmtool finds a running MirrorMaker 2.
        notes: What the input holds beside.
    """

    connectors: tuple[Connector, ...]
    workers: tuple[WorkerName, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def has_flow(self) -> bool:
        """Whether a connector mirrors records."""
        return any(connector.kind is ConnectorKind.SOURCE for connector in self.connectors)


# --- which connector of MirrorMaker 2 reads a key, and why a key is left out of a properties file --------

IDENTITY = frozenset({"name", "connector.class", SOURCE_ALIAS, TARGET_ALIAS})
"""Keys that say which connector it is; the properties file has `clusters` and the flow's prefix instead."""

SWITCHES = {
    ConnectorKind.SOURCE: "enabled",
    ConnectorKind.CHECKPOINT: "emit.checkpoints.enabled",
    ConnectorKind.HEARTBEAT: "emit.heartbeats.enabled",
}
"""The key of a flow that turns off what a connector does."""

COMPARED = (
    "replication.policy.class",
    "replication.policy.separator",
    "replication.policy.internal.topic.separator.enabled",
    "offset-syncs.topic.location",
)
"""Keys that the source and the checkpoint connector must agree on, also where one of them has the default."""

_READERS = {
    ConnectorKind.SOURCE: (
        *("topics", "config.properties.", "use.defaults.", "refresh.topics.", "sync.topic.", "enabled"),
        *("replication.factor", "offset-syncs.topic.replication.", "offset.lag.", "heartbeats.replication."),
    ),
    ConnectorKind.CHECKPOINT: (
        "groups",
        "refresh.groups.",
        "emit.checkpoints.",
        "sync.group.",
        "checkpoints.",
    ),
    ConnectorKind.HEARTBEAT: ("emit.heartbeats.", "heartbeats.topic."),
}
"""The beginnings of keys that only one connector reads."""

_NO_WORKERS = "a setting of Kafka Connect; mmtool has no Connect workers"
_OF_CLIENTS = "a setting of Java's clients, which mmtool does not use"
_NO_EFFECT = "without effect, in MirrorMaker 2 as well"
_NOT_PASSED = f"{_NO_EFFECT}: its connectors pass only security settings of a cluster to their clients"
_UNKNOWN = "mmtool has no such setting"


def reader_of(name: str) -> ConnectorKind | None:
    """The one connector that reads a key; None where several do."""
    return next((kind for kind, starts in _READERS.items() if name.startswith(starts)), None)


def why_no_cluster_key(alias: str, name: str, aliases: tuple[str, ...]) -> str:
    """Why ``source.cluster.NAME`` or ``target.cluster.NAME`` is left out; empty where it is kept as ``ALIAS.NAME``.

    MirrorMaker 2's connectors pass only security settings from there to their clients.
    """
    if is_connect_key(name):
        return _NO_WORKERS
    if not is_security_key(name):
        return _OF_CLIENTS if name.partition(".")[0] in ROLES else _NOT_PASSED
    return "" if has_meaning(f"{alias}.{name}", aliases) else _UNKNOWN


def why_no_flow_key(prefix: str, name: str, aliases: tuple[str, ...]) -> str:
    """Why a connector's key is left out; empty where it is kept under the flow's prefix ``S->T.``."""
    if has_meaning(prefix + name, aliases):
        return ""
    if is_connect_key(name):
        return _NO_WORKERS
    if name in CLIENT_KEYS or is_security_key(name):
        return _NO_EFFECT
    return _UNKNOWN + did_you_mean([nearest(name, FLOW_KEYS)])


def is_secret(key: str, value: str) -> bool:
    """Whether the value of a key, with or without its scope, is a secret or contains one."""
    parts = key.split(".")
    ends = (".".join(parts[start:]) for start in range(len(parts)))  # an alias may have dots
    if any(map(may_show_client_key, ends)):
        return key.endswith(".url") and "@" in value
    if may_hold_secret(key):
        return holds_secret(key)
    return "mmtool." in key and marks_secret(key)
