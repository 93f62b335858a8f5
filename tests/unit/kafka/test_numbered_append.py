"""How much of what is numbered was appended before, by what a log still holds of it."""

import asyncio
from dataclasses import replace

from kit.batches import ABORT, PlainRecord, batch_of, marker
from kit.mirror import LogBroker
from mmtool.config import ClusterSettings
from mmtool.kafka.logs.sequence_append import KafkaAppender
from mmtool.kafka.state.claims import Claim
from mmtool.translation.types import TopicPartition

PLACE = TopicPartition("orders", 0)
OURS, THEIRS = 4711, 9


def appended(monkeypatch, log):
    appender = KafkaAppender(ClusterSettings(alias="target", bootstrap_servers="nowhere:1"), "mmtool.x", 1.0)
    monkeypatch.setattr(appender, "_claim", lambda: Claim(OURS, 0))
    monkeypatch.setattr(appender._looks, "ask", lambda question, _what: asyncio.run(question(log)))
    return appender.appended(PLACE, 0)


def numbered(offset, count, sequence, *, epoch=0, producer=OURS):
    records = [PlainRecord(at) for at in range(offset, offset + count)]
    return batch_of(records, producer=(producer, epoch, sequence))


def test_what_was_appended_under_each_claim_counts_and_nothing_of_others(monkeypatch):
    mine = [numbered(0, 3, 0).write(), numbered(8, 2, 3).write(), numbered(11, 4, 0, epoch=1).write()]
    theirs = numbered(3, 5, 0, producer=THEIRS).write()
    log = LogBroker([mine[0], theirs, mine[1], marker(10, OURS, ABORT), mine[2]])
    assert appended(monkeypatch, log) == 9


def test_batches_that_compaction_took_whole_were_appended_all_the_same(monkeypatch):
    """It leaves the last one of a producer, if only its header."""
    last = replace(numbered(6, 2, 6), records=())
    assert appended(monkeypatch, LogBroker([last.write()])) == 8
