"""Flows as a properties file names them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_ENABLED = re.compile(r"[^.]+->[^.]+\.enabled").fullmatch


def enabled_flows(entries: Mapping[str, str]) -> tuple[str, ...]:
    """The flows that some entries of a properties file enable, in their order."""
    enabled = (
        key.removesuffix(".enabled") for key, value in entries.items() if value == "true" and _ENABLED(key)
    )
    return tuple(enabled)
