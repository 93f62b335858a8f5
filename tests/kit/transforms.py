"""Topics whose records are changed on the way, and what has to be on the target of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from mmtool.lab.topics import create_topic, read_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

EMAIL = "ann@example.com"


def document(number: int) -> bytes:
    """A JSON value with a field to mask, and a number that no float holds."""
    return b'{"n":%d, "email":"%s","big":12345678901234567890}' % (number, EMAIL.encode())


def send(
    bootstrap: str, topic: str, values: Iterable[bytes | None], partitions: int = 1, **more: Any
) -> None:
    """Each value as a record, whose key is its number."""
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4", "linger.ms": 5})
    for number, value in enumerate(values):
        producer.produce(topic, value, b"%d" % number, partition=number % partitions, **more)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


def topic_of(bootstrap: str, topic: str, count: int, partitions: int = 1) -> str:
    """A new topic with so many documents."""
    create_topic(bootstrap, topic, partitions)
    send(bootstrap, topic, map(document, range(count)), partitions)
    return topic


def module(folder: Path, text: str, name: str = "masks") -> None:
    """A module beside a properties file."""
    (folder / f"{name}.py").write_text(f"import pyarrow as pa\n{text}")


ODD_GO = """
def change(batches):
    for batch in batches:
        stays = [int(key.as_py()) % 3 != 1 for key in batch["key"]]
        yield batch.filter(pa.array(stays, pa.bool_()))
"""
"""Leaves out every third record, by its key."""


def check_exact(
    ends: tuple[str, str],
    topic: str,
    remote: str,
    make: Callable[[bytes | None, bytes | None], Any],
    *,
    same: bool = False,
    partitions: Collection[int] | None = None,
) -> None:
    """Each kept record is there once, in order and as it was made, and no other one is.

    ``make`` gets key and value, and returns the value that must be there; `DROPPED` for none.
    """
    source, target = ends
    wanted: dict[int, list[Any]] = {}
    for record in read_topic(source, topic):
        value = make(record.key, record.value)
        if value is not DROPPED and (partitions is None or record.partition in partitions):
            at = (record.offset,) if same else ()
            wanted.setdefault(record.partition, []).append((record.key, value, *at))
    found: dict[int, list[Any]] = {}
    for record in read_topic(target, remote):
        at = (record.offset,) if same else ()
        if partitions is not None and record.partition not in partitions:
            continue
        found.setdefault(record.partition, []).append((record.key, record.value, *at))
    assert found == wanted


DROPPED = object()


def masked(_: bytes | None, value: bytes | None) -> bytes | None:
    """What ``mask_json`` makes of `document`."""
    return None if value is None else value.replace(b'"' + EMAIL.encode() + b'"', b'"***"')


def third_gone(key: bytes | None, value: bytes | None) -> Any:
    """What `ODD_GO` makes of a record."""
    return DROPPED if int(key or b"0") % 3 == 1 else value


def check_commits(
    ends: tuple[str, str],
    topic: str,
    remote: str,
    rows: Sequence[Mapping[str, Any]],
    make: Callable[..., Any],
    *,
    same: bool = False,
) -> None:
    """Each committed offset leads to the first kept record from it on; all are exact.

    With the source's own offsets it leads to itself: a marker is where a record was left out.
    """
    source, target = ends
    numbers = {record.key: (record.partition, record.offset) for record in read_topic(target, remote)}
    for row in rows:
        assert row["exactness"] == "exact", row
        rest = [
            numbers[record.key][1]
            for record in read_topic(source, topic)
            if record.partition == row["partition"] and record.offset >= row["upstream_offset"]
            if make(record.key, record.value) is not DROPPED
        ]
        if same:
            assert row["downstream_offset"] == row["upstream_offset"], row
        elif rest:
            assert row["downstream_offset"] == rest[0], row
