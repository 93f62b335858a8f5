"""mmtool's own stored state, which is read back years later, by another version, or after an accident."""

from __future__ import annotations

import json
import struct
import sys
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints
from zlib import crc32

from kit.decoders.table import Decoder, packed, parts
from kit.runs import ORDERS
from mmtool.errors import RefusedError
from mmtool.failover.operation.records import recorded
from mmtool.plan.failover.risks import Loss, Risk
from mmtool.plan.groups.facts import Commit
from mmtool.plan.groups.offsets import Direction, GroupPlan, OffsetVerdict
from mmtool.plan.records import documents
from mmtool.plan.records.documents import Document, UnreadableDocumentError
from mmtool.plan.records.identity import CONTROL_DOCUMENTS
from mmtool.plan.records.journal import EntryKind, JournalEntry, group_body
from mmtool.translation.answers import Bounded, Exact, Knowledge
from mmtool.translation.block_codec import decode_block, decode_key, encode_block, encode_key
from mmtool.translation.blocks import BlockKey, MirrorStart, SeenOffset, WriterState
from mmtool.translation.errors import UnreadableStateError
from mmtool.translation.partition_map import join_blocks
from mmtool.translation.recorder import MapRecorder
from mmtool.translation.stored_runs import stored_block
from mmtool.translation.types import DownstreamOffset, TopicId, TopicPartition, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmtool.translation.blocks import Block
    from mmtool.translation.partition_map import PartitionMap

PLACE = TopicPartition("orders", 3)
_CODEC = ("mmtool.translation.block_codec",)
_RECORDS = "mmtool.plan.records"


def rows() -> Iterator[Decoder]:
    unreadable = (UnreadableStateError,)
    yield Decoder("keys of offset runs", _CODEC, _block_keys, decode_key, unreadable, sealed_frame)
    yield Decoder("blocks of offset runs", _CODEC, _blocks, _read_block, unreadable, sealed_frame)
    yield Decoder(
        "several blocks of offset runs",
        (*_CODEC, "mmtool.translation.partition_map"),
        lambda: [packed(*_chain())],
        lambda data: join_blocks(map(decode_block, parts(data, 3))),
        unreadable,
        _sealed_frames,
    )
    yield Decoder(
        "stored blocks of offset runs",
        (*_CODEC, "mmtool.translation.partition_map", "mmtool.translation.stored_runs"),
        lambda: [packed(*_chain())],
        lambda data: _looked_up(join_blocks(map(stored_block, parts(data, 3)))),
        unreadable,
        _sealed_frames,
    )
    for kind in every_document():
        yield Decoder(
            f"document {kind.__name__}",
            (kind.__module__, f"{_RECORDS}.documents", f"{_RECORDS}.shapes", f"{_RECORDS}.identity"),
            partial(_documents, kind),
            partial(_read_document, kind),
            (UnreadableDocumentError,),
            sealed_document,
        )
    yield Decoder(
        "journal",
        (f"{_RECORDS}.journal", "mmtool.failover.operation.records"),
        lambda: [b"\n".join(entry.encode() for entry in journal())],
        _read_journal,
        (UnreadableDocumentError, RefusedError),
        lambda data: b"\n".join(map(sealed_document, data.split(b"\n"))),
    )


def every_document() -> list[type[Document]]:
    """Every class of documents that mmtool stores."""
    assert set(CONTROL_DOCUMENTS) <= set(Document.__subclasses__())
    found = (
        kind
        for kind in Document.__subclasses__()
        if kind.__module__.startswith("mmtool.")
        and getattr(sys.modules[kind.__module__], kind.__name__) is kind
    )
    return sorted(found, key=lambda kind: kind.__name__)


def _documents(kind: type[Document]) -> list[bytes]:
    return [document(kind, bare=bare).encode() for bare in (False, True)]


def document(kind: type[Document], *, bare: bool = False) -> Document:
    """A document with something in every field, or with ``bare`` in those alone that have no default."""
    hints = get_type_hints(kind)
    given = {
        field.name: some(hints[field.name])
        for field in fields(kind)  # type: ignore[arg-type]  # a dataclass
        if not (bare and (field.default is not MISSING or field.default_factory is not MISSING))
    }
    return kind(**given)


