"""Record batches of Kafka as Arrow columns, and back; unchanged batches and records keep their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mmtool.errors import MmtoolError
from mmtool.kafka.batches import BatchError, BatchView
from mmtool.kafka.batches.rebuild import with_records
from mmtool.kafka.batches.records import RecordColumns, body_of, body_with, fields_of, nullable, read_columns
from mmtool.plan.flow.transforms import Condition, On, Step

if TYPE_CHECKING:
    import pyarrow as pa

_NO_HEADERS = b"\0"


class WrongRowsError(MmtoolError):
    """A function returned other columns or rows than it may; the message says which."""

    code = "wrong_rows"


class Rows(NamedTuple):
    """The records of consecutive batches of one partition.

    Attributes:
        columns: The records.
        keys, values: Of each record.
        headers: Of each record, as bytes: the number of headers, then the headers.
    """

    columns: RecordColumns
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[bytes]

    def __len__(self) -> int:
        return len(self.keys)

    def kept(self, stays: Sequence[bool]) -> Rows:
        """The records for which ``stays`` is true."""
        at = [number for number, one in enumerate(stays) if one]
        columns = self.columns
        return Rows(
            RecordColumns(
                [columns.offsets[i] for i in at],
                [columns.timestamps[i] for i in at],
                [columns.attributes[i] for i in at],
                [columns.bodies[i] for i in at],
            ),
            [self.keys[i] for i in at],
            [self.values[i] for i in at],
            [self.headers[i] for i in at],
        )


def rows_of(views: Sequence[BatchView], start: int, stop: int) -> Rows:
    """The records of batches from offset ``start`` up to ``stop``, in order.

    Raises:
        BatchError: A batch cannot be read.
    """
    columns = RecordColumns()
    for view in views:
        columns.extend(read_columns(view))
    columns = columns.wanted(start, ())
    if columns.offsets and columns.offsets[-1] >= stop:
        columns = columns.part(0, sum(offset < stop for offset in columns.offsets))
    rows = Rows(columns, [], [], [])
    try:
        for body in columns.bodies:
            key, at = nullable(body, 0)
            low, high = body[at], body[at + 1]
            end = at + 2 + ((low & 127 | high << 7) >> 1)
            value: bytes | None
            if (
                low > 127 > high and not low & 1 and end < len(body)
            ):  # 64 bytes to 8 KB: a call would cost more
                value, at = body[at + 2 : end], end
            else:
                value, at = nullable(body, at)
            rows.keys.append(key)
            rows.values.append(value)
            rows.headers.append(body[at:])
    except (IndexError, ValueError) as error:
        raise BatchError("a record ends in the middle of a field") from error
    return rows


def views_with(views: Sequence[BatchView], rows: Rows) -> list[BatchView]:
    """The same batches with the records of ``rows`` instead of their own; a batch without any has no record left."""
    columns, found, start = rows.columns, [], 0
    for view in views:
        stop = start
        while stop < len(columns) and columns.offsets[stop] < view.header.next_offset:
            stop += 1
        found.append(with_records(view, columns.part(start, stop)))
        start = stop
    return found


def after_steps(rows: Rows, steps: Sequence[Step]) -> Rows:
    """The records after Kafka Connect's transforms; a record whose header has no readable name is no match."""
    for step in steps:
        meets = _meets(rows, step.condition)
        if step.headers is None:
            rows = rows.kept([not one for one in meets])
            continue
        dropped = {name.encode() for name in step.headers}
        for number in [number for number, one in enumerate(meets) if one]:
            if rows.headers[number] != _NO_HEADERS:
                _, _, headers = fields_of(rows.columns.bodies[number])
                left = [one for one in headers if one[0] not in dropped]
                if len(left) < len(headers):
                    _put(rows, number, rows.keys[number], rows.values[number], _encoded(left))
    return rows


def _meets(rows: Rows, condition: Condition | None) -> list[bool]:
    if condition is None:
        return [True] * len(rows)
    if condition.on is On.TOMBSTONE:
        return [(value is None) != condition.negated for value in rows.values]
    name = condition.text.encode()
    return [
        (headers != _NO_HEADERS and any(one[0] == name for one in fields_of(body)[2])) != condition.negated
        for headers, body in zip(rows.headers, rows.columns.bodies, strict=True)
    ]


def _encoded(headers: Iterable[tuple[bytes, bytes | None]]) -> bytes:
    return body_of(None, None, tuple(headers))[2:]  # behind a null key and a null value of one byte each


