"""The formats of a result (``-o``) and of log messages on stderr (``--log-format``)."""

from __future__ import annotations

from enum import StrEnum


class OutputFormat(StrEnum):
    """The values of ``-o``."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class LogFormat(StrEnum):
    """The values of ``--log-format``: stderr for people, or for a log collector."""

    TEXT = "text"
    JSON = "json"
