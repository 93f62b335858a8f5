"""``python -m mmtool.lab.supervisor DIR REQUEST``: keep the processes of a detached lab running until it is stopped."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from mmtool.errors import MmtoolError
from mmtool.lab.cluster import Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.security.certificates import write_private
from mmtool.lab.security.kinds import SecurityKind
from mmtool.lab.security.setup import Security
from mmtool.lab.session import LabRequest
from mmtool.lab.state import ALREADY_RUNNING, LabState, StateDirectory


def main(path: str, request: str) -> int:
    """Run the lab of a state directory.

    Args:
        path: The directory.
        request: The `LabRequest`, as JSON.
    """
    directory, options = StateDirectory(Path(path)), json.loads(request)
    kind = options.pop("secure")
    asked = LabRequest(**options, secure=kind and SecurityKind(kind))
    lock = directory.lock()
    if lock is None:
        return ALREADY_RUNNING
    with lock:
        before = directory.read()
        directory.forget()
        return _supervise(directory, asked, before)


def _supervise(directory: StateDirectory, asked: LabRequest, before: LabState | None) -> int:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    brief = LabState(os.getpid(), asked.kafka_version, asked.brokers, (), secure=asked.secure)
    with ExitStack() as ends:
        try:
            fleet = _start(directory, asked, ends)
        except MmtoolError as error:
            ends.close()
            last = before or replace(brief, secure=None)
            failed = replace(last, supervisor_pid=os.getpid(), error=error.message, remedy=error.remedy)
            directory.write(failed)
            return error.exit_code
        running = tuple(broker for cluster in fleet for broker in cluster.running())
        directory.write(replace(brief, brokers=running))
        stop.wait()
    return 0


def _start(directory: StateDirectory, asked: LabRequest, ends: ExitStack) -> Fleet:
    """The running clusters, with their properties file; ``ends`` stops them."""
    security = None
    if asked.secure is not None:
        security = ends.enter_context(Security(asked.secure, directory.security))
    shape = Shape(brokers=asked.brokers, version=asked.kafka_version, security=security)
    fleet = ends.enter_context(Fleet.of(directory.path, *asked.clusters, shape=shape))
    first, *others = asked.clusters
    write_private(directory.properties, fleet.properties([(first, other) for other in others]).encode())
    fleet.grant_rights(directory.properties)
    return fleet


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
