"""The generated files of docs/reference/, as the code writes them now; on disk they may be older."""

from __future__ import annotations

import runpy
import sys
from functools import cache
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).parents[2] / "docs" / "_tools"
REFERENCE = TOOLS.parent / "reference"


@cache
def generator() -> dict[str, Any]:
    """The names of docs/_tools/reference.py, which finds its parts beside it."""
    sys.path.append(str(TOOLS))
    return runpy.run_path(str(TOOLS / "reference.py"), run_name="reference")


@cache
def generated() -> dict[str, str]:
    """Each generated file: its path below docs/reference/, and its text."""
    pages: dict[str, str] = generator()["pages"]()
    return pages


@cache
def schemas() -> dict[str, str]:
    """The text of each JSON schema by its name."""
    texts: dict[str, str] = generator()["documents"]()
    return {Path(path).stem: text for path, text in texts.items() if path.endswith(".json")}
