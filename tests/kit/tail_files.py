"""The records in a file of diverged records, read as a user reads it: by ``docs/concepts/diverged-tail.md``."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import TYPE_CHECKING, Any, NamedTuple

from mmtool.kafka.batches import NO_TIMESTAMP, Record
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class TailRecord(NamedTuple):
    """One line of the file."""

    place: TopicPartition
    record: Record


def exported_records(path: Path) -> Iterator[TailRecord]:
    """The records of an exported file in its order."""
    for line in path.read_bytes().splitlines():
        content = json.loads(line)
        if "offset" in content:
            timestamp = NO_TIMESTAMP if content["timestamp"] is None else content["timestamp"]
            headers = tuple((_bytes(name) or b"", _bytes(value)) for name, value in content["headers"])
            key, value = _bytes(content["key"]), _bytes(content["value"])
            record = Record(content["offset"], timestamp, key, value, headers)
            yield TailRecord(TopicPartition(content["topic"], content["partition"]), record)


def _bytes(shown: Any) -> bytes | None:
    return (
        b64decode(shown["base64"]) if isinstance(shown, dict) else shown if shown is None else shown.encode()
    )
