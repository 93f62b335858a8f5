"""Two clusters that share a partition: whatever happens in whatever order, records, books and groups are right.

The pump's own state, the claims' epochs, the resumption of an owner that died, what is stored and what is translated
are mmtool's own code; logs, brokers and the network are in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kit.lost_home import ModelHomecoming
from kit.paired_flow import PairedFlow
from kit.paired_logs import PairedLog
from kit.pairs import HERE, THERE
from mmtool.plan.records.documents import State
from mmtool.translation.answers import Bounded, Reason, Refused, SourceLog, TargetLog
from mmtool.translation.divergence import go_home_in_pair
from mmtool.translation.translate import translate_in_pair
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

SIDES = st.sampled_from([HERE, THERE])
FEW = st.integers(1, 5)


def source_log(log):
    return SourceLog(UpstreamOffset(log.start), UpstreamOffset(log.end))


def target_log(log):
    return TargetLog(DownstreamOffset(log.start), DownstreamOffset(log.end))


@dataclass
class Existing:
    """What is in both logs now, and in both flows' books."""

    logs: list
    maps: list

    def map(self, side):
        return self.maps[side]


class PairMachine(RuleBasedStateMachine):
    """Two logs of one name, a flow each way."""

    def __init__(self):
        super().__init__()
        self.logs = (PairedLog(side=HERE), PairedLog(side=THERE))
        self.flows = (
            PairedFlow(self.logs[HERE], self.logs[THERE]),
            PairedFlow(self.logs[THERE], self.logs[HERE]),
        )
        self.gone = set()  # compacted where they were born, or deleted there
        self.superseded = set()  # of them, those that nobody misses: a newer one of the key has come
        self.is_whole = True  # neither cleaners nor retention have been at either log
        self.aborted = set()
        self.at, self.place = HERE, 0  # where the group is
        self.read, self.exported = set(), set()
        self.failed_over = False
        for side in (HERE, THERE):
            self.logs[side].born(5)
            self.flows[side].take()

    # --- what producers and brokers do --------------------------------------------------------------------

    @rule(side=SIDES, count=FEW, codec=st.sampled_from(["none", "none", "lz4"]))
    def producers_write(self, side, count, codec):
        self.logs[side].born(count, codec)

    @rule(side=SIDES, count=FEW)
    def a_transaction_is_aborted(self, side, count):
        log = self.logs[side]
        self.aborted |= {(side, at) for at in range(log.end, log.end + count)}
        log.abort(count)

    @rule(side=SIDES, every=st.integers(2, 4), first=st.integers(0, 3), youngest=st.integers(1, 30))
    def the_cleaner_comes(self, side, every, first, youngest):
        log = self.logs[side]
        before = set(log.records)
        log.compact(sorted(before)[-youngest:][first::every])
        taken = {log.history[at] for at in before - set(log.records) if log.history[at][0] == side}
        self.gone |= taken
        self.superseded |= taken
        self.is_whole &= before == set(log.records)

    @rule(side=SIDES, data=st.data())
    def retention_deletes(self, side, data):
        log = self.logs[side]
        self.delete(side, data.draw(st.integers(log.start, min(log.start + 4, log.end))))

    def delete(self, side, start):
        """Nothing below ``start`` is left."""
        log = self.logs[side]
        deleted = {log.history[at] for at in log.records if at < start}
        self.gone |= {record for record in deleted if record[0] == side}
        log.trim(start)
        self.is_whole &= not deleted

    # --- what owners do -----------------------------------------------------------------------------------

    def _owner(self, side):
        owner = self.flows[side].owner
        return owner if owner is not None and owner.runs else None

    @rule(side=SIDES, dies=st.sampled_from([False, False, False, True]))
    def somebody_takes_the_flow(self, side, dies):
        self.flows[side].take(dies=dies)

    @rule(side=SIDES, landed=st.integers(0, 5), ghosts=st.booleans(), stored=st.integers(0, 3))
    def the_owner_is_killed(self, side, landed, ghosts, stored):
        if self.flows[side].owner is not None:
            self.flows[side].die(landed=landed, ghosts=ghosts, stored=stored)

    @rule(side=SIDES, steps=st.integers(5, 40), landed=st.integers(0, 5), stored=st.integers(0, 1))
    def the_owner_works_is_killed_and_another_one_takes_the_flow(self, side, steps, landed, stored):
        flow = self.flows[side]
        if self._owner(side) is not None:
            flow.work(steps)
            flow.die(landed=landed, ghosts=True, stored=stored)
        flow.take()

    @rule(side=SIDES)
    def the_owner_ends_cleanly(self, side):
        owner = self._owner(side)
        if owner is not None and owner.is_idle:
            self.flows[side].close()

    @rule(side=SIDES, step=st.sampled_from(["fetch", "send", "broker", "hear", "store", "look"]))
    def something_small_happens(self, side, step):
        flow, owner = self.flows[side], self._owner(side)
        if owner is None:
            return
        if step == "fetch" and owner.mirror.fetch_position < self.logs[side].end:
            flow.fetch(2)
        elif step == "send" and owner.mirror.sendable:
            owner.send()
        elif step == "broker" and owner.requests:
            flow.broker_answers(owner)
        elif step == "hear" and owner.answers:
            owner.hear()
        elif step == "store":
            flow.keep(owner.mirror.take_blocks())
        elif step == "look" and not owner.requests and not owner.answers:
            owner.mirror.looked(owner.mirror.mark, DownstreamOffset(self.logs[1 - side].end))

    @rule(side=SIDES, steps=st.integers(1, 30))
    def the_owner_works(self, side, steps):
        self.flows[side].work(steps)

    @rule(side=SIDES, landed=st.integers(0, 5), ghosts=st.booleans())
    def connection_breaks(self, side, landed, ghosts):
        owner = self.flows[side].owner
        if owner is not None:
            self.flows[side].break_connection(owner, landed=landed, ghosts=ghosts)

    @rule(side=SIDES)
    def broker_finds_an_old_request(self, side):
        if self.flows[side].ghosts:
            self.logs[1 - side].append(self.flows[side].ghosts.popleft())

    @rule(side=SIDES)
    def an_older_owner_wakes_up(self, side):
        flow = self.flows[side]
        for owner in flow.older:
            if owner.requests:
                flow.broker_answers(owner)
            elif owner.runs and owner.mirror.sendable:
                owner.send()

    @rule(side=SIDES)
    def everything_works_for_a_while(self, side):
        self.flows[side].catch_up()

    # --- what groups do -----------------------------------------------------------------------------------

    def _readable(self, side, offsets):
        log = self.logs[side]
        return {log.history[at] for at in offsets if at in log.records} - self.aborted

    @rule(count=st.integers(1, 10))
    def the_group_reads(self, count):
        log = self.logs[self.at]
        begin, self.place = self.place, max(self.place, min(self.place + count, log.end), log.start)
        # what was deleted under it, it has not missed by our doing
        self.read |= {log.history[at] for at in range(begin, self.place) if at in log.history}

    @precondition(lambda self: not self.failed_over)
    @rule(emergency=st.booleans())
    def the_group_moves(self, emergency):
        side, flow = self.at, self.flows[self.at]
        if not emergency and not (flow.catch_up() and self.flows[1 - side].catch_up()):
            return
        answer = self._translated(side, self.place)
        assert emergency or not isinstance(answer, Refused) or self._is_lost(side, answer)
        if isinstance(answer, Refused):
            return
        self.at, self.place = 1 - side, answer.offset
        self._miss_what_is_deleted(1 - side)
        if emergency and side == HERE:
            self.failed_over = True
            self.flows[HERE].stop()

    def _miss_what_is_deleted(self, side):
        """Deleted where it was born before the group came, with no copy on record: not missed by our doing.

        No copy may be there, or an owner has appended it and has not stored that. Where one is on record the move is
        refused.
        """
        log, runs = self.logs[side], self.flows[side].map().runs
        recorded = {(side, run.upstream_start + step) for run in runs for step in range(run.count)}
        deleted = {record for at, record in log.history.items() if at < log.start and record[0] == side}
        self.read |= deleted - recorded

    def _is_lost(self, side, answer):
        """What a planned move refuses: retention has taken what is unread, or the mirror never had it."""
        log, there = self.logs[side], self.logs[1 - side]
        return bool(log.start or there.start) or answer.reason is Reason.NOT_MIRRORED

    @precondition(lambda self: self.failed_over)
    @rule()
    def the_group_comes_home(self):
        if self.at != THERE or not self.flows[THERE].catch_up():
            return
        out, back = self.flows
        tail = self._tail()
        bounds = {"away": target_log(self.logs[THERE]), "home": source_log(self.logs[HERE])}
        found = go_home_in_pair(out.map(), back.map(), tail, DownstreamOffset(self.place), **bounds)
        if isinstance(found, Refused):
            return
        behind = self._readable(HERE, range(tail.start, tail.end)) - self.read
        own = {record for record in behind if record[0] == HERE and record not in self._came(HERE)}
        self.exported |= own
        out.pass_over(tail.end)
        self.at, self.place, self.failed_over = HERE, found.answer.offset, False

    @precondition(lambda self: not self.failed_over and self.at == HERE)
    @rule(unseen=FEW, away=FEW, reads=st.integers(1, 10))
    def the_group_goes_away_in_an_emergency_and_comes_home(self, unseen, away, reads):
        """Each of it by itself as well, but seldom in this order, and seldom with a tail that nobody has seen."""
        self.flows[HERE].catch_up()
        self.logs[HERE].born(unseen)
        self.the_group_moves(emergency=True)
        if self.failed_over:
            self.logs[THERE].born(away)
            self.the_group_reads(reads)
            self.the_group_comes_home()

    def _tail(self):
        pair = Existing([log.entries() for log in self.logs], [flow.map() for flow in self.flows])
        back = ModelHomecoming(True, pair)
        back.find_tail()
        return back.tail

    def _translated(self, side, commit):
        return translate_in_pair(
            self.flows[side].map(),
            self.flows[1 - side].map(),
            UpstreamOffset(commit),
            target=target_log(self.logs[1 - side]),
            source=source_log(self.logs[side]),
        )

    @rule(side=SIDES, data=st.data())
    def any_place_is_asked_for(self, side, data):
        here, there = self.logs[side], self.logs[1 - side]
        commit = data.draw(st.integers(here.start, here.end))
        answer = self._translated(side, commit)
        if isinstance(answer, Refused):
            return
        read = {record for at, record in here.history.items() if at < commit}
        passed_over = self._readable(1 - side, range(answer.offset))
        assert passed_over <= read | self.exported | self.superseded, (
            "N: it skips what the group has not read"
        )
        again = (read - self.superseded) & self._readable(1 - side, range(answer.offset, there.end))
        assert len(again) <= (answer.reread_max if isinstance(answer, Bounded) else 0), "R: it says less"

    # --- promises -----------------------------------------------------------------------------------------

    def _came(self, side):
        """What came to the other side from this one, in order."""
        return [record for _, record in sorted(self.logs[1 - side].history.items()) if record[0] == side]

    @invariant()
    def what_is_mirrored_comes_once_in_order_and_without_what_was_aborted(self):
        for side in (HERE, THERE):
            came = [offset for _, offset in self._came(side)]
            assert came == sorted(set(came))
            assert not self.aborted.intersection(self._came(side))

    @invariant()
    def what_is_below_a_stored_frontier_is_on_the_other_side(self):
        for side in (HERE, THERE):
            frontier = self.flows[side].newest.tail.upstream_frontier
            born = {
                record
                for at, record in self.logs[side].history.items()
                if record[0] == side and at < frontier
            }
            assert born - self.aborted - self.gone - self.exported <= set(self._came(side))

    @invariant()
    def nobody_gives_up_while_both_logs_are_whole(self):
        states = [flow.owner.mirror.state for flow in self.flows if flow.owner is not None]
        reasons = [flow.halted for flow in self.flows if flow.halted]
        assert not self.is_whole or (State.HALTED not in states and not reasons), reasons

    @invariant()
    def every_stored_run_names_equal_records(self):
        for side in (HERE, THERE):
            there = self.logs[1 - side].history
            for run in self.flows[side].map().runs:
                for step in range(run.count):
                    assert there[run.downstream_start + step] == (side, run.upstream_start + step)

    @invariant()
    def nothing_unread_lies_behind_the_group(self):
        behind = self._readable(self.at, range(self.place))
        assert behind <= self.read | self.exported | self.superseded


