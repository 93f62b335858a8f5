"""Commands of mmtool as whole processes, timed and with the memory that they take."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from gauges import peak_mib, tree_of

from kit.processes import MmtoolProcess

if TYPE_CHECKING:
    from pathlib import Path

    from kit.processes import Answer

MIRROR_ONCE = ("replicate", "--until-caught-up", "--timings", "-o", "json")
"""For `first_record`."""
_SECONDS = 300.0
_POLL_SECONDS = 0.05


def ran(directory: Path, properties: Path, *words: str) -> tuple[Answer, float]:
    """A command to its end, and the peak memory of all its processes, in MiB.

    Raises:
        AssertionError: Its exit code is not 0.
    """
    peak = 0.0
    with MmtoolProcess(directory / "mmtool", *words, "-c", str(properties)) as process:
        while process.alive:
            peak = max(peak, sum(peak_mib(tree_of(process.pid))))
            time.sleep(_POLL_SECONDS)
        answer = process.wait(_SECONDS)
    assert answer.code == 0, answer.stderr
    return answer, peak


def first_record(answer: Answer) -> float:
    """Seconds from the start of a `MIRROR_ONCE` to its first record on the target."""
    return float(json.loads(answer.stdout)["timings"][-1]["at_seconds"])
