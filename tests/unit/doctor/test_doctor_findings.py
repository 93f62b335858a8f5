"""A check that fails on its way keeps what it has found."""

from types import SimpleNamespace

from mmtool.doctor.examination import CheckOf
from mmtool.doctor.finding import Check, problem
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
