"""Schemas of Kafka's messages, and the one interpreter that encodes and decodes by them.

A schema is text: the fields of a request or a response in Kafka's order, each as ``name:type``. The types are `KINDS`
and those that the schema is given by name; ``[type]`` is a list of one. ``=-1`` marks a field of a request with a fixed
value, ``@4`` one that versions before 4 do not have.

Flexible versions have compact lengths, and tagged fields at the end of each structure (KIP-482).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from operator import attrgetter, itemgetter, methodcaller
from typing import Any, NamedTuple

from mmtool.kafka.wire.codec import (
    NO_TAGS,
    NO_TOPIC_ID,
    Cursor,
    array,
    compact_array,
    compact_string,
    int32,
    string,
    topic_id_to_bytes,
    uvarint,
)
from mmtool.translation.types import TopicPartition

Read = Callable[[Cursor], Any]
Write = Callable[[Any], bytes]

_FIELD = re.compile(r"(\w+):([\w\[\]]+)(?:=([\w-]+))?(?:@(\d+))?")
_FIXED = {"null": None, "empty": "", "zero": NO_TOPIC_ID, "-1": -1, "0": 0, "1": 1}


class Form(NamedTuple):
    """The version of a request, and whether it is a flexible one."""

    version: int
    is_flexible: bool


class FieldType(NamedTuple):
    """The type of a field.

    Attributes:
        reader, writer: Return the function that reads a value from a response, or encodes one for a request.
        code: In `struct`, for a type with one length.
    """

    reader: Callable[[Form], Read]
    writer: Callable[[Form], Write]
    code: str = ""

    def converted(
        self, into: Callable[[Any], Any] | None = None, out: Callable[[Any], Any] | None = None
    ) -> FieldType:
        """The same encoding of other values: ``into`` makes them of Kafka's, ``out`` makes Kafka's of them."""

        def reader(form: Form) -> Read:
            read = self.reader(form)
            return (lambda cursor: into(read(cursor))) if into else read

        def writer(form: Form) -> Write:
            write = self.writer(form)
            return (lambda value: write(out(value))) if out else write

        return FieldType(reader, writer)


def row(text: str, make: Callable[..., Any] = dict, /, **kinds: FieldType) -> FieldType:
    """The type of a structure.

    A request is encoded from a mapping of its values by name; of a response ``make`` is called with them, as far as the
    version has them. A field whose name begins with an underscore is left out of both; a field ``key`` of a response is
    the first of a pair with what ``make`` makes of the others.
    """

    def fields(form: Form) -> dict[str, FieldType]:
        return {
            name: _kind(kind, fixed, kinds)
            for name, kind, fixed, since in _FIELD.findall(text)
            if int(since or 0) <= form.version
        }

    def reader(form: Form) -> Read:
        of_version = fields(form)
        made = _maker(make, of_version)
        parts = list(_readers(of_version.values(), form))

        def read(cursor: Cursor) -> Any:
            values = [value for part in parts for value in part(cursor)]
            cursor.tags()
            return made(values)

        return read

    def writer(form: Form) -> Write:
        parts = [(name, kind.writer(form)) for name, kind in fields(form).items()]
        end = NO_TAGS if form.is_flexible else b""
        return lambda values: b"".join([part(values.get(name)) for name, part in parts]) + end

    return FieldType(reader, writer)


def _maker(make: Callable[..., Any], names: Iterable[str]) -> Callable[[list[Any]], Any]:
    """What ``make`` makes of a row's values: by their place for a named tuple, which is faster, else by their names."""
    wanted = {name: at for at, name in enumerate(names) if not name.startswith("_")}
    key = wanted.pop("key", None)
    places = [wanted[name] for name in getattr(make, "_fields", ()) if name in wanted]
    pick = itemgetter(*places) if places else None

    def made(values: list[Any]) -> Any:
        return make(*pick(values)) if pick else make(**{name: values[at] for name, at in wanted.items()})

    return made if key is None else lambda values: (values[key], made(values))


