"""Translation by MirrorMaker 2's topics, against a model of how MM2 copies and of what it would answer itself."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kit.mm2_model import MARKER, Copying, copyings, mm2_answer, mm2_store
from mmtool.translation.answers import Bounded, Exact, Reason, Refused, SourceLog, TargetLog
from mmtool.translation.sync_map import OffsetPair, SyncMap, translate_back_by_syncs, translate_by_syncs
from mmtool.translation.types import UNKNOWN

HISTORIES = st.booleans().flatmap(lambda races: copyings(tells_of_restarts=False, races=races))


def map_of(history: Copying, *, checkpoints: bool = True) -> SyncMap | None:
    return SyncMap.of(
        history.syncs, history.checkpoints if checkpoints else (), exactly_once=history.exactly_once
    )


def target_of(history: Copying) -> TargetLog:
    return TargetLog(0, len(history.target))


def answers(history: Copying):
    """Whether the source answers or not."""
    known, target, end = map_of(history), target_of(history), history.source[-1] + 3
    for source, commit in product((UNKNOWN, SourceLog(0, end)), range(end)):
        answer = translate_by_syncs(known, commit, target=target, source=source)
        if not isinstance(answer, Refused):
            yield commit, answer


@given(HISTORIES)
def test_n_every_copied_record_at_or_after_the_commit_is_at_or_after_the_answer(history):
    for commit, answer in answers(history):
        needed = {record for record in history.target if record >= commit}
        assert needed <= set(history.target[answer.offset :])


@given(HISTORIES)
def test_r_no_more_is_read_again_than_is_said(history):
    for commit, answer in answers(history):
        again = sum(MARKER < record < commit for record in history.target[answer.offset :])
        assert again <= (answer.reread_max if isinstance(answer, Bounded) else 0)


@given(HISTORIES)
def test_m_a_later_commit_never_gets_an_earlier_answer(history):
    for before, after in pairwise(answers(history)):
        assert before[1].offset <= after[1].offset or after[0] < before[0]


@given(st.booleans().flatmap(lambda races: copyings(races=races)))
def test_w_no_answer_is_before_mm2_s_own(history):
    """Once MM2 has told how far it copied: until then it trusts a repetition that may never be completed."""
    history.commit()
    assume(history.syncs and history.syncs[-1].upstream == max(history.target))
    store, known, target = mm2_store(history.syncs), map_of(history, checkpoints=False), target_of(history)
    for commit in range(history.source[-1] + 3):
        theirs = mm2_answer(store, commit)
        if theirs is not None:
            answer = translate_by_syncs(known, commit, target=target)
            assert not isinstance(answer, Refused)
            assert answer.offset >= theirs


@given(st.booleans().flatmap(lambda races: copyings(loses_target=True, races=races)))
def test_n_holds_behind_a_target_that_was_made_anew_as_well(history):
    """Once MM2 has told of the new one: until then nothing but its length can show it."""
    assume(history.target and history.syncs)
    here = history.syncs[-1]
    assume(here.downstream < len(history.target) and history.target[here.downstream] == here.upstream)
    for commit, answer in answers(history):
        needed = {record for record in history.target if record >= commit}
        assert needed <= set(history.target[answer.offset :])


@given(copyings(races=True, restarts=False))
def test_o_a_sync_that_later_ones_overtook_takes_no_answer_away(history):
    """Every commit has one from the first synced record on."""
    assume(history.syncs)
    first = min(sync.upstream for sync in history.syncs)
    answered = {commit for commit, _ in answers(history)}
    assert answered >= {record for record in history.target if record >= first}


def shows_repetitions(below: list[int]) -> bool:
    """Whether the sync of the last of these shows what MM2 copied twice: it came to no hole before it stopped."""
    stops = [place for place, (one, other) in enumerate(pairwise(below)) if MARKER < other <= one]
    contiguous = below[: stops[-1] + 1] if stops else []
    holes = any(other > one + 1 for one, other in pairwise(contiguous))
    return not stops or (not holes and below[-1] < len(below) - 1)


@given(copyings(tells_of_restarts=False), st.integers(1, 4))
def test_where_mm2_s_first_syncs_were_never_sent_a_group_below_them_begins_at_the_log_start(history, starved):
    """MM2 began at the source's beginning, and no sync is gone."""
    told = history.syncs[starved:]
    assume(told and shows_repetitions(history.target[: told[0].downstream + 1]))
    known = SyncMap.of(told, exactly_once=history.exactly_once, from_start=True)
    for commit in range(history.source[-1] + 3):
        answer = translate_by_syncs(known, commit, target=target_of(history))
        assert not isinstance(answer, Refused)
        assert {of for of in history.target if of >= commit} <= set(history.target[answer.offset :])
        again = sum(MARKER < of < commit for of in history.target[answer.offset :])
        assert again <= (answer.reread_max if isinstance(answer, Bounded) else 0)


