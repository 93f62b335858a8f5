"""``mmtool replicate`` over SASL_SSL (SCRAM) beside PLAINTEXT: the same records on the same brokers, in turns.

    python benchmarks/tls_beside_plain.py [--quick] [--repeat 3] [--json FILE]

The brokers have a listener of each kind. After the turns one more TLS turn is sampled by py-spy, with the frames of
OpenSSL and libc: where the worker's time goes. docs/benchmarks.md tells more.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from busy import BUSY_CORES
from copiers import MMTOOL, Turn, pids_of
from gauges import Copied, Target, python_workers_of, tree_of
from options import in_turns
from workloads import PARTITIONS, WORKLOADS, Workload, fill, warm_up

from kit.secure_pairs import SIDES, SecurePair, secure_pair
from mmtool.lab.cluster import JVM_FOR_SPEED
from mmtool.lab.security.kinds import SecurityKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PLAIN, TLS = "PLAINTEXT", "SASL_SSL"
_QUIET = {
    "source->target.heartbeats.replication.enabled": "false",
    "source->target.emit.heartbeats.enabled": "false",
}
_PARTS = {
    "decrypt": ("SSL_read", "SSL_read_ex"),
    "encrypt": ("SSL_write", "SSL_write_ex"),
    "receive from the socket": ("recv", "recv_into"),
    "send to the socket": ("send", "sendmsg"),
    "asyncio's TLS protocol": (
        "SSLProtocol.buffer_updated",
        "SSLProtocol._write_appdata",
        "SSLProtocol._do_write",
    ),
}
"""Parts of a worker's time, by the innermost of these functions that a sample is in."""
_WAITING = ("epoll_wait", "clock_nanosleep", "pthread_cond_timedwait", "poll")
_LOOP = "BaseEventLoop.run_forever"
_RATE = 50


class Bench:
    """Two clusters with both listeners, and a folder for each turn."""

    def __init__(self, pair: SecurePair, directory: Path) -> None:
        self._pair = pair
        self._directory = directory
        self._target = Target(pair.bench.fleet["target"].bootstrap)
        self._number = 0

    def warm_up(self) -> None:
        """Let the brokers compile what producing needs."""
        warm_up(self._pair.bench.fleet["target"].bootstrap)
        self._target.remove_topics()

    def fill(self, workload: Workload) -> None:
        fill(self._pair.bench.fleet["source"].bootstrap, workload)

    def copy(self, listener: str, workload: Workload, profile: Path | None = None) -> Copied:
        """One ``replicate`` from its start until every record is on the target, which is emptied then."""
        self._number += 1
        folder = self._directory / f"{self._number:02}-{listener.lower()}"
        fleet, sampling = self._pair.bench.fleet, partial(_sampled, file=profile)
        turn = Turn(self._target, f"source.{workload.topic}", pids_of(fleet), sampling)
        return turn.run(MMTOOL, self._properties(listener, workload), folder, workload.records)

    def _properties(self, listener: str, workload: Workload) -> str:
        if listener == TLS:
            return self._pair.properties(workload.topic, **_QUIET).read_text()
        plain = {f"{side}.security.protocol": PLAIN for side in SIDES}
        lines = {"source->target.topics": workload.topic, **_QUIET, **plain}
        return self._pair.bench.fleet.properties([SIDES], **lines)


@contextmanager
def _sampled(pid: int, file: Path | None) -> Iterator[None]:
    """Sample the workers of a ``replicate`` into ``file`` while the block runs; nothing without a file."""
    if file is None:
        yield
        return
    command = [
        str(Path(sys.executable).with_name("py-spy")),
        *("record", "--native", "--subprocesses", "--format", "raw"),
    ]
    options = ["--rate", str(_RATE), "--output", str(file), "--pid", str(_daemon_of(pid))]
    sampler = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        sampler.send_signal(signal.SIGINT)
        sampler.wait(60)


def _daemon_of(pid: int) -> int:
    """Spark's Python daemon, which forks the workers; the first of them need not be the one that copies."""
    while True:
        if found := python_workers_of(tree_of(pid)):
            return min(found)
        time.sleep(0.02)


def parts_of(profile: str) -> Counter[str]:
    """How many samples of a worker's event loop fall into each part, and into everything else; none that waits."""
    found: Counter[str] = Counter()
    for line in profile.splitlines():
        stack, _, count = line.rpartition(" ")
        names = [frame.partition(" (")[0] for frame in stack.split(";")]
        if _LOOP in names and names[-1] not in _WAITING:
            found[_part(names)] += int(count)
    return found


def _part(names: Sequence[str]) -> str:
    parts = (part for name in reversed(names) for part, functions in _PARTS.items() if name in functions)
    return next(parts, "everything else")


def main() -> None:
    quick, repeat, file = in_turns(__doc__, "one turn of each, half the records")
    directory = Path(tempfile.mkdtemp(prefix="mmtool-bench-"))
    print(f"logs: {directory}")
    found: dict[str, dict[str, list[Copied]]] = {}
    with secure_pair(SecurityKind.SCRAM, directory, jvm=JVM_FOR_SPEED) as pair:
        bench = Bench(pair, directory)
        bench.warm_up()
        workloads = [workload.scaled(0.5 if quick else 1.0) for workload in WORKLOADS]
        for workload in workloads:
            bench.fill(workload)
            print(f"\n{workload.name}: {workload.records:,} records in {PARTITIONS} partitions")
            found[workload.name] = _turns(bench, workload, repeat)
        _show_profile(bench, workloads[0], directory / "worker.raw")
    if file is not None:
        file.write_text(json.dumps(found, indent=1, default=asdict))


def _turns(bench: Bench, workload: Workload, repeat: int) -> dict[str, list[Copied]]:
    rows: dict[str, list[Copied]] = {PLAIN: [], TLS: []}
    for turn in range(repeat):
        for listener in (PLAIN, TLS)[:: -1 if turn % 2 else 1]:
            one = bench.copy(listener, workload)
            rows[listener].append(one)
            print(one.row(listener), flush=True)
    pairs = list(zip(rows[PLAIN], rows[TLS], strict=True))
    print(
        f"  rate over {TLS}: {median(tls.rate / plain.rate for plain, tls in pairs):.2f} times that over {PLAIN}"
    )
    more = median(tls.cpu_per_record / plain.cpu_per_record for plain, tls in pairs)
    print(f"  CPU per record over {TLS}: {more:.2f} times that over {PLAIN}")
    if any(one.other_cores > BUSY_CORES for copied in rows.values() for one in copied):
        print("  other processes took part of the machine: believe the CPU per record, not the rates")
    return rows


def _show_profile(bench: Bench, workload: Workload, file: Path) -> None:
    """One more turn over TLS, sampled: the parts of the worker's time."""
    bench.copy(TLS, workload, file)
    parts = parts_of(file.read_text())
    print(f"\nthe worker's time over {TLS}, {workload.name} ({parts.total():,} samples):")
    for part, samples in parts.most_common():
        print(f"  {part:<28}{samples / parts.total():>6.0%}")


if __name__ == "__main__":
    main()
