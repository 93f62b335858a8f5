"""Dead letters while answers get lost: each is there once, and none is taken for the repetition of another."""

import inspect
from types import SimpleNamespace

import pytest

from kit.batches import data
from kit.mirror import SOURCE_ID, FakeLog
from mmtool.errors import UnreachableError
from mmtool.kafka.batches import as_is, iter_batches
from mmtool.kafka.logs.dead_letters import KafkaDeadLetters, Letter
from mmtool.kafka.wire.transactions import ProducerIdentity
from mmtool.replication.pump.batch_prep import DeadLetter
from mmtool.translation.types import ClusterId, TopicPartition


class Target:
    """Partitions for letters, behind a network that may lose what is sent, or the answer to it."""

    def __init__(self):
        self.logs, self.loses, self.epoch = [FakeLog(), FakeLog()], "", 0

    def ask(self, question, what):
        known = inspect.getclosurevars(question).nonlocals
        if what.startswith("reading"):
            log = self.logs[known["place"].partition]
            return any(set(known["letter"].headers) <= set(one.headers) for one in log.records.values())
        if what.startswith("claiming"):
            self.epoch += 1
            return ProducerIdentity(0, 9, self.epoch)
        if what.startswith("writing"):
            return self._append(self.logs[known["place"].partition], known["batch"])
        return None  # the topic is there

    def _append(self, log, batch):
        loses, self.loses = self.loses, ""
        if loses == "request":
            raise UnreachableError("no answer within 15 s")
        code = log.append(bytes(batch.payload)).error_code
        if loses == "answer":
            raise UnreachableError("no answer within 15 s")
        return code

    @property
    def letters(self):
        return self.of(0)

    def of(self, partition):
        records = self.logs[partition].records.values()
        return [int(dict(one.headers)[b"mmtool.source.offset"]) for one in records]


@pytest.fixture
def target():
    return Target()


@pytest.fixture
def box(target, monkeypatch):
    for module in ("dead_letters", "sequence_append"):
        monkeypatch.setattr(f"mmtool.kafka.logs.{module}.blocking_wire", lambda *_: target)
    return KafkaDeadLetters(SimpleNamespace(alias="west"), "mmtool.letters.0", 1)


def letter(offset, partition=0):
    (view,) = iter_batches(data(offset))
    one = DeadLetter.of(as_is(view))
    return Letter(ClusterId("c"), SOURCE_ID, TopicPartition("orders", partition), "east.orders", one)


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_letters_behind_one_that_nobody_answered_are_there(box, target, lost):
    target.loses = lost
    with pytest.raises(UnreachableError):
        box.post(letter(5))
    for offset in (5, 8, 11):
        box.post(letter(offset))
    assert target.letters == [5, 8, 11]


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_another_letter_is_not_taken_for_the_one_that_nobody_answered(box, target, lost):
    """The record fits meanwhile, since the limit was raised: the next letter is another one's."""
    target.loses = lost
    with pytest.raises(UnreachableError):
        box.post(letter(5))
    box.post(letter(8))
    assert target.letters[-1] == 8


def test_letters_of_another_partition_go_on_where_one_that_nobody_answered_was_let_go(box, target):
    """Whoever begins again has new numbers in all partitions of the shard, also where a letter had come meanwhile."""
    for partition, lost in ((1, "answer"), (0, "request")):
        target.loses = lost
        with pytest.raises(UnreachableError):
            box.post(letter(5, partition))
    box.post(letter(8))
    for offset in (5, 8, 11):
        box.post(letter(offset, 1))
    assert (target.letters, target.of(1)) == ([8], [5, 8, 11])
