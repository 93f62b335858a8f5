"""What the judge of the chaos suite makes of a group that a flow keeps in step on the target."""

from dataclasses import replace

import pytest

from kit.chaos.anomalies import BothLogs, Seen
from kit.chaos.judge import _empty, stands_well, wrong_records
from mmtool.translation.types import TopicPartition

AT, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
HOME = [Seen(10 + n, n, n) for n in range(8)]
LOGS = {AT: BothLogs(AT, HOME, frozenset(), [Seen(n, n, n) for n in range(8)])}


@pytest.mark.parametrize(
    ("there", "home", "read_to", "well"),
    [
        pytest.param({AT: 5}, {AT: 15}, {AT: 15}, True, id="where it is at home"),
        pytest.param({AT: 7}, {AT: 15}, {AT: 17}, True, id="where it was before a commit came back"),
        pytest.param({AT: 8}, {AT: 15}, {AT: 17}, False, id="ahead of all that it had read"),
        pytest.param({AT: 4}, {AT: 15}, {AT: 17}, False, id="behind what is committed at home"),
        pytest.param({}, {AT: 15}, {AT: 15}, False, id="not there yet"),
        pytest.param({AT: 5}, {AT: 15}, {}, True, id="nothing is known of what it had read"),
        pytest.param({AT: 5}, {AT: 15, OTHER: 3}, {}, True, id="partitions of others do not count"),
        pytest.param({AT: 5}, {}, {}, False, id="moved, and nothing is known of it at home"),
    ],
)
def test_a_group_stands_well_between_what_is_committed_at_home_and_what_it_had_read(
    there, home, read_to, well
):
    assert stands_well(LOGS, there, home, read_to) == well


def test_a_group_right_before_the_markers_of_a_new_owner_stands_where_the_record_behind_them_is_next():
    split = [Seen(n if n < 5 else n + 2, n, n) for n in range(8)]
    logs = {AT: replace(LOGS[AT], target=split)}
    assert stands_well(logs, {AT: 5}, {AT: 15}, {AT: 15})
    assert stands_well(logs, {AT: 7}, {AT: 15}, {AT: 15})
    assert not stands_well(logs, {AT: 4}, {AT: 15}, {AT: 15})
    assert not stands_well(logs, {AT: 8}, {AT: 15}, {AT: 15})


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param([*range(8), "tail"], [], id="one that was born there"),
        pytest.param([0, 1, 3, 4, 5, 6, 7], ["unseen orders-0@12"], id="one that did not come"),
        pytest.param([0, 1, 1, 2, 3, 4, 5, 6, 7], ["duplicate orders-0@11"], id="one that came twice"),
    ],
)
def test_of_records_that_a_group_is_to_read_elsewhere_none_is_missing_or_comes_twice(target, expected):
    there = [Seen(at, one, one) for at, one in enumerate(target)]
    assert [str(one) for one in wrong_records({AT: replace(LOGS[AT], target=there)})] == expected


def test_of_a_topic_without_records_nothing_is_told():
    nothing = {OTHER: BothLogs(OTHER, [], frozenset(), [])}
    bare = TopicPartition("bare", 0)
    assert _empty(LOGS | nothing) == []
    assert _empty(LOGS | {bare: BothLogs(bare, [], frozenset(), [])}) == ["nothing was written into bare"]
    assert _empty({}) == ["there is no topic"]