def _readers(kinds: Iterable[FieldType], form: Form) -> Iterator[Read]:
    """Functions that read adjacent fields and return a sequence; adjacent numbers are read in one call."""
    for are_numbers, of in groupby(kinds, lambda kind: kind.code != ""):
        if are_numbers:
            yield methodcaller("fields", struct.Struct(">" + "".join(kind.code for kind in of)))
        else:
            yield from (_single(kind.reader(form)) for kind in of)


def _single(read: Read) -> Read:
    return lambda cursor: (read(cursor),)


def _kind(name: str, fixed: str, kinds: Mapping[str, FieldType]) -> FieldType:
    """The type of a name in a schema, or of a field with a fixed value."""
    in_list = name.startswith("[")
    kind = array_of(_kind(name[1:-1], "", kinds)) if in_list else kinds.get(name) or KINDS[name]
    return kind.converted(out=lambda _: _FIXED[fixed]) if fixed else kind


def array_of(item: FieldType) -> FieldType:
    """The type of a list; a null one is read as an empty one, and written for None."""

    def reader(form: Form) -> Read:
        if item.code:  # numbers are read in one call
            layouts = lru_cache(lambda count: struct.Struct(f">{count}{item.code}"))
            return lambda cursor: cursor.fields(layouts(cursor.count()))
        read = item.reader(form)
        return lambda cursor: cursor.array(lambda: read(cursor))

    def writer(form: Form) -> Write:
        write = item.writer(form)
        join, null = (compact_array, uvarint(0)) if form.is_flexible else (array, int32(-1))
        return lambda values: null if values is None else join(map(write, values))

    return FieldType(reader, writer)


def single(values: Collection[Any]) -> Any:
    """The one value of several; ValueError where there are more or none."""
    (value,) = values
    return value


def only(**fields: Any) -> Any:
    """Make a `row` the value of its one field."""
    return single(fields.values())


def by_key(text: str, make: Callable[..., Any], /, **kinds: FieldType) -> FieldType:
    """The type of a list of rows that have a field ``key``: a mapping of it to what ``make`` makes of the others."""
    return array_of(row(text, make, **kinds)).converted(into=dict)


def by_topic(
    text: str, make: Callable[..., Any] = only, /, *, of_topic: str = "", **kinds: FieldType
) -> FieldType:
    """The type of partitions that are listed under their topics: a mapping of each to a row as of `row`.

    ``of_topic`` has the fields between a topic's name and its partitions.
    """

    def into(topics: list[dict[str, Any]]) -> dict[TopicPartition, Any]:
        return {
            TopicPartition(topic["name"], number): value
            for topic in topics
            for number, value in topic["partitions"]
        }

    def out(values: Mapping[TopicPartition, dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {"name": topic, "partitions": [{"key": place.partition, **values[place]} for place in places]}
            for topic, places in groupby(sorted(values), attrgetter("topic"))
        ]

    partition = row(f"key:int32 {text}", make, **kinds)
    topic = row(f"name:string {of_topic} partitions:[partition]", partition=partition)
    return array_of(topic).converted(into, out)


def _number(code: str) -> FieldType:
    layout = struct.Struct(f">{code}")
    return FieldType(lambda _: lambda cursor: cursor.fields(layout)[0], lambda _: layout.pack, code)


_NULLABLE = FieldType(lambda _: Cursor.string, lambda form: compact_string if form.is_flexible else string)

KINDS = {
    "bool": _number("?"),
    "int8": _number("b"),
    "int16": _number("h"),
    "int32": _number("i"),
    "int64": _number("q"),
    "uuid": FieldType(lambda _: Cursor.topic_id, lambda _: topic_id_to_bytes),
    "bytes": FieldType(
        lambda _: lambda cursor: bytes(cursor.records()), lambda _: lambda octets: int32(len(octets)) + octets
    ),
    "nullable": _NULLABLE,
    "string": _NULLABLE.converted(into=lambda text: text or ""),
    "places": array_of(row("name:string partitions:[int32]")).converted(
        out=lambda places: [
            {"name": topic, "partitions": [place.partition for place in of]}
            for topic, of in groupby(sorted(set(places)), attrgetter("topic"))
        ]
    ),
    "errors": by_topic("error_code:int16"),
}
"""Types by their names in a schema.

``string`` is empty for null, ``bytes`` are sent in plain versions only, ``places`` are partitions under their topics.
"""
