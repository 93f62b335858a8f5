"""``python -m mmtool.lab.supervisor``: keep the processes of a detached lab running until it is stopped."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError
from mmtool.lab.cluster import Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.security.certificates import write_private
from mmtool.lab.security.kinds import SecurityKind
from mmtool.lab.security.setup import Security
from mmtool.lab.state import ALREADY_RUNNING, LabState, StateDirectory, state_of

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    directory = StateDirectory(options.state_dir)
    lock = directory.lock()
    if lock is None:
        return ALREADY_RUNNING
    with lock:
        before = directory.read()
        directory.forget()
        return _supervise(directory, options, before)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mmtool.lab.supervisor")
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--clusters", type=lambda text: text.split(","), required=True)
    parser.add_argument("--brokers", type=int, required=True)
    parser.add_argument("--kafka-version", required=True)
    parser.add_argument("--secure", type=SecurityKind)
    return parser


def _supervise(directory: StateDirectory, options: argparse.Namespace, before: LabState | None) -> int:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    with contextlib.ExitStack() as ends:
        try:
            fleet = _started(directory, options, ends)
        except MmtoolError as error:
            ends.close()
            last = before or LabState(os.getpid(), options.kafka_version, options.brokers, ())
            failed = replace(last, supervisor_pid=os.getpid(), error=error.message, remedy=error.remedy)
            directory.write(failed)
            return error.exit_code
        directory.write(state_of(fleet, options.kafka_version, options.secure))
        stop.wait()
    return 0


def _started(directory: StateDirectory, options: argparse.Namespace, ends: contextlib.ExitStack) -> Fleet:
    """The running clusters, with their properties file; ``ends`` stops them."""
    security = None
    if options.secure is not None:
        security = ends.enter_context(Security(options.secure, directory.security))
    shape = Shape(brokers=options.brokers, version=options.kafka_version, security=security)
    fleet = ends.enter_context(Fleet.of(directory.path, *options.clusters, shape=shape))
    first, *others = options.clusters
    write_private(directory.properties, fleet.properties([(first, other) for other in others]).encode())
    fleet.grant_rights(directory.properties)
    return fleet


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
