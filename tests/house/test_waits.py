"""Nothing that runs in the product waits with what swallows a cancellation."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(p for folder in ("mmtool", "commands", "translation") for p in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_cancellation_is_lost_in_a_wait(path):
    """`mmtool.runtime.threads` says why."""
    lost = [line for line in path.read_text().splitlines() if "asyncio.wait_for(" in line]
    assert lost == []
