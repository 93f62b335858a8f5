"""Documents judged by the schemas that `make docs` writes; a key that no schema knows is an error."""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # two seconds, for IRIs: no schema here has one
from jsonschema import Draft202012Validator  # noqa: E402  after what must not be imported

from kit.reference import schemas  # noqa: E402  as above

if TYPE_CHECKING:
    from collections.abc import Iterator


def closed(schema: Any) -> Any:
    """The schema without the freedom that it leaves to later versions: objects have no other keys than these."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    return {"additionalProperties": False, **inner} if isinstance(schema.get("required"), list) else inner


@cache
def judge(name: str) -> Draft202012Validator:
    """The judge of one kind of document, by the name of its schema."""
    schema = json.loads(schemas()[name])
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(closed(schema), format_checker=Draft202012Validator.FORMAT_CHECKER)


def misfits(name: str, document: object) -> list[str]:
    """Where a document is not what its schema says."""
    return [f"{error.json_path}: {error.message[:300]}" for error in judge(name).iter_errors(document)]


@cache
def _names_by_command() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, text in schemas().items():
        for command in json.loads(text).get("properties", {}).get("command", {}).get("enum", ()):
            found.setdefault(command, []).append(name)
    return found


def check_document(document: dict[str, Any]) -> None:
    """Assert that a document of ``-o json`` is what one of its command's schemas says."""
    names = _names_by_command().get(document["command"], ["error"])
    told = {name: misfits(name, document) for name in names}
    assert not all(told.values()), f"no schema fits `mmtool {document['command']}`: {told}"


def check_output(text: str) -> None:
    """Assert it of all documents in a text: one, or one per line; of other texts nothing."""
    for document in documents_in(text):
        check_document(document)


def documents_in(text: str) -> Iterator[dict[str, Any]]:
    """The documents of ``-o json`` in what a command wrote on stdout."""
    for part in [text] if text.startswith("{\n") else text.splitlines():
        if part.startswith("{"):
            document = json.loads(part)
            if "schema_version" in document and "command" in document:
                yield document
