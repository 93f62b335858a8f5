"""Read ``KafkaMirrorMaker2`` resources, v1beta2 and v1, as the connectors that Strimzi's operator makes of them.

IBM's Event Streams has the same resource under an API group of its own. Names and precedence are those of the
operator's ``KafkaMirrorMaker2Connectors``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import UsageError
from mmtool.importers.core.connector import (
    SOURCE_ALIAS,
    TARGET_ALIAS,
    Connector,
    ConnectorKind,
    Deployment,
    Note,
    NoteKind,
    Setting,
    WorkerName,
    overlaid,
    with_other,
)
from mmtool.importers.core.connector_keys import SWITCHES
from mmtool.importers.core.fields import Fields
from mmtool.importers.core.strimzi_cluster import ClusterReader
from mmtool.importers.core.strimzi_reasons import reason_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mmtool.importers.core.secret_values import Mounts

KIND = "KafkaMirrorMaker2"
_APIS = ("kafka.strimzi.io/", "eventstreams.ibm.com/")
_CONNECTORS = {
    "sourceConnector": ConnectorKind.SOURCE,
    "checkpointConnector": ConnectorKind.CHECKPOINT,
    "heartbeatConnector": ConnectorKind.HEARTBEAT,
}
_PATTERNS = {
    "topics": ("topicsPattern",),
    "topics.exclude": ("topicsExcludePattern", "topicsBlacklistPattern"),
    "groups": ("groupsPattern",),
    "groups.exclude": ("groupsExcludePattern", "groupsBlacklistPattern"),
}
"""A connector's key, and the fields of a mirror that set it; the first one with a value counts."""
_WORKERS = {"groupId": "group.id", "offsetStorageTopic": "offset.storage.topic"}
"""Fields of `spec.target` that name MirrorMaker 2's workers, and their keys in Connect's configuration."""


def strimzi_deployment(names: Sequence[str], documents: Iterable[object], mounts: Mounts) -> Deployment:
    """The connectors of all ``KafkaMirrorMaker2`` resources among documents.

    Args:
        names: Of the files, for errors.
        documents: Of the files; a ``List`` stands for its items.
        mounts: Gives the placeholders of secrets.

    Raises:
        UsageError: There is no such resource, one of them is not valid, or none of them has a flow.
    """
    name = ", ".join(names)
    connectors: list[Connector] = []
    workers: list[WorkerName] = []
    notes: list[Note] = []
    for document in _resources(documents):
        if document.get("kind") != KIND or not str(document.get("apiVersion")).startswith(_APIS):
            notes.append(Note(NoteKind.LEFT_OUT, _title(document), f"is no {KIND} of Strimzi"))
            continue
        resource = _Resource(document, mounts)
        try:
            connectors += resource.connectors()
        except UsageError as error:
            raise UsageError(f"{name}: {error.message}", remedy=error.remedy) from None
        workers += resource.workers
        notes += resource.notes()
    if not connectors:
        raise UsageError(
            f"{name} has no {KIND} with a connector",
            remedy=f"name a file with a {KIND} of API group kafka.strimzi.io or eventstreams.ibm.com, v1 or v1beta2,"
            " that has a sourceConnector in spec.mirrors",
        )
    deployment = Deployment(tuple(connectors), tuple(workers), tuple(notes))
    if not deployment.has_flow:
        more = with_other("--strimzi", names, "OTHER.yaml")
        raise UsageError(
            f"no mirror of {name} has a sourceConnector, so no flow can be imported",
            remedy=f"add sourceConnector to an entry of spec.mirrors, or name the file that has it as well: {more}",
        )
    return deployment


def _resources(documents: Iterable[object]) -> Iterator[dict[str, object]]:
    for document in documents:
        if not isinstance(document, dict):
            continue
        items = document.get("items")
        if str(document.get("kind")).endswith("List") and isinstance(items, list):
            yield from (item for item in items if isinstance(item, dict))
        else:
            yield document


def _title(document: dict[str, object]) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return " ".join(str(word) for word in (document.get("kind") or "document", name) if word)


