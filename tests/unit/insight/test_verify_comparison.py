"""Two logs compared record by record: each planted defect is told by its kind and its place."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.insight.verify.comparison import Expectations, Line, LogLines, align, compare_lines
from mmtool.insight.verify.verdicts import Difference, Findings, Mismatch


def line(number, *, timestamp=None, key=None, value=None, headers=7):
    time = 1_000 + number if timestamp is None else timestamp
    parts = (time, 50 + number if key is None else key, 100 + number if value is None else value, headers)
    return Line(*parts, hash(parts))


def log(lines, start=0):
    found = LogLines()
    for offset, one in enumerate(lines, start):
        found.add(offset, one)
    return found


def books(shift, until=10**9):
    return lambda offset: offset + shift if offset < until else None


SOURCE = [line(n) for n in range(10)]


def compared(target, *, strays=(), source=SOURCE, start=100, **known):
    there = log(target, start)
    known.setdefault("leads_to", books(start))
    known.setdefault("upstream_end", len(source))
    known.setdefault("downstream_end", start + len(target))
    return compare_lines(log(source), there, log(strays, start + len(target)), Expectations(**known))


def first(findings):
    found = findings.first
    return found and (found.kind, found.upstream_offset, found.downstream_offset)


def test_the_same_records_have_no_difference():
    findings = compared(SOURCE)
    assert (findings.compared, findings.differences) == (10, [])


@pytest.mark.parametrize(
    ("target", "difference"),
    [
        ([*SOURCE[:4], line(4, value=1), *SOURCE[5:]], (Mismatch.VALUE, 4, 104)),
        ([*SOURCE[:4], line(4, key=1), *SOURCE[5:]], (Mismatch.KEY, 4, 104)),
        ([*SOURCE[:4], line(4, headers=0), *SOURCE[5:]], (Mismatch.HEADERS, 4, 104)),
        ([*SOURCE[:4], line(4, timestamp=5), *SOURCE[5:]], (Mismatch.TIMESTAMP, 4, 104)),
        ([*SOURCE[:4], *SOURCE[5:]], (Mismatch.MISSING, 4, 104)),
        ([*SOURCE[:5], SOURCE[2], *SOURCE[5:]], (Mismatch.DUPLICATED, 5, 105)),
        ([*SOURCE[:5], line(99), *SOURCE[5:]], (Mismatch.FOREIGN, 5, 105)),
    ],
)
def test_one_record_that_differs_is_told_by_its_kind_and_its_place(target, difference):
    findings = compared(target)
    assert (first(findings), sum(findings.counts.values())) == (difference, 1)


def test_a_swapped_pair_is_one_record_that_moved():
    findings = compared([*SOURCE[:4], SOURCE[5], SOURCE[4], *SOURCE[6:]])
    assert findings.counts == {Mismatch.REORDERED: 1}
    assert findings.first.downstream_offset in (104, 105)


def test_a_missing_tail_is_counted_record_by_record():
    findings = compared(SOURCE[:7])
    assert first(findings) == (Mismatch.MISSING, 7, 107)
    assert findings.counts == {Mismatch.MISSING: 3}


def test_what_another_producer_wrote_is_never_part_of_the_mirror():
    findings = compared(SOURCE, strays=[line(99), SOURCE[3]])
    assert findings.counts == {Mismatch.FOREIGN: 1, Mismatch.DUPLICATED: 1}


def test_stored_state_that_leads_to_another_record_is_told_where_the_records_are_right():
    findings = compared(SOURCE, leads_to=books(101))
    assert first(findings) == (Mismatch.MAPPING, 0, 101)


def test_stored_state_may_mean_a_twin():
    twins = [line(1)] * 6
    assert (
        compared(twins, source=twins, leads_to=books(101)).count(Mismatch.MAPPING) == 1
    )  # the last leads nowhere


def test_a_cleaner_may_remove_what_a_later_record_of_the_key_replaces():
    source = [line(0, key=1), line(1, key=2), line(2, key=1), line(3, key=3)]
    assert compared(source[1:], source=source, compacted=True, leads_to=books(99)).differences == []
    assert compared(source[1:], source=source, leads_to=books(99)).count(Mismatch.MISSING) == 1


def test_a_cleaner_never_removes_the_newest_record_of_a_key():
    source = [line(0, key=1), line(1, key=2), line(2, key=1)]
    found = first(compared([source[0], source[2]], source=source, compacted=True))
    assert found == (Mismatch.MISSING, 1, 101)


def test_a_record_missing_in_one_range_and_extra_in_another_has_moved():
    one, two = Findings(), Findings()
    one.add(Difference(Mismatch.MISSING, 4, 104, 77))
    two.add(Difference(Mismatch.FOREIGN, 900, 1000, 77))
    whole = Findings.joined([one, two])
    assert whole.differences == [Difference(Mismatch.REORDERED, 4, 1000, 77)]
    assert whole.count(Mismatch.MISSING) == whole.count(Mismatch.FOREIGN) == 0


records = st.lists(st.integers(0, 12).map(line), max_size=40)


@given(records, records)
def test_an_alignment_ascends_on_both_sides_and_pairs_equal_records_only(source, target):
    pairs = align(source, target)
    assert all(source[at] == target[to] for at, to in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in itertools.pairwise(pairs))


@given(records, records)
def test_every_record_is_matched_or_told_of(source, target):
    findings = compared(target, source=source, leads_to=lambda _: None)
    pairs = align(source, target)
    gone, extra = len(source) - len(pairs), len(target) - len(pairs)
    of_both = Mismatch.REORDERED, Mismatch.KEY, Mismatch.VALUE, Mismatch.HEADERS, Mismatch.TIMESTAMP
    both = findings.count(*of_both)
    assert findings.count(Mismatch.MISSING) + both == gone
    assert findings.count(Mismatch.FOREIGN, Mismatch.DUPLICATED) + both == extra


@given(records)
def test_a_log_is_the_same_as_itself(source):
    assert compared(source, source=source, leads_to=books(100)).differences == []


def test_a_record_that_lies_in_a_gap_or_is_a_dead_letter_does_not_miss():
    there = [*SOURCE[:3], *SOURCE[5:]]
    letter = {4: SOURCE[4].print ^ SOURCE[4].timestamp}
    found = compared(there, leads_to=lambda _: None, gaps=((3, 4),), letters=letter)
    assert (found.differences, found.in_gaps, found.letters) == ([], 1, 1)


def test_a_dead_letter_of_another_record_excuses_nothing():
    there = [*SOURCE[:3], *SOURCE[4:]]
    assert first(compared(there, leads_to=lambda _: None, letters={3: 5})) == (Mismatch.MISSING, 3, 103)
