"""A check that fails on its way keeps what it has found."""

from mmtool.doctor.checks import Examination
from mmtool.doctor.finding import Finding, flow_check, problem
from mmtool.errors import UnreachableError


@flow_check("names", "fine")
def fails(_):
    yield problem("B", "orders", "taken", "rename it")
    raise UnreachableError("cluster B does not answer", remedy="check its brokers")


def test_what_was_found_before_a_check_failed_stays_found():
    found = fails.findings(None, "", "A->B")
    assert [(one.subject, one.severity) for one in found] == [("orders", "problem"), ("A->B", "warning")]
    assert {one.check for one in found} == {"names"}
    assert found[1].message == "could not be checked: cluster B does not answer"


def test_a_check_that_finds_nothing_has_one_row():
    (only,) = flow_check("names", "fine")(lambda _: ()).findings(None, "", "A->B")
    assert only == Finding("names", "", "A->B", "ok", "fine")


def test_in_brief_a_kind_that_is_found_in_many_places_is_one_row_and_what_is_well_none():
    rows = [
        Finding("names", "B", f"topic-{number}", "problem", f"topic-{number} is taken", "rename it")
        for number in range(4_999)
    ]
    loop = Finding("loop", "", "A->B", "warning", "a cycle", "cut it")
    found = Examination((*rows, loop, Finding("disk", "B", "", "ok", "free")))
    (names, loop) = found.brief
    assert names.subject == "topic-0, topic-1, topic-2 and 4996 more"
    assert names.message == "4,999 times, the first: topic-0 is taken (--all shows the others)"
    assert (loop.message, len(found.findings)) == ("a cycle", 5_001)
