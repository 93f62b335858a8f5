"""Quotas of brokers, set and taken away by Kafka's own admin client."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kit.java_source import java_source

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECONDS = 60


@contextmanager
def quota(bootstrap: str, key: str, value: float) -> Iterator[None]:
    """``producer_byte_rate`` or the like for every client id of a cluster, in bytes per second on each broker."""
    _set(bootstrap, key, str(value))
    try:
        yield
    finally:
        _set(bootstrap, key)


def _set(*arguments: str) -> None:
    with java_source("SetQuota", *arguments) as command:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
