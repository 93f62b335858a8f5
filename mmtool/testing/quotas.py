"""Quotas of brokers, set and taken away by Kafka's own admin client."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from mmtool.lab.artifacts import mirror_classpath
from mmtool.lab.java import java_binary

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
    jars = os.pathsep.join(map(str, mirror_classpath()))
    with as_file(files("mmtool.testing") / "java" / "SetQuota.java") as source:
        command = [str(java_binary()), "-Xmx96m", "-cp", jars, str(source), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
