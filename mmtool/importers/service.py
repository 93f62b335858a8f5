"""Import another deployment of MirrorMaker 2: read its files, and write the properties file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import javaproperties

from mmtool.config.placeholders import provider_declarations
from mmtool.config.properties import escaped
from mmtool.errors import UsageError
from mmtool.importers.core.connect import Deployment, Note, NoteKind, connect_deployment
from mmtool.importers.core.draft import ImportDraft, draft_of
from mmtool.importers.core.secret_values import Mounts, SecretPlacement
from mmtool.importers.core.strimzi import strimzi_deployment
from mmtool.importers.core.yaml_documents import yaml_documents
from mmtool.plain_text import printable
from mmtool.runtime.files import file_errors
from mmtool.translation.connect_offsets import parse_json

_MOST_BYTES = 2 << 20
"""Of one input file; a Kubernetes resource has at most 1.5 MiB."""


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """A properties file that is not yet written.

    Attributes:
        text: Its content; with ``--keep-secrets`` it contains secrets.
        notes: What is not in it, and what needs a decision.
    """

    text: str = field(repr=False)
    notes: tuple[Note, ...]


def imported_yaml(
    contents: Sequence[tuple[str, bytes]], secrets_dir: str, *, keep_secrets: bool
) -> ImportedFile:
    """The properties file of the ``KafkaMirrorMaker2`` resources in YAML files, given by their names and contents.

    Raises:
        UsageError: A file cannot be imported.
    """
    mounts = Mounts(secrets_dir)
    names = [name for name, _ in contents]
    documents = [one for name, content in contents for one in yaml_documents(name, _text(name, content))]
    return _imported(names, strimzi_deployment(names, documents, mounts), mounts, keep_secrets=keep_secrets)


def imported_json(
    contents: Sequence[tuple[str, bytes]], secrets_dir: str, *, keep_secrets: bool
) -> ImportedFile:
    """The properties file of the connectors in JSON files, given by their names and contents.

    Raises:
        UsageError: A file cannot be imported.
    """
    mounts = Mounts(secrets_dir)
    twice: list[Note] = []
    documents = [(name, _json(name, content, twice)) for name, content in contents]
    names = [name for name, _ in contents]
    deployment = connect_deployment(documents)
    deployment = replace(deployment, notes=(*twice, *deployment.notes))
    return _imported(names, deployment, mounts, keep_secrets=keep_secrets)


def _imported(
    names: Sequence[str], deployment: Deployment, mounts: Mounts, *, keep_secrets: bool
) -> ImportedFile:
    draft = draft_of(deployment)
    SecretPlacement(draft, mounts, keep_secrets).place()
    notes = tuple(note for kind in NoteKind for note in draft.notes if note.kind is kind)
    return ImportedFile("\n".join([*_lines(draft, ", ".join(names)), ""]), notes)


def _json(name: str, content: bytes, twice: list[Note]) -> object:
    """The JSON of a file; ``twice`` gets a note for each key that an object has more than once."""

    def made_of(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        of = f"{name}: {found['name']}" if "name" in found else name
        twice.extend(
            Note(
                NoteKind.ATTENTION,
                f"{of}: {key}",
                "is set more than once: the last value counts, as in Connect",
            )
            for key, count in Counter(key for key, _ in pairs).items()
            if count > 1
        )
        return found

    try:
        return parse_json(content, made_of)
    except ValueError as error:
        at = f":{line}" if (line := getattr(error, "lineno", None)) else ""
        raise UsageError(
            f"{name}{at}: not valid JSON", remedy="save the connectors as JSON, in UTF-8"
        ) from None


def _text(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{name}: not text in UTF-8", remedy="save the file in UTF-8") from None


def content_of(path: Path) -> bytes:
    """The content of an input file.

    Raises:
        UsageError: It cannot be read, or is too large.
    """
    with file_errors(str(path), "name a file that can be read", near=path), path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise UsageError(
            f"{path}: more than {_MOST_BYTES >> 20} MiB",
            remedy="keep only MirrorMaker 2's resources or connectors in it",
        )
    return content


_TITLES = {
    NoteKind.ATTENTION: "Check these",
    NoteKind.DIFFERS: "Connectors that disagree",
    NoteKind.SECRET: "Secrets",
    NoteKind.LEFT_OUT: "Left out",
}


def _lines(draft: ImportDraft, origin: str) -> Iterator[str]:
    """The file's lines: what is not in it, as comments, and what is in it by scope; ``origin`` names the input."""
    yield _comment(f"Made by `mmtool config import` from {origin}.")
    for kind in NoteKind:
        notes = [note for note in draft.notes if note.kind is kind]
        if notes:
            yield from ("", _comment(f"{_TITLES[kind]}:"))
        for note in notes:
            yield _comment(f"  {note.path}: {note.message}")
    for scope, keys in draft.scopes.items():
        yield ""
        if scope:
            yield _comment(f"{'Flow' if f'{scope}.enabled' in keys else 'Cluster'} {scope}")
        yield from (f"{javaproperties.escape(key)} = {escaped(draft.lines[key].value)}" for key in keys)
        if not scope:
            # MirrorMaker 2 needs the declaration; mmtool knows Kafka's own providers without it
            declared = provider_declarations(setting.value for setting in draft.lines.values())
            yield from (f"{key} = {value}" for key, value in declared.items())


def _comment(text: str) -> str:
    return f"# {printable(text)}"