def some(kind: Any) -> Any:
    """A value of an annotated type."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is dict:
        return {"7": some(inner[1]) if inner[1] is not Any else "x"}
    if origin is tuple:
        return (some(inner[0]),) * 2
    if inner:
        return some(inner[0])
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{field.name: some(hints[field.name]) for field in fields(kind)})
    if kind in (int, float, bool, str):
        return {int: 7, float: 1.5, bool: True, str: "some"}[kind]
    return next(iter(kind))


def _read_document(kind: type[Document], data: bytes) -> None:
    """Decoded by itself and by its key, and everything that it can say is asked of it."""
    found = kind.decode(data)
    for name in dir(kind):
        if isinstance(getattr(kind, name), property):
            getattr(found, name)


def sealed_document(damaged: bytes) -> bytes:
    """A document with the checksum that fits it, where it still is one."""
    try:
        body = json.loads(damaged)
        del body["crc"]
        canonical = documents._canonical({**body, "v": documents.VERSION})
        return documents._canonical({**body, "v": documents.VERSION, "crc": crc32(canonical)})
    except (ValueError, KeyError, TypeError, RecursionError):
        return damaged


def block(runs: int = 3) -> Block:
    """A block with everything known."""
    recorder = MapRecorder.begin(ORDERS, MirrorStart(UpstreamOffset(3), DownstreamOffset(40)))
    seen = SeenOffset(UpstreamOffset(10_000_000), 1_780_000_000_000)
    recorder.saw_source(seen, SeenOffset(UpstreamOffset(0), 1_780_000_000_000))
    for i in range(runs):
        up, down = UpstreamOffset(3 + i * 11), DownstreamOffset(40 + i * 10)
        recorder.appended(up, down, 10, writer=WriterState(4000, 2, 10 * i))
        recorder.passed(UpstreamOffset(up + 10), leader_epoch=11)
    return recorder.take()[-1]


def _block_keys() -> Iterator[bytes]:
    yield encode_key(BlockKey(TopicId("r3lWkq7dQ1mQ3i0m3yq1Ng"), 300, UpstreamOffset(1 << 40)))


def _blocks() -> Iterator[bytes]:
    for runs in (1, 3, 200):
        yield encode_block(block(runs))


def _chain() -> list[bytes]:
    """Three blocks of one partition, each of which follows the one before."""
    recorder = MapRecorder.begin(ORDERS, MirrorStart(UpstreamOffset(3), DownstreamOffset(40)), max_runs=2)
    for i in range(6):
        recorder.appended(
            UpstreamOffset(3 + i * 11), DownstreamOffset(40 + i * 10), 10, writer=WriterState(1, 2, 3)
        )
        recorder.passed(UpstreamOffset(13 + i * 11))
    return [encode_block(one) for one in recorder.take()]


def _read_block(data: bytes) -> None:
    found = decode_block(data)
    encode_block(found)


def _looked_up(known: PartitionMap) -> None:
    """Stored runs are decoded where an offset is looked up."""
    for offset in range(3, 70, 7):
        known.runs.find_forward(UpstreamOffset(offset))
        known.runs.find_reverse(DownstreamOffset(offset))
        known.runs.around(UpstreamOffset(offset))
    _ = known.runs.records, known.runs.columns


def sealed_frame(damaged: bytes) -> bytes:
    """A key or block of offset runs with the checksum that fits it."""
    if len(damaged) < 5:
        return damaged
    return struct.pack(">BI", damaged[0], crc32(damaged[5:], damaged[0])) + damaged[5:]


def _sealed_frames(damaged: bytes) -> bytes:
    return packed(*(sealed_frame(part)[:65535] for part in parts(damaged, 3)))


def group_plan(group: str = "app") -> GroupPlan:
    """A group of two partitions, one of each kind of answer."""
    verdicts = (
        OffsetVerdict(
            group,
            PLACE,
            PLACE,
            Commit(7, "m"),
            Exact(DownstreamOffset(5)),
            None,
            False,
            Commit(3),
            Knowledge.RECORDS,
        ),
        OffsetVerdict(group, PLACE, PLACE, Commit(7), Bounded(DownstreamOffset(5), 9)),
    )
    return GroupPlan(group, Direction.FORWARD, verdicts)


def journal() -> list[JournalEntry]:
    """The entries of an operation that has everything in it."""
    group = group_body(group_plan(), {("app", PLACE): Risk(Loss(0, 0, 7), 0, 1.0, 3)})
    fence = {
        "kind": "acl", "topics": ["orders"], "denies": [], "own": [], "own_writes": [], "ends": [["orders", 3, 9]],
        "watch_seconds": 1.0, "stands": True,
    }  # fmt: skip
    began = {
        "mode": "failback", "source": "east", "target": "west", "source_id": "e-id", "target_id": "w-id",
        "groups": ["app"], "steps": [["write", "writes"]], "step_states": {"write": "running"}, "reason": "",
        "released": ["orders"], "fence": {"kind": "acl", "watch_seconds": 1.0}, "diverged": "replay",
    }  # fmt: skip
    bodies: list[tuple[EntryKind, dict[str, Any]]] = [
        (EntryKind.BEGAN, began),
        (EntryKind.STEP, {"step": "write", "step_state": "running", "problem": "none"}),
        (EntryKind.FENCE, fence),
        (EntryKind.GROUP, dict(group)),
        (EntryKind.OUTCOME, {"group": "app", "written": [["orders", 3]], "known": True}),
        (EntryKind.BEGAN, began),
        (EntryKind.ENDED, {"sentence": "all is well", "figures": {"rto_seconds": 1.5}, "problem": ""}),
    ]
    first = JournalEntry(
        "op-1", 1, EntryKind.BEGAN, 1, "ann@host-1", "running", past_return=False, body=began
    )
    return [replace(first, number=at, kind=kind, body=body) for at, (kind, body) in enumerate(bodies, 1)]


def _read_journal(data: bytes) -> None:
    for one in recorded(JournalEntry.decode(line) for line in data.split(b"\n")):
        assert one.operation.plan.groups is not None
