"""Read MirrorMaker 2's connectors from JSON, in each form in which Kafka Connect takes or gives them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mmtool.errors import UsageError
from mmtool.importers.core.connector import (
    Connector,
    ConnectorKind,
    Deployment,
    Note,
    NoteKind,
    Setting,
    with_other,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
        for name, item in document.items():
            yield from _expanded(file, name, item)
    else:
        raise _unknown(file)


def _expanded(file: str, name: str, item: dict[str, object]) -> Iterator[tuple[str, dict[str, object]]]:
    """One connector of the answer to ``GET /connectors?expand=info``."""
    info = item.get("info")
    config = info.get("config") if isinstance(info, dict) else None
    if not isinstance(config, dict):
        raise _unknown(file)
    yield name, config


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
