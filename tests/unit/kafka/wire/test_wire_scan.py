"""Looking at logs: what is only late is waited for, and never taken for gone or for the end."""

import asyncio
from types import SimpleNamespace

import pytest

from kit.batches import data
from kit.mirror import SOURCE_ID, fetched
from mmtool.config import ClusterSettings
from mmtool.errors import UnreachableError
from mmtool.kafka import patience
from mmtool.kafka.logs.log_parts import KafkaBatches
from mmtool.kafka.wire import scan
from mmtool.kafka.wire.cluster import (
    PATIENCE_SECONDS,
    ConnectionLostError,
    OutOfRangeError,
    UnreadableLogError,
)
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.fetch import FetchAnswer
from mmtool.kafka.wire.metadata import LATEST, ListedOffset, PartitionLeader, TopicMetadata
from mmtool.translation.types import TopicPartition

PLACE = TopicPartition("orders", 0)
HELD_BACK = "a fetch that is above a quota: its answer names no partition (KIP-219)"


class Leader:
    """The only broker: gives these answers in turn, the last of them for ever."""

    alias, throttle_ms = "west", 0

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = 0

    async def refresh(self, topics):
        led = [PartitionLeader(PLACE.partition, Code.NONE, 1, 0)]
        return {name: TopicMetadata(name, SOURCE_ID, Code.NONE, led) for name in topics}

    def leader(self, *_place):
        return 1

    def check_denied(self, code, what):
        pass

    async def send_to_leader(self, *_request, **_purpose):
        if (told := self.next()) is HELD_BACK:
            return FetchAnswer(1_000, Code.NONE, [])
        return SimpleNamespace(partitions=[told], throttle_ms=self.throttle_ms)

    async def send(self, _node, _request, **_purpose):
        return {PLACE: self.next()}

    def next(self):
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(scan, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(patience, "FIRST_PAUSE_SECONDS", 0)


def refused(code):
    return fetched(end=0)._replace(error_code=code)


def read(*answers, stop=6, **how):
    """Base offsets of the batches from 0 to ``stop``, or what the reading ended with."""

    async def reading():
        found = scan.read_range(
            Leader(*answers), *PLACE[:1], SOURCE_ID, 0, 0, stop, read_committed=False, **how
        )
        return [view.header.base_offset async for view in found]

    try:
        return asyncio.run(reading())
    except ConnectionLostError as error:
        return type(error), str(error)


LOG = fetched(data(0, 3), data(3, 3), end=6)
END = fetched(end=6)


@pytest.mark.parametrize(
    "code", [Code.NOT_LEADER_OR_FOLLOWER, Code.KAFKA_STORAGE_ERROR, Code.UNKNOWN_SERVER_ERROR]
)
def test_a_leader_that_moves_or_stumbles_is_asked_again(code):
    assert read(refused(code), refused(code), LOG) == [0, 3]


def test_a_log_whose_leader_cannot_be_found_is_not_read_and_not_empty():
    told = "orders-0 of west cannot be read at offset 0: NOT_LEADER_OR_FOLLOWER"
    assert read(*[refused(Code.NOT_LEADER_OR_FOLLOWER)] * 60) == (ConnectionLostError, told)


NEW_LEADER = fetched(end=0)
"""One that was elected a moment ago: it has the log, and tells its end when a follower has asked for more (KIP-207)."""


def test_a_log_that_seems_to_end_before_the_end_that_was_told_is_asked_again():
    assert read(NEW_LEADER, NEW_LEADER, LOG) == [0, 3]


def test_a_log_that_ends_before_the_end_that_was_told_is_not_read_to_it():
    assert read(LOG, END, stop=7) == (
        ConnectionLostError,
        "orders-0 of west cannot be read at offset 6: the log now ends there, as its leader has changed",
    )


def test_a_log_whose_last_records_were_cleaned_away_is_read_to_its_end():
    """As of tombstones that nobody follows: what is left ends at 3, and the leader shows all of it."""
    assert read(fetched(data(0, 3), end=6), fetched(end=6)) == [0]


def test_a_log_that_a_quota_holds_back_has_not_been_read(monkeypatch):
    monkeypatch.setattr(Leader, "throttle_ms", 1_000)
    ended = read(fetched(data(0, 3), end=6), fetched(end=6))
    assert ended[0] is ConnectionLostError
    assert ended[1].endswith("at offset 3: throttled by a quota")


def test_a_fetch_above_a_quota_is_answered_without_its_partition_and_asked_again():
    assert read(HELD_BACK, HELD_BACK, LOG) == [0, 3]
    assert read(fetched(data(0, 3), end=6), HELD_BACK) == (
        ConnectionLostError,
        "orders-0 of west cannot be read at offset 3: throttled by a quota",
    )


def test_where_nobody_told_an_end_the_log_s_own_end_is_the_end():
    assert read(LOG, END, stop=scan.AtMost(7)) == [0, 3]


def test_where_nobody_told_an_end_a_hole_at_the_log_s_own_end_is_read_to_as_well():
    assert read(fetched(data(0, 3), end=6), fetched(end=6), stop=scan.AtMost(7)) == [0]


@pytest.mark.parametrize(
    ("code", "error"),
    [(Code.OFFSET_OUT_OF_RANGE, OutOfRangeError), (Code.CORRUPT_MESSAGE, UnreadableLogError)],
)
def test_what_no_asking_brings_back_is_told_at_once(code, error):
    assert read(refused(code), LOG) == (error, f"orders-0 of west: {code.name}")


def stored(monkeypatch, *answers):
    """Base offsets of the batches of a log that was seen to end at 6, as an operation reads them."""
    batches = KafkaBatches(ClusterSettings(alias="west", bootstrap_servers="nowhere:1"), 1.0)
    monkeypatch.setattr(batches._wire, "_cluster", Leader(*answers))
    monkeypatch.setattr(batches._wire, "_started", True)
    return [view.header.base_offset for view in batches.batches(PLACE, SOURCE_ID, range(6), committed=False)]


def test_a_leader_that_was_elected_a_moment_ago_is_asked_again_for_what_was_there(monkeypatch):
    """Else a failback would find no diverged records, and lose them."""
    shown, rest = fetched(data(0, 3), end=3), fetched(data(3, 3), end=6)
    assert stored(monkeypatch, shown, fetched(end=3), rest) == [0, 3]


def test_a_log_that_lost_what_was_there_is_not_read_to_its_end(monkeypatch):
    with pytest.raises(UnreachableError, match="at offset 3: the log now ends there") as caught:
        stored(monkeypatch, fetched(data(0, 3), end=3), fetched(end=3))
    assert caught.value.remedy == "run the same command again"


def listed(*codes, seconds=PATIENCE_SECONDS):
    """What is listed of the log's end where the leader answers with these codes in turn."""
    leader = Leader(*(ListedOffset(code, 42 if code == Code.NONE else -1) for code in codes))
    return asyncio.run(scan.list_offsets(leader, {PLACE: LATEST}, read_committed=False, seconds=seconds))


@pytest.mark.parametrize(
    "code",
    [
        Code.OFFSET_NOT_AVAILABLE,
        Code.KAFKA_STORAGE_ERROR,
        Code.REQUEST_TIMED_OUT,
        Code.UNKNOWN_SERVER_ERROR,
        Code.LEADER_NOT_AVAILABLE,
    ],
)
def test_an_offset_that_is_not_known_yet_is_waited_for(code):
    """A leader knows its log's end only when a follower has asked it (KIP-207)."""
    assert listed(code, code, Code.NONE) == {PLACE: 42}


def test_an_offset_that_stays_unknown_is_no_partition_that_is_gone():
    with pytest.raises(UnreachableError, match=r"offsets of orders-0 failed: .*\(OFFSET_NOT_AVAILABLE\)$"):
        listed(Code.OFFSET_NOT_AVAILABLE, seconds=0)


@pytest.mark.parametrize("code", [Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNSUPPORTED_FOR_MESSAGE_FORMAT])
def test_what_is_not_there_is_left_out(code):
    assert listed(code, Code.NONE) == {}
