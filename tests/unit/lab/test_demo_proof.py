"""The judge of the demo: it must find what went wrong, or its yes is worth nothing."""

import json

import pytest

from mmtool.errors import CheckFailedError
from mmtool.lab.demo_apps import GroupProof, differences, numbers, prove
from mmtool.lab.demo_story import Tour, failure_of
from mmtool.lab.records import RecordMaker
from mmtool.lab.topics import Content

MAKER = RecordMaker(100)
CUT = 4


def content(partition, number):
    return Content(b"k", MAKER.value(partition, number), (("h", b"1"),), 1000 + number)


def log():
    return {
        "orders": {0: [content(0, n) for n in range(10)], 1: [content(1, n) for n in range(6)]},
        "payments": {0: [content(0, n) for n in (0, 1, 2, 6, 7)]},
    }


def halves():
    """What a group read on either side of an exact failover."""
    before = {topic: {p: records[:CUT] for p, records in parts.items()} for topic, parts in log().items()}
    after = {topic: {p: records[CUT:] for p, records in parts.items()} for topic, parts in log().items()}
    return before, after


def test_an_exact_failover_has_every_record_once():
    proof = prove("app", log(), *halves())
    assert proof == GroupProof("app", 21, 12, 9, skipped=0, reread=0, foreign=0, reordered=False)
    assert (proof.holds, proof.verdict) == (True, "exact")


def test_a_group_that_had_read_everything_reads_nothing_more():
    assert prove("app", log(), log(), {}).holds


def changed_on_the_way(_before, after):
    after["orders"][0][2] = after["orders"][0][2]._replace(headers=())


@pytest.mark.parametrize(
    ("verdict", "happens"),
    [
        ("1 skipped", lambda _, after: after["orders"][1].pop(0)),
        ("5 skipped", lambda before, after: (before.pop("payments"), after.pop("payments"))),
        ("1 re-read", lambda before, after: after["payments"][0].insert(0, before["payments"][0][-1])),
        (
            "1 skipped, 1 re-read",
            lambda before, after: after["orders"][0].__setitem__(0, before["orders"][0][0]),
        ),
        ("1 foreign", lambda _, after: after["payments"][0].append(content(0, 3))),
        ("1 skipped, 1 foreign", changed_on_the_way),
        ("reordered", lambda _, after: after["orders"][0].reverse()),
    ],
)
def test_what_went_wrong_is_found(verdict, happens):
    """A skip and a re-read do not cancel each other out; a record of an aborted transaction is a foreign one."""
    before, after = halves()
    happens(before, after)
    proof = prove("app", log(), before, after)
    assert (proof.verdict, proof.holds) == (verdict, False)


def test_two_logs_are_compared_partition_by_partition():
    west = log()
    west["orders"][1].pop()
    assert (differences(log(), log()), list(differences(log(), west))) == ({}, ["orders-1"])


def test_a_record_tells_its_number_itself():
    assert numbers(log()["payments"]) == {0: [0, 1, 2, 6, 7]}


def test_a_record_without_a_number_is_not_counted_as_one():
    with pytest.raises(ValueError, match="not a record of the lab"):
        numbers({0: [Content(b"k", json.dumps({"n": 1}).encode(), (), 0)]})


def test_the_tour_is_summed_up_in_one_line(tmp_path):
    tour = Tour(tmp_path, [prove(name, log(), *halves()) for name in ("a", "b")], 3.14, 41.4)
    assert tour.error is None
    assert tour.summary.startswith("2 groups, 21 records, 0 skipped, 0 re-read, failover took 3.1 s")


def test_a_proof_that_fails_ends_the_tour_with_7_and_names_the_group(tmp_path):
    before, _ = halves()
    tour = Tour(tmp_path, [prove("fine", log(), *halves()), prove("broken", log(), before, {})], 3.1, 41.0)
    error = tour.error
    assert isinstance(error, CheckFailedError)
    assert error.exit_code == 7
    assert error.message.endswith("; broken: 9 skipped")
    assert str(tmp_path) in error.remedy


@pytest.mark.parametrize(("code", "told"), [(9, 9), (10, 10), (137, 1), (143, 1), (0, 1)])
def test_a_command_of_the_tour_that_ends_badly_is_told_with_its_own_error_and_exit_code(code, told):
    error = failure_of("mmtool replicate", code, "warning: x\nerror: no broker answers\nremedy: start it\n")
    assert error.exit_code == told
    assert error.message.endswith(f"ended with exit code {code}: no broker answers")
