"""Commits placed by the records themselves: histories of mirrors where records look alike and some are gone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kit.mm2_model import MARKER, Copying, copyings
from mmtool.translation.answers import Answer, Bounded, Exact, Reason, Refused, SourceLog, TargetLog
from mmtool.translation.lockstep import Placed, Seen, Stretch, StretchRecords, stretch_before, stretch_of
from mmtool.translation.sync_map import OffsetPair, SyncMap, translate_by_syncs
from mmtool.translation.types import UNKNOWN, UpstreamOffset


@dataclass
class Mirror:
    """A mirror's history, what its records say, and what is still there.

    Attributes:
        contents: By source offset.
        gone_here, gone_there: Source offsets, and target offsets.
    """

    history: Copying
    contents: dict[int, int]
    gone_here: frozenset[int]
    gone_there: frozenset[int]

    @property
    def here(self) -> list[Seen]:
        return [self._seen(at, at) for at in self.history.source if at not in self.gone_here]

    @property
    def there(self) -> list[Seen]:
        places = enumerate(self.history.target)
        return [self._seen(at, of) for at, of in places if of != MARKER and at not in self.gone_there]

    def _seen(self, offset: int, of: int) -> Seen:
        return Seen(offset, bytes([self.contents[of]]), UNKNOWN)

    def answers(self) -> list[tuple[int, Answer, Answer]]:
        """Commits that the syncs place within bounds: what they told, and what the records tell."""
        known = SyncMap.of(self.history.syncs, exactly_once=self.history.exactly_once)
        end, target = self.history.source[-1] + 1, TargetLog(0, len(self.history.target))
        found = []
        for commit in range(end + 1):
            told = translate_by_syncs(known, commit, target=target, source=SourceLog(0, end))
            if isinstance(told, Bounded):
                stretch = stretch_of(known, commit, told, source_end=end, target_end=target.log_end)
                if stretch is not None:
                    found.append((commit, told, self._placed(stretch, commit, told).answer))
        return found

    def answers_before(self, gone: int) -> list[tuple[int, Answer]]:
        """The same of commits below the first sync that is left, where that many syncs are gone."""
        known = SyncMap.of(self.history.syncs[gone:], exactly_once=self.history.exactly_once)
        end, target = self.history.source[-1] + 1, TargetLog(0, len(self.history.target))
        found = []
        for commit in range(end + 1):
            told = translate_by_syncs(known, commit, target=target)
            if known is not None and told == Refused(Reason.AMBIGUOUS):
                stretch = stretch_before(known, commit, source_start=0, target_start=0)
                assert stretch is not None
                found.append((commit, self._placed(stretch, commit, None).answer))
        return found

    def _placed(self, stretch: Stretch, commit: int, told: Bounded | None) -> Placed:
        source = [record for record in self.here if record.offset in stretch.upstream][: stretch.most]
        target = [record for record in self.there if record.offset in stretch.downstream]
        return StretchRecords(stretch, source, target).place(commit, told)

    def left(self, offset: int) -> list[int]:
        """What somebody reads who goes on at a position of the target: offsets on the source."""
        there = {record.offset for record in self.there}
        return [of for at, of in enumerate(self.history.target) if at >= offset and at in there]


@st.composite
def mirrors(draw: st.DrawFn) -> Mirror:
    """Contents of few kinds. What goes from the source goes with those alike: see law R; a copy with earlier ones."""
    history = draw(copyings(tells_of_restarts=False, races=draw(st.booleans())))
    kinds = draw(st.sampled_from([1, 2, 5, 250]))
    kind = st.integers(0, kinds - 1)
    contents = {at: number if kinds == 250 else draw(kind) for number, at in enumerate(history.source)}
    gone = draw(st.sets(st.sampled_from(sorted(set(contents.values()))), max_size=3 if kinds > 1 else 0))
    there = st.sets(st.integers(0, max(0, len(history.target) - 1)), max_size=6)
    away = draw(st.one_of(st.just(set()), there))
    last = {of: at for at, of in enumerate(history.target) if at in away}
    return Mirror(
        history,
        contents,
        frozenset(at for at in history.source if contents[at] in gone),
        frozenset(at for at, of in enumerate(history.target) if at <= last.get(of, -1)),
    )


@given(mirrors())
def test_n_every_record_that_is_there_on_both_sides_at_or_after_the_commit_is_at_or_after_the_answer(mirror):
    surviving = {record.offset for record in mirror.here}
    for commit, _, answer in mirror.answers():
        if not isinstance(answer, Refused):
            needed = {of for of in mirror.left(0) if of >= commit and of in surviving}
            assert needed <= set(mirror.left(answer.offset))


@given(mirrors())
def test_r_no_more_is_read_again_than_is_said(mirror):
    for commit, _, answer in mirror.answers():
        if not isinstance(answer, Refused):
            again = sum(of < commit for of in mirror.left(answer.offset))
            assert again <= (answer.reread_max if isinstance(answer, Bounded) else 0)


@given(mirrors())
def test_m_a_later_commit_never_gets_an_earlier_answer(mirror):
    placed = [answer for _, _, answer in mirror.answers() if not isinstance(answer, Refused)]
    assert all(before.offset <= after.offset for before, after in pairwise(placed))


GONE = st.integers(1, 4)


@given(mirrors(), GONE)
def test_n_and_r_hold_below_the_first_sync_that_is_left(mirror, gone):
    surviving = {record.offset for record in mirror.here}
    for commit, answer in mirror.answers_before(gone):
        if not isinstance(answer, Refused):
            left = mirror.left(answer.offset)
            assert {of for of in mirror.left(0) if of >= commit and of in surviving} <= set(left)
            again = sum(of < commit for of in left)
            assert again <= (answer.reread_max if isinstance(answer, Bounded) else 0)


@given(mirrors(), GONE)
def test_m_a_later_commit_never_gets_an_earlier_answer_below_the_first_sync(mirror, gone):
    placed = [answer for _, answer in mirror.answers_before(gone) if not isinstance(answer, Refused)]
    assert all(before.offset <= after.offset for before, after in pairwise(placed))


@given(copyings(restarts=False), GONE)
def test_where_no_records_look_alike_every_commit_below_the_first_sync_is_placed_exactly(history, gone):
    contents = {at: number for number, at in enumerate(history.source)}
    placed = Mirror(history, contents, frozenset(), frozenset()).answers_before(gone)
    assert all(isinstance(answer, Exact) for _, answer in placed)


@given(mirrors())
def test_no_answer_is_before_or_wider_than_the_one_that_the_syncs_tell(mirror):
    for _, told, answer in mirror.answers():
        assert isinstance(answer, Exact | Bounded)
        assert answer.offset >= told.offset
        assert not isinstance(answer, Bounded) or answer.reread_max <= told.reread_max


@given(copyings())
def test_where_nothing_is_gone_and_all_was_copied_once_every_commit_is_placed_exactly(history):
    """Also among records that all look alike, unless room on the target may be records or markers."""
    copied = [of for of in history.target if of != MARKER]
    assume(all(one < other for one, other in pairwise(copied)))
    alike = MARKER not in history.target
    contents = {at: 0 if alike else number for number, at in enumerate(history.source)}
    placed = Mirror(history, contents, frozenset(), frozenset()).answers()
    assert all(isinstance(answer, Exact) for commit, _, answer in placed if commit <= copied[-1] + 1)


def placed(commit: int, source: str, target: str, told: int = 1) -> Answer:
    """Records with their content, from a sync of the first one on; a blank is one that is gone."""
    sides = [
        [Seen(at, content.encode(), UNKNOWN) for at, content in enumerate(log) if content != " "]
        for log in (source, target)
    ]
    stretch = Stretch(range(len(source)), range(len(target)), closed=False, repeats=False, repeated=0)
    return StretchRecords(stretch, *sides).place(UpstreamOffset(commit), Bounded(told, commit - told)).answer


@pytest.mark.parametrize(
    ("commit", "source", "target", "answer"),
    [
        # what the mirror has not come to yet is counted because it arrives behind the group
        (7, "abcdefghij", "abcde", Bounded(5, 2)),
        # what was copied again and not told of yet is counted
        (4, "abcdefghij", "abcdefcdef", Bounded(4, 2)),
        # records that look alike are told apart until one of them may be gone
        (4, "aaaaaaaa", "aaaaaaaa", Exact(4)),
        (4, "aaaaaaaa", "aa aaaaa", Bounded(4, 1)),
        (4, "abcdefgh", "ab  efgh", Exact(2)),
        # copies of what is gone from the source follow from their neighbours
        (6, "abcd  gh", "abcdefgh", Bounded(4, 2)),
        (6, "abc  fgh", "abcdefgh", Exact(6)),
        # a sync about other records is no place to begin
        (4, "abcdefgh", "xbcdefgh", Refused(Reason.AMBIGUOUS)),
    ],
)
def test_a_commit_is_placed_as_far_as_the_records_prove(commit, source, target, answer):
    assert placed(commit, source, target) == answer


def test_the_first_record_behind_the_answer_may_be_one_that_a_restart_copied_again():
    """It is 22, which lies before the stretch and looks as 24 does."""
    stretch = Stretch(range(23, 26), range(23, 25), closed=False, repeats=True, repeated=1)
    source = [Seen(at, content, UNKNOWN) for at, content in ((23, b"b"), (24, b"a"), (25, b"a"))]
    target = [Seen(23, b"b", UNKNOWN), Seen(24, b"a", UNKNOWN)]
    assert StretchRecords(stretch, source, target).place(
        UpstreamOffset(24), Bounded(24, 2)
    ).answer == Bounded(24, 2)


def placed_before(commit: int, source: str, target: str) -> Answer:
    """From the beginning of both logs to a sync of the last record of each."""
    known = SyncMap.of([OffsetPair(len(source) - 1, len(target) - 1, 0)])
    sides = [
        [Seen(at, content.encode(), UNKNOWN) for at, content in enumerate(log)] for log in (source, target)
    ]
    stretch = stretch_before(known, commit, source_start=0, target_start=0)
    return StretchRecords(stretch, *sides).place(UpstreamOffset(commit), None).answer


def test_below_the_first_sync_records_tell_where_the_mirror_begins_unless_they_look_alike():
    """MM2 began at record 4: a group that has read two records would skip two."""
    assert placed_before(2, "abcdefgh", "efgh") == Refused(Reason.AMBIGUOUS)
    assert placed_before(4, "abcdefgh", "efgh") == Exact(0)
    assert placed_before(5, "abcdefgh", "efgh") == Exact(1)
    assert placed_before(2, "aaaaaaah", "aaah") == Refused(Reason.AMBIGUOUS)
    assert placed_before(2, "abaaaaah", "abaaaaah") == Refused(Reason.AMBIGUOUS)
    assert placed_before(2, "bcdaaaah", "bcdaaaah") == Exact(2)
