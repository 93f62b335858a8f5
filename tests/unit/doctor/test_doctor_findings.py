"""A check that fails on its way keeps what it has found."""

from types import SimpleNamespace

from mmtool.doctor.examination import CheckOf, Examination
from mmtool.doctor.finding import Check, ok, problem, warning
from mmtool.errors import UnreachableError


def fails(_):
    yield problem(Check.NAMES, "B", "orders", "taken", "rename it")
    raise UnreachableError("cluster B does not answer", remedy="check its brokers")


def test_what_was_found_before_a_check_failed_stays_found():
    found = CheckOf(Check.NAMES, fails, "fine").findings(SimpleNamespace(), "", "A->B")
    assert [(one.subject, one.severity) for one in found] == [("orders", "problem"), ("A->B", "warning")]
    assert found[1].message == "could not be checked: cluster B does not answer"


def test_a_check_that_finds_nothing_has_one_row():
    (only,) = CheckOf(Check.NAMES, lambda _: (), "fine").findings(SimpleNamespace(), "", "A->B")
    assert (only.severity, only.message, only.subject) == ("ok", "fine", "A->B")


def test_in_brief_a_kind_that_is_found_in_many_places_is_one_row_and_what_is_well_none():
    rows = [
        problem(Check.NAMES, "B", f"topic-{number}", f"topic-{number} is taken", "rename it")
        for number in range(4_999)
    ]
    found = Examination(
        (*rows, warning(Check.LOOP, "", "A->B", "a cycle", "cut it"), ok(Check.DISK, "B", "free"))
    )
    (names, loop) = found.brief
    assert names.subject == "topic-0, topic-1, topic-2 and 4996 more"
    assert names.message == "4,999 times, the first: topic-0 is taken (--all shows the others)"
    assert (loop.message, len(found.findings)) == ("a cycle", 5_001)
