"""A Kafka Streams application, on the real library: it counts records by key, exactly once."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kit.kafka_tools import java_source
from mmtool.errors import GateError
from mmtool.lab.ports import patience, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_START_SECONDS = 60
_CLOSE_SECONDS = 40


@contextmanager
def counting_by_key(
    bootstrap: str,
    application: str,
    topics: tuple[str, str],
    folder: Path,
    protocol: str = "classic",
    *more: str,
) -> Iterator[None]:
    """An application that runs until the context ends, and is closed cleanly then.

    Its members stay in the group for ``session.timeout.ms`` (6 s) after that.

    Args:
        bootstrap: Of the cluster where it runs.
        application: Its ``application.id``.
        topics: What it reads, and where it writes each count.
        folder: For its log and its state directory; a new one begins without local state.
        protocol: ``classic``, or ``streams`` (KIP-1071).
        more: ``join``: it joins by foreign key as well.

    Raises:
        GateError: It did not start, or not close; its last lines are in the message.
    """
    folder.mkdir(parents=True)
    log, state = folder / "application.log", folder / "state"
    program = ("CountByKey", bootstrap, application, *topics, str(state), protocol, *more)
    with (
        log.open("w") as told,
        java_source(*program, bundle="streams") as command,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=told, stderr=subprocess.STDOUT) as process,
    ):
        try:
            wait_until(
                lambda: _has(log, "running") or process.poll() is not None, "the start", _START_SECONDS
            )
            if process.poll() is None:
                yield
            process.communicate(timeout=patience(_CLOSE_SECONDS))
        finally:
            process.kill()
    if not _has(log, "closed"):
        raise GateError(f"{application} was not closed:\n{log.read_text()[-2000:]}")


def _has(log: Path, line: str) -> bool:
    return line in log.read_text().splitlines()
