import pytest

from mmtool.output import console


@pytest.fixture(autouse=True)
def fresh_switches(monkeypatch):
    """Every test starts as a new process would, in a terminal without colour preferences."""
    monkeypatch.setattr(console, "switches", console.Switches())
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.fixture
def terminal(monkeypatch):
    """stdout and stderr claim to be a terminal of a chosen width."""

    def of_width(columns):
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", str(columns))

    return of_width
