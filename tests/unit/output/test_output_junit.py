"""JUnit reports."""

from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from mmtool.output.junit import Case, junit_xml
from mmtool.output.redaction import HIDDEN, NOTHING

NOW = datetime(2026, 11, 26, tzinfo=UTC)


def suite_of(*cases, replaced=NOTHING):
    return ET.fromstring(junit_xml("mmtool smoke A->B", cases, NOW, replaced)).find("testsuite")  # noqa: S314  our own


def test_a_case_carries_its_time_and_what_is_wrong():
    suite = suite_of(Case("owner", 1.25, "nobody runs A->B", passed=False))
    (case,) = suite
    assert (case.get("classname"), case.get("name"), case.get("time")) == (
        "mmtool smoke A->B",
        "owner",
        "1.250",
    )
    assert case.find("failure").get("message") == case.find("failure").text == "nobody runs A->B"


def test_the_suite_counts_its_cases():
    suite = suite_of(
        Case("a", 0.5, "fine", passed=True),
        Case("b", 0.25, "bad", passed=False),
        Case("c", 0, "not tried", passed=False, skipped=True),
    )
    counts = {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped", "time")}
    assert counts == {"tests": "3", "failures": "1", "errors": "0", "skipped": "1", "time": "0.750"}


def test_no_message_makes_the_document_invalid_or_shows_a_secret():
    message = 'a\x00b\x1b[31m & <"> \ud800 hunter2 \u00e9'
    (case,) = suite_of(Case("x", 0, message, passed=False), replaced={"hunter2": HIDDEN})
    shown = case.find("failure").text
    assert "hunter2" not in shown
    assert '& <">' in shown
    assert "é" in shown
    assert "\\x1b" in shown
