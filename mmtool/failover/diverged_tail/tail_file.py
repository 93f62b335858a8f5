"""A file of diverged records, one per line: docs/concepts/diverged-tail.md describes the format.

A. The file is there whole or not at all: it gets its name when everything is on disk.
B. Reading the file gives what was read from the log: null and empty values, bytes that are no UTF-8, headers in their
   order.
C. A file that was cut off or changed is not read: the last line has a count and a SHA-256 for each partition.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from mmtool.errors import UsageError
from mmtool.kafka.batches import NO_TIMESTAMP, BatchError, Record, decode, verify_crc
from mmtool.kafka.errors import OTHER_LEADER_AND_AGAIN
from mmtool.plan.records.shapes import made, made_of
from mmtool.runtime.files import file_errors
from mmtool.translation.connect_offsets import parse_json
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mmtool.failover.diverged_tail.tails import FoundTails, PartitionTail
    from mmtool.kafka.batches import BatchView
    from mmtool.kafka.ports import BatchesPort

VERSION = 1
_BASE64 = "base64"


@dataclass(frozen=True, slots=True)
class ExportedPartition:
    """One partition's entry in the last line.

    Attributes:
        start: The offset behind the last mirrored record.
        end: The offset up to which its log was read.
        found: Records that were counted before; more than ``records`` where the log has deleted some meanwhile.
        records: Records that were written.
        sha256: Of their lines, line ends included.
    """

    topic: str
    partition: int
    kind: str
    start: int
    end: int
    found: int
    records: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ExportedTail:
    """A whole file."""

    path: Path
    operation_id: str
    source_cluster_id: str
    partitions: tuple[ExportedPartition, ...]

    @property
    def records(self) -> int:
        return sum(partition.records for partition in self.partitions)

    def holds(self, tails: FoundTails) -> bool:
        """Whether the file has every record of these tails; it may have more that the source has deleted since."""
        told = {TopicPartition(one.topic, one.partition): one for one in self.partitions}
        return all(
            (one := told.get(found.place)) is not None
            and one.start <= found.tail.start
            and one.end == found.tail.end
            and one.records >= found.tail.records
            for found in tails.to_export
        )


def default_name(operation_id: str) -> str:
    """Default name of an operation's file."""
    return f"mmtool-diverged-{operation_id}.jsonl"


def export_tail(
    source: BatchesPort, tails: FoundTails, path: Path, *, operation_id: str, source_cluster_id: str
) -> ExportedTail:
    """Write the diverged records of all partitions into a new file that only its owner can read.

    Memory holds one batch at a time. An existing file is never overwritten, since it may be the only copy of its
    records.

    Args:
        source: The logs of the flow's source.
        tails: The diverged tails; partitions that were never mirrored are not in the file.
        path: The file.
        operation_id: The failback's id, for the first line.
        source_cluster_id: The source's cluster id, for the first line.

    Raises:
        UsageError: The file exists, or cannot be written.
        UnreachableError, NotAuthorisedError, BatchError: The records cannot be read; no file is left.
    """
    unfinished = path.with_name(f"{path.name}.unfinished")
    if path.exists():
        raise UsageError(
            f"{path} exists: an earlier export is not overwritten",
            remedy="move that file away and keep it, or name another folder with --diverged-dir; then run the same"
            " command again",
        )
    try:
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(handle, "wb", buffering=1 << 20) as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(_line(_head(operation_id, source_cluster_id, committed=tails.committed)))
                written = tuple(_written(file, source, tails, found) for found in tails.to_export)
                file.write(_line({"partitions": [asdict(partition) for partition in written]}))
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(path)
            _sync_folder(path)
        finally:
            with suppress(FileNotFoundError):
                unfinished.unlink()
    except OSError as error:
        raise UsageError(
            f"the diverged records cannot be written to {path}: {error.strerror}; no offset was committed",
            remedy="name a writable folder with enough space: --diverged-dir DIR",
        ) from error
    return ExportedTail(path, operation_id, source_cluster_id, written)


def _head(operation_id: str, source_cluster_id: str, *, committed: bool) -> dict[str, Any]:
    isolation = "read_committed" if committed else "read_uncommitted"
    return {
        "mmtool_diverged": VERSION,
        "operation_id": operation_id,
        "source_cluster_id": source_cluster_id,
        "isolation": isolation,
    }


