"""Documents on the target are read back as they were written, or refused."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.maps import position_of
from mmtool.kafka.state.control_view import ControlView
from mmtool.plan.flow.slots import SlotsRecord
from mmtool.plan.records.documents import (
    Command,
    CommitRatesRecord,
    ControlRecord,
    Document,
    FlowRecord,
    OwnerRecord,
    PauseRecord,
    ProducerRecord,
    RefusedRecord,
    ShardRecord,
    SharesRecord,
    State,
    UnreadableDocumentError,
    UseRecord,
    decode,
    encode,
)
from mmtool.plan.records.identity import CONTROL_DOCUMENTS, decode_control
from mmtool.plan.records.marks import FailedOverRecord, LookRecord, MovedGroupRecord, RemovedRecord
from mmtool.translation.types import UNKNOWN, TopicPartition

_LONG = st.integers(-(1 << 63), (1 << 63) - 1)
FLOW = FlowRecord("src", "tgt", "A", "B", 32)
OWNER = OwnerRecord("me", "host", 4711, 1_750_000_000_000)
SHARD = ShardRecord(3, 17, 2, open=True, owner="me")
CONTROL = ControlRecord("me", Command.STOP, 7)
SHARES = SharesRecord("me", 7, {"0": 4711, "1": None})
USE = UseRecord("me", 7, 1, 4711, is_all=True)
PRODUCER = ProducerRecord(17, "src-tgt", "src", "tgt", 3)


def position(partition=0, frontier=5, end=9, **changes):
    place = TopicPartition("orders", partition)
    return position_of(place, PAUSE.topic_id, frontier, end, State.RUNNING, **changes)


PAUSE = PauseRecord("AAAAAAAAAAAAAAAAAAAAAQ", "orders", paused=True, by="ann@east", since_ms=1, reason="disk")
FAILED_OVER = FailedOverRecord("orders", failed_over=True, operation_id="fo-1", by="ann@east", since_ms=1)
MOVED = MovedGroupRecord("app \u00e9", moved=True, operation_id="fo-1", by="ann@east", since_ms=1)
LOOK = LookRecord(1_750_000_000_000, {"app \u00e9": 1_740_000_000_000, "never": None})
RATES = CommitRatesRecord("app \u00e9", {"orders": {"0": 12_500, "1": 0}})
REFUSED = RefusedRecord("me", "orders", "target topic A.orders cannot be created")
ALL = [
    FLOW,
    OWNER,
    SHARD,
    CONTROL,
    SHARES,
    USE,
    position(),
    REFUSED,
    PAUSE,
    PRODUCER,
    FAILED_OVER,
    MOVED,
    LOOK,
    RATES,
]


@pytest.mark.parametrize("document", ALL, ids=lambda d: type(d).__name__)
def test_a_document_is_read_back_as_it_was_written(document):
    assert type(document).decode(document.encode()) == document


def test_the_bytes_of_a_document_are_canonical():
    """Another language can write them: sorted keys, no spaces, CRC-32 over the object without `crc`."""
    body = b'{"epoch":2,"open":true,"owner":"me","producer_id":17,"shard":3,"v":1}'
    assert SHARD.encode() == body.replace(b'"epoch"', b'"crc":%d,"epoch"' % crc32(body))


@pytest.mark.parametrize("document", [SHARD, SHARES, OWNER])
def test_a_document_may_be_laid_out_in_another_way(document):
    """The sum is of its canonical form; that is written out only where the stored bytes are not it."""
    body = json.loads(document.encode())
    for laid_out in (
        json.dumps(body, indent=1),
        json.dumps(dict(reversed(body.items())), separators=(",", ":")),
    ):
        assert type(document).decode(laid_out.encode()) == document


@given(st.dictionaries(st.text(max_size=8).filter(lambda k: k not in {"v", "crc"}), _LONG | st.text()))
def test_any_object_survives(body):
    assert decode(encode(body)) == body


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_document_with_one_byte_changed_is_refused(at, change):
    value = bytearray(position().encode())
    value[at % len(value)] ^= change
    with pytest.raises(UnreadableDocumentError):
        decode(bytes(value))


@pytest.mark.parametrize(
    "value", [b"", b"null", b"7", b'"x"', b"[]", b"{}", b"\xff\xfe", b"{", b'{"v":1}', b'{"crc":1}']
)
def test_what_is_no_document_is_refused(value):
    with pytest.raises(UnreadableDocumentError):
        decode(value)


def test_another_version_is_refused_and_named():
    body = {**json.loads(SHARD.encode()), "v": 2}
    del body["crc"]
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    value = json.dumps({**body, "crc": crc32(canonical)}, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(UnreadableDocumentError, match="format version 2 instead of 1"):
        ShardRecord.decode(value)


def test_keys_that_a_later_mmtool_added_are_passed_over():
    body = {field.name: getattr(SHARD, field.name) for field in fields(SHARD)}
    assert ShardRecord.decode(encode({**body, "colour": "blue"})) == SHARD


def test_a_document_without_one_of_its_keys_is_refused_and_the_key_named():
    with pytest.raises(UnreadableDocumentError, match="the field 'owner' of ShardRecord is missing"):
        ShardRecord.decode(encode({"shard": 3, "producer_id": 17, "epoch": 2, "open": True}))


def test_removed_commits_of_a_partition_without_a_number_are_refused():
    value = encode({"group": "app", "seen_ms": {"orders": {"?": 1}}})
    with pytest.raises(UnreadableDocumentError, match="the number of a partition is not in digits"):
        RemovedRecord.decode(value)


@pytest.mark.parametrize(
    ("key", "kind"),
    [(d.key, type(d)) for d in ALL if d is not PRODUCER],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_the_key_tells_the_kind(key, kind):
    (document,) = [d for d in ALL if type(d) is kind]
    assert decode_control(key, document.encode()) == document


@pytest.mark.parametrize("key", [b"paused/orders", b"flows", b"owners", b"\xff\xfe", b""])
def test_a_key_of_somebody_else_is_left_alone(key):
    assert decode_control(key, b"whatever") is None


def test_every_control_document_has_a_kind_of_its_own():
    prefixes = [kind.PREFIX for kind in CONTROL_DOCUMENTS]
    assert sorted(set(prefixes)) == sorted(prefixes)


@given(_LONG, _LONG)
def test_lag_is_the_offsets_to_the_end_and_never_negative(frontier, end):
    assert position(frontier=frontier, end=end).lag_records == max(end - frontier, 0)


# --- the control topic, record by record ------------------------------------------------------------------


def view_of(*documents):
    view = ControlView()
    for offset, document in enumerate(documents):
        view.apply(document.key, document.encode(), offset)
    return view


def test_the_view_holds_the_last_word_of_each_key():
    closed = ShardRecord(3, 17, 2, open=False, owner="me")
    view = view_of(FLOW, OWNER, SHARD, position(0, 5), closed, position(0, 6), position(1, 1))
    assert (view.flow, view.owner, view.shards) == (FLOW, OWNER, {3: closed})
    assert [p.upstream_position for p in view.positions.values()] == [6, 1]


def test_the_view_ends_behind_the_last_record_whatever_it_is():
    view = ControlView()
    view.apply(b"unknown/1", b"?", 41)
    assert view.end == 42


def test_owners_words_are_kept_by_key_until_they_are_cleared_away():
    view = view_of(CONTROL, SHARES, USE)
    assert view.controls == {b"control/me", b"shares/me", b"use/me/1"}
    for key in sorted(view.controls):
        view.apply(key, None, 3)
    assert view.controls == set()


def test_the_view_holds_what_the_last_owner_says_of_its_slots_and_nothing_of_an_earlier_one():
    mine, another_s = SlotsRecord(OWNER.owner, 2, 1, (0, 3)), SlotsRecord("an earlier owner", 4, 4)
    assert view_of(FLOW, another_s, OWNER).slots is None
    view = view_of(FLOW, OWNER, mine, another_s, mine)
    assert (view.slots, view.controls) == (mine, {mine.key, another_s.key})
    why = "Spark has 1 of 2 slots; this partition waits for a slot: check Spark's executors"
    assert [mine.reason(shard) for shard in (0, 1)] == [why, ""]


def test_the_view_holds_the_marks_that_are_in_force():
    view = view_of(FAILED_OVER, replace(FAILED_OVER, topic="bills"), MOVED, replace(MOVED, group="other"))
    released, home = replace(FAILED_OVER, failed_over=False), replace(MOVED, moved=False)
    for mark in (released, home):
        view.apply(mark.key, mark.encode(), 9)
    assert (view.failed_over.keys(), view.moved.keys()) == ({"bills"}, {"other"})


def test_when_the_commits_were_last_looked_at_is_unknown_until_somebody_says_so():
    assert (view_of(FLOW).look, view_of(LOOK, replace(LOOK, looked_ms=7)).look.looked_ms) == (UNKNOWN, 7)


def test_a_group_that_could_not_be_asked_in_the_last_look_is_known_as_of_the_one_before():
    groups = ("app \u00e9", "never", "other")
    assert [view_of(FLOW).asked_ms(group) for group in groups] == [UNKNOWN] * 3
    assert [view_of(LOOK).asked_ms(group) for group in groups] == [1_740_000_000_000, UNKNOWN, LOOK.looked_ms]
    assert [view_of(LOOK, LookRecord(7)).asked_ms(group) for group in groups] == [7, 7, 7]


def test_a_look_is_read_by_older_and_newer_versions_that_know_nothing_of_such_groups():
    @dataclass(frozen=True)
    class OlderLook(Document):
        looked_ms: int

    assert LookRecord.decode(encode({"looked_ms": 7})) == LookRecord(7, {})
    assert OlderLook.decode(LOOK.encode()) == OlderLook(LOOK.looked_ms)


def test_how_fast_groups_commit_is_known_until_it_is_cleared_away():
    view = view_of(RATES, replace(RATES, group="other"), replace(RATES, rates={"orders": {"0": 1}}))
    view.apply(b"rate/other", None, 9)
    (record,) = view.rates.values()
    assert [record.rate("orders", 0), record.rate("orders", 1), record.rate("bills", 0)] == [
        0.001,
        None,
        None,
    ]


def test_a_damaged_record_is_refused_by_the_view():
    with pytest.raises(UnreadableDocumentError):
        ControlView().apply(b"flow", b"{}", 0)