def _put(rows: Rows, number: int, key: bytes | None, value: bytes | None, headers: bytes) -> None:
    rows.keys[number], rows.values[number], rows.headers[number] = key, value, headers
    rows.columns.bodies[number] = body_with(key, value, headers)


def to_arrow(rows: Rows, topic: str, partition: int) -> pa.RecordBatch:
    """The records as an Arrow batch: topic, partition, offset, timestamp, key, value, headers."""
    import pyarrow as pa

    count, schema = len(rows), arrow_schema()
    arrays = [
        pa.repeat(pa.scalar(topic, pa.string()), count),
        pa.repeat(pa.scalar(partition, pa.int32()), count),
        pa.array(rows.columns.offsets, pa.int64()),
        pa.array(rows.columns.timestamps, pa.int64()).cast(schema.field("timestamp").type),
        pa.array(rows.keys, pa.binary()),
        pa.array(rows.values, pa.binary()),
        pa.array(
            [
                [] if headers == _NO_HEADERS else _named(fields_of(body)[2])
                for headers, body in zip(rows.headers, rows.columns.bodies, strict=True)
            ],
            schema.field("headers").type,
        ),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def arrow_schema() -> pa.Schema:
    """The columns of a function's batches, as Spark's source of Kafka names them; timestamps in ms, UTC."""
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("ms", "UTC")),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", pa.list_(header)),
        ]
    )


def _named(headers: Sequence[tuple[bytes, bytes | None]]) -> list[dict[str, Any]]:
    return [{"key": name.decode(errors="replace"), "value": content} for name, content in headers]


def from_arrow(rows: Rows, given: pa.RecordBatch, made: Sequence[pa.RecordBatch]) -> Rows:
    """The records that a function made of ``given``, which is `to_arrow` of ``rows``.

    Raises:
        WrongRowsError: Other columns, more rows, another order, or another offset, partition, topic or timestamp.
    """
    import numpy as np
    import pyarrow as pa

    if len(made) == 1 and (made[0] is given or made[0].equals(given)):
        return rows
    table = pa.Table.from_batches([_cast(batch, given.schema) for batch in made], given.schema)
    result = table.combine_chunks()
    offsets = result.column("offset").to_numpy()
    known = np.array(rows.columns.offsets, dtype=np.int64)
    at = known.searchsorted(offsets)
    if len(offsets) > len(known) or (np.diff(at) <= 0).any() or not np.isin(offsets, known).all():
        raise WrongRowsError(
            "returned rows with other offsets, or in another order: rows may only be left out"
        )
    picked = given.take(pa.array(at))
    for name in ("topic", "partition", "timestamp"):
        if not result.column(name).combine_chunks().equals(picked.column(name)):
            raise WrongRowsError(f"changed the column {name}: only key, value and headers may change")
    stays = np.zeros(len(known), dtype=bool)
    stays[at] = True
    left = rows if stays.all() else rows.kept(stays.tolist())
    if not len(left):
        return left
    columns = {name: result.column(name).combine_chunks() for name in ("key", "value", "headers")}
    changed = {name for name, column in columns.items() if not column.equals(picked.column(name))}
    if not changed:
        return left
    keys = columns["key"].to_pylist() if "key" in changed else left.keys
    values = columns["value"].to_pylist() if "value" in changed else left.values
    headers = _headers(left, picked, columns["headers"]) if "headers" in changed else left.headers
    for number, three in enumerate(zip(keys, values, headers, strict=True)):
        _put(left, number, *three)
    return left


def _headers(rows: Rows, given: pa.RecordBatch, made: pa.Array) -> list[bytes]:
    """The headers that a function returned; where it changed none, the bytes that were there."""
    before = given.column("headers").to_pylist()
    found = []
    for number, headers in enumerate(made.to_pylist()):
        if headers == before[number]:
            found.append(rows.headers[number])
        else:
            found.append(_encoded([(one["key"].encode(), one["value"]) for one in headers or ()]))
    return found


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    import pyarrow as pa

    if len(batch.schema.names) > len(schema.names):
        more = next((name for name in batch.schema.names if name not in schema.names), "")
        raise WrongRowsError(
            f"returned the column {more}, which records do not have" if more else "returned a column twice"
        )
    try:
        return batch.select(schema.names).cast(schema)
    except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError, AttributeError) as error:
        raise WrongRowsError(
            f"returned the columns {', '.join(batch.schema.names)} with other names or types than it got"
        ) from error