def _sync_folder(path: Path) -> None:
    folder = os.open(path.absolute().parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _written(file: Any, source: BatchesPort, tails: FoundTails, found: PartitionTail) -> ExportedPartition:
    digest, records = sha256(), 0
    for view in own_batches_of(source, tails, found):
        within = range(found.tail.start, found.tail.end)
        lines = [
            _line(_row(found.place, view, record))
            for record in _trusted(found.place, view)
            if record.offset in within
        ]
        block = b"".join(lines)
        digest.update(block)
        file.write(block)
        records += len(lines)
    tail = found.tail
    return ExportedPartition(
        *found.place, found.kind.value, tail.start, tail.end, tail.records, records, digest.hexdigest()
    )


def _trusted(place: TopicPartition, view: BatchView) -> list[Record]:
    try:
        verify_crc(view)
        return list(decode(view))
    except BatchError as error:
        raise BatchError(
            f"the records of {place} on the flow's source cannot be exported: {error.message}",
            remedy=error.remedy or OTHER_LEADER_AND_AGAIN,
        ) from error


def own_batches_of(source: BatchesPort, tails: FoundTails, found: PartitionTail) -> Iterator[BatchView]:
    """The batches of a tail without those that the reverse flow mirrored; the first may start before the tail."""
    places = range(found.tail.start, found.tail.end)
    for view in source.batches(found.place, found.topic_id, places, committed=tails.committed):
        header = view.header
        if not header.is_control and header.producer_id not in tails.brought:
            yield view


def _row(place: TopicPartition, view: BatchView, record: Record) -> dict[str, Any]:
    kind = "LogAppendTime" if view.header.is_log_append_time else "CreateTime"
    untimed = record.timestamp == NO_TIMESTAMP
    return {
        "topic": place.topic,
        "partition": place.partition,
        "offset": record.offset,
        "timestamp": None if untimed else record.timestamp,
        "timestamp_type": "NoTimestampType" if untimed else kind,
        "key": _shown(record.key),
        "value": _shown(record.value),
        "headers": [[_shown(name), _shown(content)] for name, content in record.headers],
    }


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""One encoder for all lines: ``json.dumps`` makes one per record, which doubles the time [measured]."""


def _line(content: dict[str, Any]) -> bytes:
    return _encode(content).encode() + b"\n"


def _shown(content: bytes | None) -> str | dict[str, str] | None:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {_BASE64: b64encode(content).decode()}


def read_export(path: Path) -> ExportedTail:
    """Read an exported file, and check every line of it.

    Raises:
        UsageError: The file cannot be read, or is not what `export_tail` wrote: truncated, changed, or another file.
    """
    digests: dict[TopicPartition, Any] = {}
    counts: dict[TopicPartition, int] = {}
    head: dict[str, Any] | None = None
    last: dict[str, Any] = {}
    for line, content in _lines(path):
        if head is None:
            head = content
        elif "offset" in content and not last:
            try:
                place = made(TopicPartition, content["topic"], content["partition"])
            except (KeyError, TypeError) as error:
                raise _damaged(path, "a line is not a record") from error
            digests.setdefault(place, sha256()).update(line)
            counts[place] = counts.get(place, 0) + 1
        elif last or "partitions" not in content:
            raise _damaged(path, "an unexpected line")
        else:
            last = content
    if head is not None and head.get("mmtool_diverged", VERSION) != VERSION:
        raise UsageError(
            f"{path} has the format of another mmtool version", remedy="run the mmtool version that wrote it"
        )
    if head is None or not {"mmtool_diverged", "operation_id", "source_cluster_id"} <= head.keys():
        raise _damaged(path, "its first line is not the header that mmtool writes")
    if not last:
        raise _damaged(path, "its last line is missing: the file is truncated")
    partitions = _checked(path, last, digests, counts)
    return ExportedTail(path, str(head["operation_id"]), str(head["source_cluster_id"]), partitions)


def _checked(
    path: Path, last: dict[str, Any], digests: dict[TopicPartition, Any], counts: dict[TopicPartition, int]
) -> tuple[ExportedPartition, ...]:
    """The entries of the last line, whose counts and digests are those of the file's records."""
    try:
        partitions = tuple(made_of(ExportedPartition, partition) for partition in last["partitions"])
    except (TypeError, AttributeError) as error:
        raise _damaged(path, "its last line is not what mmtool writes") from error
    told = {TopicPartition(p.topic, p.partition): (p.records, p.sha256) for p in partitions}
    for place in told.keys() | digests.keys():
        found = counts.get(place, 0), digests.get(place, sha256()).hexdigest()
        if found != told.get(place):
            raise _damaged(path, f"the records of {place} are not those that were written")
    return partitions


def _lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    remedy = "check that the file exists, and let mmtool's user read it"
    try:
        with file_errors(f"{path} cannot be read", remedy), path.open("rb") as file:
            for line in file:
                content = parse_json(line)
                if not isinstance(content, dict) or not line.endswith(b"\n"):
                    raise _damaged(path, "a line is truncated or not a JSON object")
                yield line, content
    except ValueError as error:
        raise _damaged(path, "a line is not JSON") from error


def _damaged(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} is damaged or was changed: {why}",
        remedy="move the file away and keep it, then run the same command again: mmtool exports the records again,"
        " as far as the source still holds them",
    )