@given(HISTORIES)
def test_the_way_back_skips_nothing_and_reads_no_more_again_than_it_says(history):
    check_way_back(history, map_of(history))


@given(copyings(tells_of_restarts=False), st.integers(1, 4))
def test_so_does_the_way_back_where_mm2_s_first_syncs_were_never_sent(history, starved):
    told = history.syncs[starved:]
    assume(told and shows_repetitions(history.target[: told[0].downstream + 1]))
    check_way_back(history, SyncMap.of(told, exactly_once=history.exactly_once, from_start=True))


def check_way_back(history: Copying, known: SyncMap | None) -> None:
    target = target_of(history)
    for commit in range(len(history.target) + 1):
        answer = translate_back_by_syncs(known, commit, target=target)
        if isinstance(answer, Refused):
            continue
        read = set(history.target[:commit]) - {MARKER}
        passed = set(history.source[: history.source.index(max(read)) + 1]) if read else set()
        needed = passed | set(history.target) - {MARKER}
        assert {record for record in needed if record < answer.offset} <= read
        again = sum(record >= answer.offset for record in read)
        assert again <= (answer.reread_max if isinstance(answer, Bounded) else 0)


def pair(upstream, downstream, at_ms=0):
    return OffsetPair(upstream, downstream, at_ms)


def by(syncs, commit, *, checkpoints=(), start=0, end=100_000, source=UNKNOWN):
    known = SyncMap.of(syncs, checkpoints)
    return translate_by_syncs(known, commit, target=TargetLog(start, end), source=source)


RESTARTED = [pair(0, 0), pair(1000, 1000), pair(900, 1101), pair(1100, 1301)]
LATE_FIRST = [pair(0, 0), pair(1, 1), pair(3, 4)]
FULL_ROOM = [pair(0, 0), *(pair(n, n) for n in range(300, 305))]
OVERTAKEN = [pair(0, 0), pair(101, 101), pair(303, 303), pair(202, 202)]


@pytest.mark.parametrize(
    ("syncs", "answers"),
    [
        ([pair(100, 50)], {100: Exact(50), 101: Exact(51)}),
        # records after the first sync, or room before the second: a marker leaves less room than records
        ([pair(100, 50), pair(201, 151), pair(400, 160)], {120: Bounded(51, 19), 300: Bounded(152, 8)}),
        # a repetition counts from its restart, with the 100 records before its first sync: they may be copies as well
        (RESTARTED, {905: Bounded(1102, 4), 850: Bounded(1, 849 + 100)}),
        # other partitions of its task may have held all permits: here there is room for one more, before record 3
        (LATE_FIRST, {0: Exact(0), 1: Bounded(1, 1), 2: Bounded(2, 2), 3: Exact(4)}),
        # whoever copied record 299 a second time copied 300 to 304 after it; so a far commit is not concerned
        ([*FULL_ROOM, pair(305, 310)], {290: Bounded(1, 289)}),
        ([*FULL_ROOM, pair(305, 313)], {290: Bounded(1, 289 + 3)}),
        # an overtaken sync keeps what was before it; the one that overtook it counts no more: MM2 may have gone back
        (OVERTAKEN, {150: Bounded(102, 48), 303: Bounded(203, 100)}),
        ([*OVERTAKEN, pair(404, 404)], {350: Bounded(203, 147)}),
        ([*OVERTAKEN, pair(404, 404), pair(606, 606), pair(505, 505)], {450: Bounded(405, 45)}),
        # so does one that is sent once more
        ([pair(0, 0), pair(101, 101), pair(202, 202), pair(101, 101)], {50: Bounded(1, 49)}),
    ],
)
def test_an_answer_is_as_near_as_the_syncs_prove(syncs, answers):
    assert {commit: by(syncs, commit) for commit in answers} == answers


