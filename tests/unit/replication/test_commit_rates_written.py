"""Commit rates as `replicate` keeps them: what is written of them, and how seldom."""

from __future__ import annotations

from mmtool.plan.groups.facts import Commit
from mmtool.replication.background.checkpoints import CommitRates
from mmtool.translation.types import TopicPartition

PLACES = [TopicPartition("orders", n) for n in range(20)]
EVERY_MS = 5_000


def commits(groups: int, offset: int):
    return {(f"g-{n}", place): Commit(offset) for n in range(groups) for place in PLACES}


def run(
    rates: CommitRates, seconds: int, per_second: int, *, groups: int = 1, since_ms: int = 0, at: int = 0
):
    """What is written while groups commit steadily, by the number of records."""
    written = 0
    for ms in range(since_ms, since_ms + seconds * 1000 + 1, EVERY_MS):
        rates.look(commits(groups, at + (ms - since_ms) * per_second // 1000), ms)
        news = rates.news()
        written += len(news)
        rates.note(news, rates.gone())
    return written


def test_a_group_s_rate_is_written_once_it_is_measured():
    rates = CommitRates()
    run(rates, 5, 40)
    assert rates.written["g-0"].rate("orders", 19) == 40


def test_while_groups_commit_steadily_or_not_at_all_nothing_more_is_written():
    for per_second in (0, 40):
        rates = CommitRates()
        assert run(rates, 600, per_second, groups=20) == 20


def test_a_group_that_stops_is_written_as_idle_after_a_few_records():
    rates = CommitRates()
    run(rates, 300, 40)
    again = run(rates, 300, 0, since_ms=305_000, at=12_000)
    assert 1 <= again <= 12
    assert rates.written["g-0"].rate("orders", 0) == 0


def test_however_a_group_s_rate_jumps_its_record_is_written_each_half_a_minute_at_the_most():
    rates, written, offset = CommitRates(), 0, 0
    for number in range(120):
        offset += 5 * (1 + number % 7) ** 4
        rates.look(commits(1, offset), number * EVERY_MS)
        news = rates.news()
        written += len(news)
        rates.note(news, ())
    assert 3 <= written <= 1 + 600 // 30


def test_what_another_owner_measured_holds_until_it_is_measured_again():
    before = CommitRates()
    run(before, 60, 40)
    rates = CommitRates()
    rates.take_over(before.written.values())
    rates.look(commits(1, 5), 0)
    assert rates.news() == []
    run(rates, 300, 0, at=5)
    assert rates.written["g-0"].rate("orders", 0) == 0


def test_a_group_that_is_gone_is_struck_out():
    rates = CommitRates()
    run(rates, 10, 40)
    rates.look({}, 20_000)
    struck_out = rates.gone()
    assert [record.group for record in struck_out] == ["g-0"]
    rates.note((), struck_out)
    assert (rates.written, rates.gone()) == ({}, [])


def test_a_record_of_twenty_partitions_is_small():
    rates = CommitRates()
    run(rates, 10, 12_345)
    assert len(rates.written["g-0"].encode()) < 400


def test_a_group_that_could_not_be_asked_keeps_its_rate():
    rates = CommitRates()
    run(rates, 300, 40)
    rates.look({}, 305_000, untold=["g-0"])
    assert (rates.gone(), rates.news()) == ([], [])
    assert run(rates, 60, 40, since_ms=310_000, at=12_400) == 0
    assert rates.written["g-0"].rate("orders", 0) == 40
