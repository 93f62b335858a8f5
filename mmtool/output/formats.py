"""The three ways to write a result."""

from __future__ import annotations

from enum import StrEnum


class OutputFormat(StrEnum):
    """What ``-o`` takes."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