@dataclass(slots=True)
class _Resource:
    """One resource while it is read."""

    document: dict[str, object]
    mounts: Mounts
    workers: list[WorkerName] = field(default_factory=list)
    _found: list[Note] = field(default_factory=list)
    _root: Fields = field(init=False)
    _clusters: dict[str, dict[str, Setting]] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)
    _reader: ClusterReader = field(init=False)

    def __post_init__(self) -> None:
        self._root = Fields(self.document, "")
        for name in ("apiVersion", "kind", "status"):
            self._root.skip(name)
        metadata = self._root.fields("metadata")
        name, namespace = ((metadata and metadata.text(one)) or "" for one in ("name", "namespace"))
        self._root.path = f"{name or KIND}: "
        self._reader = ClusterReader(self.mounts, namespace, self._found)

    def connectors(self) -> list[Connector]:
        spec = self._root.fields("spec")
        if spec is None:
            raise UsageError(
                f"{self._root.at('spec')} is missing", remedy="add it, or correct the indentation"
            )
        mirrors = spec.items("mirrors")
        target = self._target(spec, mirrors)
        return [
            connector
            for mirror in mirrors
            for connector in self._mirror(mirror, target, spec.text("connectCluster"))
        ]

    def notes(self) -> Iterator[Note]:
        """What was found, and every field that was not read, with the reason."""
        yield from self._found
        for alias, settings in self._clusters.items():
            if alias not in self._used:
                message = f"no entry of spec.mirrors names the cluster {alias!r}"
                yield Note(NoteKind.LEFT_OUT, settings["alias"].path, message)
        for path in self._root.rest():
            if not path.startswith("metadata."):
                yield Note(NoteKind.LEFT_OUT, path, reason_of(path))

    def _target(self, spec: Fields, mirrors: Iterable[Fields]) -> dict[str, Setting] | None:
        """The target of v1; None in v1beta2, whose clusters are read here too."""
        target = spec.fields("target")
        connect = spec.text("connectCluster")
        for cluster in spec.items("clusters"):
            settings = self._reader.read(cluster)
            alias = settings["alias"].value
            if alias in self._clusters:
                raise UsageError(
                    f"{cluster.at('alias')}: two clusters are called {alias!r}", remedy="rename one"
                )
            self._clusters[alias] = settings
            if alias == connect and any(mirror.text("targetCluster") in {alias, None} for mirror in mirrors):
                self._name_workers(alias, settings)
        if target is None:
            return None
        settings = self._reader.read(target)
        for name, key in _WORKERS.items():
            if (text := target.text(name)) is not None:
                settings[key] = Setting(text, target.at(name))
        self._name_workers(settings["alias"].value, settings)
        return settings

    def _name_workers(self, alias: str, settings: dict[str, Setting]) -> None:
        for key in _WORKERS.values():
            if key in settings:
                self.workers.append(WorkerName(alias, key, settings.pop(key)))

    def _mirror(
        self, mirror: Fields, target: dict[str, Setting] | None, connect: str | None
    ) -> Iterator[Connector]:
        source = mirror.fields("source")
        sides = {
            "source.cluster.": self._reader.read(source) if source else self._named(mirror, "sourceCluster"),
            "target.cluster.": target or self._named(mirror, "targetCluster", connect),
        }
        clusters = {
            side + key: setting for side, settings in sides.items() for key, setting in settings.items()
        }
        patterns = dict(self._patterns(mirror))
        names = (clusters[SOURCE_ALIAS].value, clusters[TARGET_ALIAS].value)
        for name, kind in _CONNECTORS.items():
            connector = mirror.fields(name)
            if connector is None:
                continue
            stopped = self._stopped(connector, "->".join(names), kind)
            config = overlaid(clusters, connector.settings("config"), self._found)
            config = overlaid(config, patterns, self._found)
            yield Connector(kind, connector.path, config | stopped)

    def _named(self, mirror: Fields, name: str, default: str | None = None) -> dict[str, Setting]:
        alias = mirror.text(name) or default
        if alias is None:
            v1 = "`source` of the mirror" if name == "sourceCluster" else "`spec.target`"
            raise UsageError(
                f"{mirror.at(name)} is missing", remedy=f"name an alias of `spec.clusters`, or set {v1}"
            )
        if alias not in self._clusters:
            raise UsageError(
                f"{mirror.at(name)}: `spec.clusters` has no cluster {alias!r}",
                remedy="name an alias of `spec.clusters`",
            )
        self._used.add(alias)
        return self._clusters[alias]

    def _patterns(self, mirror: Fields) -> Iterator[tuple[str, Setting]]:
        for key, names in _PATTERNS.items():
            name = next((name for name in names if mirror.has(name)), None)
            if name is not None:
                yield key, Setting(mirror.text(name) or "", mirror.at(name))

    def _stopped(self, connector: Fields, flow: str, kind: ConnectorKind) -> dict[str, Setting]:
        """The key that turns off what a connector does, if it does not run: `mmtool replicate` runs what is enabled."""
        off = {}
        for name, running in (("state", "running"), ("pause", "false")):
            state = connector.text(name)
            if state is not None and state != running:
                said = (
                    f"is {state}, so {flow}.{SWITCHES[kind]} is false; set it to true when `mmtool replicate` is to do"
                    " the work of this connector"
                )
                self._found.append(Note(NoteKind.ATTENTION, connector.at(name), said))
                off[SWITCHES[kind]] = Setting("false", connector.at(name))
        return off