def test_copies_of_a_restart_count_once_they_reach_as_far_as_those_before():
    """MM2 answers 1102 at once: a group would skip what was not copied again if MM2 or the source died then."""
    syncs = [pair(0, 0), pair(1000, 1000), pair(900, 1101)]
    assert mm2_answer(mm2_store(syncs), 905) == 1102
    assert by(syncs, 905) == Bounded(1, 904 + 5 + 100)
    assert by(syncs, 1101) == Bounded(1102, 200)
    assert by([*syncs, pair(950, 1151)], 960) == Bounded(1, 959 + 60 + 100)
    assert by([*syncs, pair(1099, 1300)], 905) == Bounded(1, 904 + 5 + 100)
    assert by([*syncs, pair(1100, 1301)], 905) == Bounded(1102, 4)


def test_with_exactly_once_room_between_syncs_is_markers_and_no_repetition():
    syncs = [pair(0, 0), pair(10, 12)]
    assert SyncMap.of(syncs, exactly_once=True).forward.up_to(11) == 13
    assert SyncMap.of(syncs).forward.up_to(11) == 1


def test_a_sync_that_mm2_has_dropped_serves_still():
    """MM2's store keeps few syncs far behind the newest one."""
    syncs = [pair(n, n) for n in range(0, 100_000, 101)]
    commit = 40_000
    assert by(syncs, commit) == Bounded(40_000 // 101 * 101 + 1, commit - 40_000 // 101 * 101 - 1)
    assert mm2_answer(mm2_store(syncs), commit) < commit - 1_000


def test_a_checkpoint_of_any_group_serves_where_its_sync_is_gone():
    """The syncs topic is compacted: one sync of a partition is all that is certain to be left."""
    assert by([pair(5000, 4000, 9)], 3000) == Refused(Reason.AMBIGUOUS)
    assert by([pair(5000, 4000, 9)], 3000, checkpoints=[pair(2900, 2000, 5)]) == Bounded(2000, 2000)


def test_with_checkpoints_alone_and_a_lost_source_the_end_of_the_log_is_the_bound():
    held = [pair(2900, 2000)]
    assert by([], 3000, checkpoints=held, end=2070) == Bounded(2000, 70)
    assert by([], 3000, checkpoints=held, end=2070, source=SourceLog(0, 3000)) == Bounded(2000, 3000)


def test_checkpoints_about_a_log_that_was_deleted_do_not_count():
    """By their time, or because they contradict the first sync about the new log."""
    syncs = [pair(0, 0, 1), pair(900, 900, 4), pair(1000, 40, 10), pair(9000, 8000, 20)]
    assert by(syncs, 960, checkpoints=[pair(30, 30, 5)]) == Refused(Reason.AMBIGUOUS)
    assert by(syncs, 960, checkpoints=[pair(950, 901, 15)]) == Refused(Reason.AMBIGUOUS)
    assert by(syncs, 960, checkpoints=[pair(30, 30, 15)]) == Bounded(30, 10)


@pytest.mark.parametrize(
    ("start", "source", "said"),
    [
        (0, UNKNOWN, Refused(Reason.AMBIGUOUS)),
        (0, SourceLog(100, 900), Refused(Reason.AMBIGUOUS)),
        (50, SourceLog(100, 900), Exact(50)),
        (50, SourceLog(99, 900), Refused(Reason.TARGET_LOG_START_PASSED)),
        (50, UNKNOWN, Refused(Reason.TARGET_LOG_START_PASSED)),
        (51, SourceLog(100, 900), Refused(Reason.TARGET_LOG_START_PASSED)),
    ],
)
def test_below_the_first_sync_only_logs_without_anything_to_read_give_an_answer(start, source, said):
    assert by([pair(100, 50)], 20, start=start, source=source) == said


@pytest.mark.parametrize(
    ("syncs", "commit", "end", "exactly_once", "said"),
    [
        # target 0 1 0: MM2 copied two records, told of none, restarted, and told of the first one that it copied again
        ([pair(0, 2)], 1, 3, False, Bounded(0, 2 + 1)),
        ([pair(0, 2), pair(1, 3)], 1, 4, False, Exact(3)),
        # target 3 4 5 6 3, of a source whose first three records retention had deleted: record 6 is at 3 alone
        ([pair(3, 4)], 6, 5, False, Bounded(0, 4 + 3)),
        ([pair(3, 4)], 7, 5, False, Exact(5)),
        ([pair(3, 4), pair(6, 7)], 6, 8, False, Exact(7)),
        # as many copies as records are no repetition, nor are fewer, where the source has holes
        ([pair(185, 185)], 186, 186, False, Exact(186)),
        ([pair(185, 150)], 186, 151, False, Exact(151)),
        # with exactly-once nothing is one
        ([pair(185, 190)], 186, 191, True, Exact(191)),
        ([pair(185, 190)], 186, 191, False, Bounded(0, 190 + 1)),
    ],
)
def test_below_the_first_sync_only_a_complete_repetition_is_trusted(syncs, commit, end, exactly_once, said):
    known = SyncMap.of(syncs, exactly_once=exactly_once, from_start=True)
    assert translate_by_syncs(known, commit, target=TargetLog(0, end)) == said


def test_copies_of_unread_records_that_the_target_deleted_before_the_first_sync_are_refused():
    known = SyncMap.of([pair(3, 4)], from_start=True)
    target, source = TargetLog(4, 5), SourceLog(3, 9)
    assert translate_by_syncs(known, 3, target=target, source=source) == Exact(4)
    said = translate_by_syncs(known, 5, target=target, source=source)
    assert said == Refused(Reason.TARGET_LOG_START_PASSED)


@pytest.mark.parametrize(
    ("syncs", "commit", "logs", "reason"),
    [
        ([pair(100, 0)], 20, {}, Reason.NOT_MIRRORED),
        ([pair(100, 50)], 100, {"end": 49}, Reason.PARTITION_MISSING),
        ([pair(100, 50)], 100, {"start": 51}, Reason.TARGET_LOG_START_PASSED),
        ([pair(100, 50)], 901, {"source": SourceLog(0, 900)}, Reason.BEYOND_SOURCE_END),
        ([], 5, {}, Reason.NEVER_RAN),
    ],
)
def test_a_position_outside_of_a_log_or_of_what_was_mirrored_is_refused(syncs, commit, logs, reason):
    assert by(syncs, commit, **logs) == Refused(reason)


def test_the_way_back_of_a_flow_of_which_nothing_was_told_never_ran():
    assert translate_back_by_syncs(None, 5, target=TargetLog(0, 9)) == Refused(Reason.NEVER_RAN)


@pytest.mark.parametrize(
    ("syncs", "commit", "source", "said"),
    [
        ([pair(100, 0), pair(201, 101)], 0, UNKNOWN, Exact(100)),
        ([pair(100, 0), pair(201, 101)], 101, UNKNOWN, Exact(201)),
        ([pair(100, 0), pair(201, 101)], 50, UNKNOWN, Bounded(101, 49)),
        # two records too many between the syncs: the last of them may have been copied before
        ([pair(100, 0), pair(110, 12)], 13, UNKNOWN, Bounded(111, 1)),
        ([pair(100, 50)], 20_000, UNKNOWN, Refused(Reason.BEYOND_SOURCE_END)),
        ([pair(100, 50)], 60, SourceLog(0, 50), Refused(Reason.BEYOND_SOURCE_END)),
        ([pair(100, 50)], 60, SourceLog(150, 200), Refused(Reason.TARGET_LOG_START_PASSED)),
        ([pair(100, 50)], 10, UNKNOWN, Refused(Reason.AMBIGUOUS)),
    ],
)
def test_the_way_back_begins_behind_the_last_record_that_is_known_to_be_read(syncs, commit, source, said):
    assert (
        translate_back_by_syncs(SyncMap.of(syncs), commit, target=TargetLog(0, 10_000), source=source) == said
    )


TEN_MINUTES = 600_000


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ([pair(400, 150)], "it is further upstream than one that is further downstream"),
        ([pair(180, 200)], "there is no room for 99 records between 101 and 180"),
        ([pair(202, 202, TEN_MINUTES + 1)], "it comes too late"),
        ([pair(202, 202), pair(250, 250)], "MM2 goes on from there, and not from 303"),
        ([pair(202, 0)], "nothing is below it"),
    ],
)
def test_a_sync_that_goes_back_otherwise_is_about_a_target_that_was_made_anew(told, why):
    first = told[0].upstream
    assert isinstance(by([pair(0, 0), pair(101, 101), pair(303, 303), *told], first - 1), Refused), why
