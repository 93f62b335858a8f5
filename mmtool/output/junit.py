"""Write a JUnit report, as CI systems read it: a suite with a case for each step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from mmtool.output.documents import write_claimed
from mmtool.output.redaction import NOTHING, shown
from mmtool.output.values import iso
from mmtool.runtime.files import write_named


class Case(NamedTuple):
    """One test case.

    Attributes:
        message: What was found, or what is wrong.
        passed: Whether it passed.
        skipped: It was not tried, because another one failed.
    """

    name: str
    seconds: float
    message: str
    passed: bool
    skipped: bool = False


def junit_xml(
    suite: str, cases: Sequence[Case], now: datetime, replaced: Mapping[str, str] = NOTHING
) -> bytes:
    """The JUnit report as XML.

    Args:
        suite: The suite's name, which is also the class name of each case.
        cases: The test cases, in order.
        now: The time of the report.
        replaced: What messages show in place of a word.
    """
    failures = sum(not case.passed and not case.skipped for case in cases)
    counts = {
        "tests": str(len(cases)),
        "failures": str(failures),
        "errors": "0",
        "skipped": str(sum(case.skipped for case in cases)),
        "time": f"{sum(case.seconds for case in cases):.3f}",
    }
    root = ET.Element("testsuites", counts)
    of_suite = ET.SubElement(root, "testsuite", {"name": suite, **counts, "timestamp": iso(now)})
    for case in cases:
        _add(of_suite, suite, case, shown(case.message, replaced))
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _add(parent: ET.Element, suite: str, case: Case, message: str) -> None:
    about = {"classname": suite, "name": case.name, "time": f"{case.seconds:.3f}"}
    element = ET.SubElement(parent, "testcase", about)
    if case.skipped:
        ET.SubElement(element, "skipped", {"message": message})
    elif case.passed:
        ET.SubElement(element, "system-out").text = message
    else:
        ET.SubElement(element, "failure", {"message": message, "type": "failed"}).text = message


@contextmanager
def claimed(path: Path | None) -> Iterator[None]:
    """Hold the file of a later report; remove it where an error or a signal comes before the report.

    Args:
        path: The file, which is created empty; None where no report is wanted.

    Raises:
        UsageError: The file cannot be written.
    """
    if path is None:
        yield
        return
    write_named("--junit", path, b"")
    try:
        yield
    except BaseException:
        # where it is still empty, a CI system would report invalid XML, and not the error
        with suppress(OSError):
            if path.is_file() and not path.stat().st_size:
                path.unlink()
        raise


def write_report(path: Path, document: bytes) -> None:
    """Write the whole report to its file.

    Raises:
        CheckFailedError: The file can no longer be written; the smoke test itself has ended.
    """
    remedy = f"make {path} writable again, for example by freeing space, and run the same command again"
    write_claimed(path, document, "the JUnit report", over="the smoke test itself", remedy=remedy)
