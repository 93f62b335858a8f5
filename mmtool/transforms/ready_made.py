"""Ready-made functions for ``mmtool.transform``: each makes a function with the signature of Spark's `mapInArrow`.

They get their settings, which are the keys ``mmtool.transform.KEY``, and ``on.error`` with what to do with a value that
is no JSON.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from mmtool.transforms.json_paths import JsonRewriter, NotJsonError, parse_paths

if TYPE_CHECKING:
    import pyarrow as pa

Transform: TypeAlias = "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]"
"""Batches of records in, batches of the same columns out."""

Factory: TypeAlias = "Callable[[Mapping[str, str]], Transform]"

_TRUE = {"true": True, "false": False}


@dataclass(slots=True)
class Unreadable:
    """How many values were no JSON since ``count`` was set to 0, and were copied or left out."""

    count: int = 0


UNREADABLE = Unreadable()


def mask_json(settings: Mapping[str, str]) -> Transform:
    """Replace values of JSON documents by one text.

    Settings: ``paths`` (a comma-separated list, as ``customer.email, items[*].card``), ``mask`` (JSON, by default
    ``"***"``). Null stays null.

    Raises:
        ValueError: A setting is missing or wrong; names it.
    """
    mask = settings.get("mask", '"***"').strip()
    try:
        json.loads(mask)
    except ValueError as error:
        raise ValueError(f'mask is no JSON: write a text in quotes, as "{mask}"') from error
    return _json(settings, lambda _: mask, "paths", "mask")


def hash_json(settings: Mapping[str, str]) -> Transform:
    """Replace values of JSON documents by their HMAC-SHA256, as 64 hexadecimal digits.

    Equal values get equal hashes. A text is hashed as the UTF-8 of its characters, any other value as its JSON text.
    Settings: ``paths`` as of `mask_json`, ``secret`` (the key of the HMAC, from a configuration provider).

    Raises:
        ValueError: A setting is missing or wrong; names it.
    """
    secret = settings.get("secret", "").encode()
    if not secret:
        raise ValueError("secret is missing: set it from a provider, as ${file:/run/secrets/mmtool:hash}")

    def replace(value: str) -> str:
        content = json.loads(value) if value.startswith('"') else value
        return f'"{hmac.digest(secret, content.encode("utf-8", "surrogatepass"), "sha256").hex()}"'

    return _json(settings, replace, "paths", "secret")


def drop(settings: Mapping[str, str]) -> Transform:
    """Leave records out: those that meet any of the conditions that are set.

    Settings: ``key.pattern`` (a regular expression that matches a whole key), ``header`` (the name of a header),
    ``tombstones`` (true: records without a value).

    Raises:
        ValueError: No condition is set, or one is wrong; names it.
    """
    _check(settings, "key.pattern", "header", "tombstones")
    try:
        pattern = re.compile(settings["key.pattern"].encode()) if "key.pattern" in settings else None
    except re.error as error:
        raise ValueError(f"key.pattern is no regular expression: {error}") from error
    header, tombstones = settings.get("header"), settings.get("tombstones", "false").strip().lower()
    if tombstones not in _TRUE:
        raise ValueError("tombstones must be true or false")
    if pattern is None and header is None and not _TRUE[tombstones]:
        raise ValueError("set key.pattern, header or tombstones")

    def stays(key: bytes | None, value: bytes | None, headers: list[dict[str, Any]]) -> bool:
        is_named = pattern is not None and key is not None and pattern.fullmatch(key) is not None
        is_tombstone = _TRUE[tombstones] and value is None
        return not (is_named or is_tombstone or any(one["key"] == header for one in headers))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("key", "value", "headers"))
            yield batch.filter(pa.array(map(stays, *columns), pa.bool_()))

    return run


def _json(settings: Mapping[str, str], replace: Callable[[str], str], *known: str) -> Transform:
    """A function that rewrites the values of records, and does with values that are no JSON what ``on.error`` says."""
    _check(settings, *known)
    paths = [path.strip() for path in settings.get("paths", "").split(",") if path.strip()]
    if not paths:
        raise ValueError("paths is missing: list the values to replace, as customer.email, items[*].card")
    rewriter, on_error = JsonRewriter(parse_paths(paths), replace), settings.get("on.error", "halt")

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            values, kept = [], [True] * batch.num_rows
            for number, value in enumerate(batch.column("value").to_pylist()):
                try:
                    values.append(None if value is None else rewriter.rewrite(value))
                except NotJsonError:
                    if on_error == "halt":
                        raise
                    UNREADABLE.count += 1
                    kept[number] = on_error == "copy"
                    values.append(value)
            at = batch.schema.get_field_index("value")
            changed = batch.set_column(at, batch.schema.field(at), pa.array(values, pa.binary()))
            yield changed if all(kept) else changed.filter(pa.array(kept, pa.bool_()))

    return run


def _check(settings: Mapping[str, str], *known: str) -> None:
    for name in settings.keys() - {*known, "on.error"}:
        raise ValueError(f"{name} is no setting of this function; it has {', '.join(known)}")
