"""A partition's mirror against a broker that fails in every way it can: nothing lost, doubled or reordered."""

import random
from collections import deque
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kit.batches import ABORT, COMMIT, TRANSACTIONAL, PlainRecord, batch_of, marker
from kit.mirror import SHARD, FakeLog, assigned, fetched, mirror_of, produced
from mmtool.kafka.wire.codes import Code
from mmtool.plan.records.documents import State
from mmtool.replication.pump.batch_prep import BatchState, InDoubtError
from mmtool.replication.pump.mirror import IN_FLIGHT

pytestmark = pytest.mark.long

BEFORE_APPEND = (Code.NOT_LEADER_OR_FOLLOWER, Code.NOT_ENOUGH_REPLICAS, Code.REQUEST_TIMED_OUT)
AFTER_APPEND = (
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Code.REQUEST_TIMED_OUT,
    Code.NOT_LEADER_OR_FOLLOWER,
)
START = 3
CROWD = SHARD.producer_id + 1
TRANSACTOR = 1000
LIMIT = 4096
DAY_MS = 86_400_000
NOW_MS = 30 * DAY_MS
NOISE = random.Random(7).randbytes(2 * LIMIT)  # which no codec can shrink


class MirrorMachine(RuleBasedStateMachine):
    """One source log, one mirror, one target log, and a network between the last two."""

    fresh = True  # whether the target's partition has never seen our producer id
    days = 0  # how old the records are at first

    def __init__(self):
        super().__init__()
        self.source = []  # (first offset, next offset, bytes)
        self.asked = []
        self.aborted = []  # (producer id, first offset, marker's offset)
        self.expected = []
        self.source_end, self.since_ms = 0, NOW_MS - self.days * DAY_MS
        self.target = FakeLog()
        self.target.append(batch_of([PlainRecord(0, value=b"foreign")], producer=(CROWD, 0, 0)).write())
        if not self.fresh:
            self.target.mark(SHARD.producer_id, SHARD.epoch - 1)
        self.before = self.target.end
        begin = assigned(upstream=START, downstream=self.before, max_batch_bytes=LIMIT)
        self.mirror = mirror_of(begin, with_letters=True)
        self.large, self.letters = [], []
        self.requests = deque()  # on their way, in order: (sent, bytes)
        self.answers = deque()  # on their way back, in order: (sent, answer)
        self.ghosts = deque()  # of broken connections: the broker may still find them in its socket
        self.booked = {}
        self.over = False
        self.source_grows(5)

    # --- the source ---------------------------------------------------------------------------------------

    def _append(self, records, last_offset=None, **batch):
        plain = batch_of(records, **batch)
        if last_offset is not None:
            plain = replace(plain, last_offset=last_offset)
        self.source.append((plain.base_offset, plain.last_offset + 1, plain.write()))
        self.source_end = plain.last_offset + 1

    def _records(self, offsets):
        return [PlainRecord(at, self.since_ms + at, None, b"%d" % at) for at in offsets]

    @rule(days=st.sampled_from([0, 0, 7]))
    def source_takes_records_of_another_time(self, days):
        self.since_ms = NOW_MS - days * DAY_MS

    def _expect(self, offsets):
        self.expected += [at for at in offsets if at >= START]

    @rule(count=st.integers(1, 20), codec=st.sampled_from(["none", "none", "lz4"]))
    def source_grows(self, count, codec="none"):
        offsets = range(self.source_end, self.source_end + count)
        self._append(self._records(offsets), codec=codec)
        self._expect(offsets)

    @rule(large=st.lists(st.booleans(), min_size=1, max_size=6), codec=st.sampled_from(["none", "lz4"]))
    def source_takes_records_that_the_target_does_not(self, large, codec):
        offsets = range(self.source_end, self.source_end + len(large))
        records = [
            replace(record, value=b"%d" % record.offset, headers=((b"noise", NOISE),) if too_large else ())
            for record, too_large in zip(self._records(offsets), large, strict=True)
        ]
        self._append(records, codec=codec)
        self.large += [at for at, too_large in zip(offsets, large, strict=True) if too_large and at >= START]
        self._expect([at for at, too_large in zip(offsets, large, strict=True) if not too_large])

    @precondition(lambda self: self.mirror.letter is not None and self._runs)
    @rule()
    def a_letter_is_posted(self):
        self.letters.append(self.mirror.letter.upstream_start)
        self.mirror.posted(self.mirror.letter)

    @rule(gaps=st.lists(st.integers(1, 4), min_size=1, max_size=6), rest=st.integers(0, 3))
    def source_was_compacted(self, gaps, rest):
        offsets, at = [], self.source_end
        for gap in gaps:
            offsets.append(at)
            at += gap
        self._append(self._records(offsets), last_offset=offsets[-1] + rest)
        self._expect(offsets)

    @rule(count=st.integers(1, 5))
    def source_aborts_a_transaction(self, count):
        start = self.source_end
        self.aborted.append((TRANSACTOR, start, self._transact(range(start, start + count), ABORT)))

    @rule(count=st.integers(1, 5))
    def source_commits_a_transaction(self, count):
        offsets = range(self.source_end, self.source_end + count)
        self._transact(offsets, COMMIT)
        self._expect(offsets)

    def _transact(self, offsets, end):
        """The offset of the marker that ends it."""
        self._append(self._records(offsets), flags=TRANSACTIONAL, producer=(TRANSACTOR, 0, 0))
        at = self.source_end
        self.source.append((at, at + 1, marker(at, TRANSACTOR, end)))
        self.source_end = at + 1
        return at

    @precondition(lambda self: self.mirror.fetch_position < self.source_end and self._runs)
    @rule(count=st.integers(1, 4), late=st.integers(0, 3))
    def fetch(self, count, late):
        """``late``: it was asked for on another connection, so many answers ago."""
        self.asked.append(self.mirror.fetch_position)
        position = self.asked[-1 - min(late, len(self.asked) - 1)]
        found = [batch for batch in self.source if batch[1] > position][:count]
        aborted = [(pid, first) for pid, first, ended in self.aborted if ended >= position]
        before = self.mirror.held_bytes
        more = self.mirror.offer(
            fetched(*(b for _, _, b in found), end=self.source_end, aborted=aborted), now_ms=NOW_MS
        )
        assert self.mirror.held_bytes == before + more

    # --- the network --------------------------------------------------------------------------------------

    @property
    def _runs(self):
        return not self.over and self.mirror.state != State.HALTED

    @precondition(lambda self: self._runs and self.mirror.sendable)
    @rule()
    def send(self):
        open_before = {id(s): bytes(s.batch.payload) for s in self.mirror._in_flight}
        all_clear = all(s.fate in (BatchState.PENDING, BatchState.APPENDED) for s in self.mirror._in_flight)
        sent = self.mirror.next_to_send()
        payload = bytes(sent.batch.payload)
        assert all_clear or open_before[id(sent)] == payload, "B: what is missing goes first, unchanged"
        self.requests.append((sent, payload))

    @precondition(lambda self: self.requests)
    @rule()
    def broker_answers(self):
        sent, payload = self.requests.popleft()
        self.answers.append((sent, self.target.append(payload)))

    @precondition(lambda self: self.requests)
    @rule(code=st.sampled_from(BEFORE_APPEND))
    def broker_fails_before_it_appends(self, code):
        sent, _ = self.requests.popleft()
        self.answers.append((sent, produced(code)))

    @precondition(lambda self: self.requests)
    @rule(code=st.sampled_from(AFTER_APPEND))
    def broker_fails_after_it_appended(self, code):
        sent, payload = self.requests.popleft()
        answer = self.target.append(payload)
        self.answers.append((sent, produced(code) if answer.error_code == Code.NONE else answer))

    @precondition(lambda self: self.answers)
    @rule()
    def answer_arrives(self):
        sent, answer = self.answers.popleft()
        if self.over:
            return
        try:
            self.mirror.answered(sent, answer)
        except InDoubtError:
            self.over = True

    @precondition(lambda self: self.requests or self.answers)
    @rule(read=st.integers(0, 5), ghosts=st.booleans())
    def connection_breaks(self, read, ghosts):
        lost = [sent for sent, _ in (*self.answers, *self.requests)]
        for _ in range(min(read, len(self.requests))):
            self.target.append(self.requests.popleft()[1])
        if ghosts:
            self.ghosts += [payload for _, payload in self.requests]
        self.answers.clear()
        self.requests.clear()
        for sent in lost:
            if self.over:
                return
            try:
                self.mirror.lost(sent)
            except InDoubtError:
                self.over = True

    @precondition(lambda self: self.ghosts)
    @rule()
    def broker_finds_an_old_request(self):
        self.target.append(self.ghosts.popleft())

    @precondition(lambda self: not self.ghosts)
    @rule()
    def broker_forgets_who_wrote_old_records_last(self):
        """A request of a broken connection is found before that: it waits for moments."""
        self.target.forget(NOW_MS - DAY_MS)

    @rule(limit=st.sampled_from([200, 300, 1 << 20]))
    def limit_changes(self, limit):
        self.target.limit = limit

    # --- promises -----------------------------------------------------------------------------------------

    @property
    def _landed(self):
        return {at: int(r.value) for at, r in self.target.records.items() if at >= self.before}

    @invariant()
    def the_target_holds_the_source_s_records_in_order_and_once(self):
        landed = list(self._landed.values())
        assert landed == self.expected[: len(landed)]

    @invariant()
    def at_most_five_are_unanswered_and_numbered_without_gaps(self):
        in_flight = list(self.mirror._in_flight)
        assert sum(sent.fate is BatchState.PENDING for sent in in_flight) <= IN_FLIGHT
        numbers = [(sent.sequence, sent.sequence + sent.batch.record_count) for sent in in_flight]
        assert all(one[1] == two[0] for one, two in pairwise(numbers))

    @invariant()
    def a_record_is_booked_once_and_where_the_target_has_it(self):
        landed = self._landed
        for block in self.mirror.take_blocks():
            for run in block.runs:
                for step in range(run.count):
                    up, down = run.upstream_start + step, run.downstream_start + step
                    assert self.booked.setdefault(up, down) == down
                    assert landed[down] == up
        self.mirror.stored()
        assert list(self.booked) == sorted(self.booked)

    @invariant()
    def everything_below_the_frontier_is_booked(self):
        assert [at for at in self.expected if at < self.mirror.frontier] == sorted(self.booked)

    @invariant()
    def a_letter_is_posted_once_in_order_and_before_the_frontier_passes_it(self):
        assert self.letters == self.large[: len(self.letters)]
        assert [at for at in self.large if at < self.mirror.frontier] == self.letters

    @invariant()
    def held_bytes_are_those_of_the_batches_held(self):
        held = [*self.mirror._unsent, *(sent.batch for sent in self.mirror._in_flight)]
        assert self.mirror.held_bytes == sum(batch.size for batch in held)

    def teardown(self):
        """Once everything works again, everything arrives."""
        self.target.limit = 1 << 20
        for _ in range(2000):
            if self.ghosts:
                self.broker_finds_an_old_request()
            elif self.answers:
                self.answer_arrives()
            elif self.requests:
                self.broker_answers()
            elif not self._runs:
                return
            elif self.mirror.sendable:
                self.send()
            elif self.mirror.letter is not None:
                self.a_letter_is_posted()
                self.a_record_is_booked_once_and_where_the_target_has_it()
            elif self.mirror.fetch_position < self.source_end:
                self.fetch(4, late=0)
            else:
                break
        assert list(self._landed.values()) == self.expected
        self.a_record_is_booked_once_and_where_the_target_has_it()
        assert (sorted(self.booked), self.letters) == (self.expected, self.large)
        assert (self.mirror.frontier, self.mirror.held_bytes) == (self.source_end, 0)
        assert self.mirror.settled


class TakenOverMachine(MirrorMachine):
    """A partition that was fenced, or carries batches of an older claim: it refuses gaps."""

    fresh = False


class OldRecordsMachine(MirrorMachine):
    """Records of last week: the target forgets who wrote them as soon as it likes."""

    days = 7


EFFORT = settings(stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))
TestFreshPartition = MirrorMachine.TestCase
TestFreshPartition.settings = EFFORT
TestTakenOverPartition = TakenOverMachine.TestCase
TestTakenOverPartition.settings = EFFORT
TestOldRecords = OldRecordsMachine.TestCase
TestOldRecords.settings = EFFORT
