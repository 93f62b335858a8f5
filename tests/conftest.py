"""Fixtures for everybody: two real clusters, started once per session when a test asks for them."""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from kit.file_scheduling import FileScheduling
from kit.processes import LAST_STARTED, Answer, last_lines
from kit.without_spark import without_spark
from mmtool.commands.app import main
from mmtool.lab.fleet import Fleet
from mmtool.output import console

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

_CLUSTERS = pytest.StashKey[Fleet]()
_MEASURED = pytest.StashKey[list[str]]()
_SLOW = ("chaos", "integration", "contract")
_REAL = {"fleet": pytest.mark.kafka, "java_regex": pytest.mark.java}
_FIRST = "test_verify_interrupted.py"
"""It takes longest, on clusters of its own."""
_LATE = ("test_documented.py", "test_clean_install.py", "test_ci_example.py", "test_house_wheel.py")
_WITH_SPARK = ("spark", "chaos")
_HERE = Path(__file__).parent
_MEMORY = "/dev/shm"  # noqa: S108  a folder of its own is made in it
_counter = itertools.count(1)


settings.register_profile("quick", max_examples=5, deadline=None)
settings.register_profile("standard", max_examples=40, deadline=None)
settings.register_profile("deep", max_examples=500, deadline=None)
settings.load_profile("standard")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--keep-data", action="store_true", help="keep the brokers' data as well as their logs")
    parser.addoption(
        "--update-docs", action="store_true", help="write into the pages what their commands print"
    )


def pytest_configure() -> None:
    # a suite that was begun in a script's background ignores Ctrl-C, and all that it starts would inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for fixture, marker in _REAL.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(marker)
    items.sort(key=_order)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling | None:
    return FileScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def _order(item: pytest.Item) -> tuple[bool, bool, int, bool]:
    """What takes long begins first: workers that share the files then end at about the same time.

    Promises with Spark come second: `make test` makes its class archive meanwhile. What installs mmtool or starts a
    lab of its own comes after the other tests on brokers, which tell more, and sooner; unit tests run beside it.
    """
    folder = item.path.relative_to(_HERE).parts[0]
    name = item.path.name
    late = _LATE.index(name) + 1 if name in _LATE and folder in ("integration", "house") else 0
    with_spark = all(map(item.get_closest_marker, ("spark", "promise")))
    return name != _FIRST, folder not in _SLOW and not late, late, with_spark


@pytest.fixture(autouse=True, scope="session")
def state_home() -> Iterator[None]:
    """What commands keep of what they replace is kept for the tests alone, in memory: each write is synced."""
    memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    temporary = tempfile.TemporaryDirectory(prefix="mmtool-state-", dir=memory)
    with temporary as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", folder)
        yield


@pytest.fixture
def mmtool(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """``mmtool("status", "-o", "json")`` as a shell would run it, without a terminal.

    In this process: starting a new one each time takes longer than most commands.
    """

    def run(*arguments: object) -> Answer:
        console.switches.replaced.clear()  # a new process knows no secret of another one
        capsys.readouterr()
        began = time.monotonic()
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Answer(int(caught.value.code or 0), captured.out, captured.err, time.monotonic() - began)

    return run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Rounds are forked, without Spark, in tests on brokers that are not marked with ``spark``; not in chaos."""
    if item.get_closest_marker("kafka") and not any(map(item.get_closest_marker, _WITH_SPARK)):
        with without_spark():
            return (yield)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and _CLUSTERS in item.config.stash:
        clusters = item.config.stash[_CLUSTERS]
        logs = [str(log) for one in clusters for log in sorted(one.directory.glob("broker-*/broker.log"))]
        report.sections.append(("broker logs", "\n".join(logs)))
        report.sections += [(str(path), last_lines(path)) for path in LAST_STARTED if path.exists()]
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):  # one of several workers: the one that reports is told
        session.config.workeroutput["measured"] = session.config.stash.get(_MEASURED, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    said = getattr(node, "workeroutput", {}).get("measured", [])
    node.config.stash.setdefault(_MEASURED, []).extend(said)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(_MEASURED, []):
        terminalreporter.write_line(f"measured: {line}")


@pytest.fixture(scope="session")
def measured(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """``measured("10 s until ...")`` puts a figure under the session's result."""
    return request.config.stash.setdefault(_MEASURED, []).append


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """Two single-broker clusters, ``source`` and ``target``; pytest keeps the logs of the last three runs."""
    clusters = Fleet.of(tmp_path_factory.mktemp("fleet"), "source", "target")
    request.config.stash[_CLUSTERS] = clusters
    with clusters:
        yield clusters
    if not request.config.getoption("--keep-data"):
        clusters.remove_data()


@pytest.fixture
def topic_name() -> Callable[..., str]:
    """Names that no other test of this session uses: ``topic_name("orders")`` is orders-4711-3."""

    def unique(stem: str = "topic") -> str:
        return f"{stem}-{os.getpid()}-{next(_counter)}"

    return unique
