"""How a scenario's commands have ended, compared with what it expects: sentences about every difference."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kit.processes import Answer
    from kit.scenarios import End, SceneState

_OPERATION = re.compile(r"^operation (\S+) started$", re.MULTILINE)


def operation_of(answer: Answer) -> str | None:
    """The operation that a command has begun, as it tells the person who watches; None where it began none."""
    found = _OPERATION.search(answer.stderr)
    return found[1] if found else None


def differences(end: End, answer: Answer) -> list[str]:
    """What is not as it has to be, in sentences."""
    if end.code is None:
        return []  # whoever is killed says nothing; what stands afterwards tells
    if end.prints is not None:
        right = (answer.code, answer.stdout) == (end.code, end.prints)
        wrong = [] if right else [f"it ended with {answer.code} and {answer.stdout!r}, not {end.prints!r}"]
        return wrong + [f"it does not say {words!r}" for words in end.says if words not in answer.stderr]
    document = json.loads(answer.stdout)
    return [
        *_code(end, answer, document),
        *_words(end, answer, document),
        *(_rows(end, document["data"]) if end.rows is not None else _operation(end, document["data"])),
    ]


def _code(end: End, answer: Answer, document: Mapping[str, Any]) -> Iterable[str]:
    errors = tuple(error["code"] for error in document["errors"])
    if (answer.code, errors) != (end.code, end.errors):
        yield f"it ended with {answer.code} and {errors}, not {end.code} and {end.errors}: {document['errors']}"


def _words(end: End, answer: Answer, document: Mapping[str, Any]) -> Iterable[str]:
    errors = [f"{error['message']}; {error['remedy']}" for error in document["errors"]]
    said = "\n".join([answer.stderr, *errors, *document["warnings"]])
    yield from (f"it does not say {words!r}:\n{said}" for words in end.says if words not in said)
    yield from (f"it says {words!r}:\n{said}" for words in end.says_not if words in said)


def _operation(end: End, rows: list[Mapping[str, Any]]) -> Iterable[str]:
    if not (end.row or end.steps or end.partitions):
        return
    if len(rows) != 1:
        yield f"{len(rows)} rows, and not one operation's"
        return
    (row,) = rows
    yield from _differing("the operation", end.row, row)
    steps = {step["name"]: step["state"] for step in row["steps"]}
    yield from _differing("steps", end.steps, steps)
    found = {
        (group["group"], f"{of['topic']}-{of['partition']}"): of
        for group in row["groups"]
        for of in group["partitions"]
    }
    for place, wanted in end.partitions.items():
        yield from _differing(" ".join(place), wanted, found.get(place, {}))


def _rows(end: End, rows: list[Mapping[str, Any]]) -> Iterable[str]:
    wanted = end.rows or ()
    if len(rows) != len(wanted):
        yield f"{len(rows)} rows, not {len(wanted)}: {rows}"
        return
    for number, (row, keys) in enumerate(zip(rows, wanted, strict=True), 1):
        yield from _differing(f"row {number}", keys, row)


def _differing(what: str, wanted: Mapping[str, Any], found: Mapping[str, Any]) -> Iterable[str]:
    """TOML has no word for null: ``"null"`` stands for it."""
    for key, value in wanted.items():
        if key not in found:
            yield f"{what}: there is no {key} in {dict(found)}"
        elif found[key] != (None if value == "null" else value):
            yield f"{what}: {key} is {found[key]!r}, not {value!r}"


def standing_differences(expected: SceneState, found: SceneState) -> list[str]:
    """What does not stand as it has to, in sentences."""
    return [
        f"{key} afterwards: {getattr(found, key)}, not {getattr(expected, key)}"
        for key in ("commits", "failed_over", "moved", "operations", "rules", "exported", "marked_by")
        if getattr(expected, key) not in (None, getattr(found, key))
    ]
