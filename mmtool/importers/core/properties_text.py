"""Write a draft as the text of a properties file, with its notes as comments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import javaproperties

from mmtool.config.draft import escaped
from mmtool.config.placeholders import provider_declarations
from mmtool.importers.core.connect import NoteKind
from mmtool.importers.core.secret_values import providers_in
from mmtool.plain_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmtool.importers.core.draft import ImportDraft

_TITLES = {
    NoteKind.ATTENTION: "Check these",
    NoteKind.DIFFERS: "Connectors that disagree",
    NoteKind.SECRET: "Secrets",
    NoteKind.LEFT_OUT: "Left out",
}


def properties_text(draft: ImportDraft, origin: str) -> str:
    """The file's text: what is in it by scope, and what is not in it.

    Args:
        draft: The keys and notes.
        origin: Names of the input, for the first line.
    """
    return "\n".join([*_comment(f"Made by `mmtool config import` from {origin}."), *_body(draft), ""])


def _body(draft: ImportDraft) -> Iterator[str]:
    for kind in NoteKind:
        notes = [note for note in draft.notes if note.kind is kind]
        if notes:
            yield from ("", *_comment(f"{_TITLES[kind]}:"))
        for note in notes:
            yield from _comment(f"  {note.path}: {note.message}")
    for scope, keys in draft.scopes.items():
        yield ""
        if scope:
            yield from _comment(f"{'Flow' if f'{scope}.enabled' in keys else 'Cluster'} {scope}")
        yield from (f"{_escaped_key(key)} = {escaped(draft.lines[key].value)}" for key in keys)
        if not scope:
            yield from _providers(draft)


def _providers(draft: ImportDraft) -> Iterator[str]:
    """MirrorMaker 2 needs the declaration; mmtool knows Kafka's own providers without it."""
    kinds = providers_in(setting.value for setting in draft.lines.values())
    yield from (f"{key} = {value}" for key, value in provider_declarations(kinds).items())


def _comment(text: str) -> list[str]:
    return [f"# {printable(text)}"]


def _escaped_key(key: str) -> str:
    escaped: str = javaproperties.escape(key)
    return escaped