EFFORT = settings(stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck))
TestPair = pytest.mark.long(PairMachine.TestCase)
TestPair.settings = EFFORT


def assert_promises(machine):
    machine.what_is_mirrored_comes_once_in_order_and_without_what_was_aborted()
    machine.what_is_below_a_stored_frontier_is_on_the_other_side()
    machine.nobody_gives_up_while_both_logs_are_whole()
    machine.every_stored_run_names_equal_records()
    machine.nothing_unread_lies_behind_the_group()


@pytest.fixture
def bereft():
    """THERE has deleted four of its records, of which an owner has appended copies HERE and stored nothing."""
    machine = PairMachine()
    machine.the_owner_works(THERE, 3)
    machine.delete(THERE, 4)
    machine.an_older_owner_wakes_up(HERE)
    copies = [machine.logs[HERE].history[at] for at in range(5, 9)]
    assert (copies, list(machine.flows[THERE].map().runs)) == ([(THERE, at) for at in range(4)], [])
    return machine


def test_copies_that_were_not_on_record_when_the_group_left_are_passed_over_when_it_comes_home(bereft):
    """Its commit says that it has read all below: whether that was deleted before it came, no offset tells."""
    bereft.the_group_goes_away_in_an_emergency_and_comes_home(unseen=1, away=1, reads=6)
    assert (bereft.at, bereft.place) == (HERE, 11)
    assert bereft.exported == {(HERE, 10)}
    assert_promises(bereft)


def test_copies_that_are_on_record_keep_the_group_where_it_can_read_them(bereft):
    assert bereft.flows[THERE].catch_up()
    for emergency in (False, True):
        bereft.the_group_moves(emergency=emergency)
    assert bereft._translated(HERE, 0) == Refused(Reason.TARGET_LOG_START_PASSED)
    assert (bereft.at, bereft.place) == (HERE, 0)
    assert_promises(bereft)
