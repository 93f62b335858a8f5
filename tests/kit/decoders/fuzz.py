"""Fuzz decoders with atheris, which follows the branches that an input takes: ``make fuzz SECONDS=600``.

Each decoder runs in a process of its own: libFuzzer ends it. What it has learned stays in ``.fuzz/``, so that the next
run goes on from there; an input that breaks a promise is kept as ``.fuzz/NAME/crash-...``. The promises are those of
``tests/unit/test_decoders.py``: no error but the table's, and limits of time and memory, here libFuzzer's.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kit.decoders.table import Decoder

DECODERS = (
    "record batches", "messages of formats 0 and 1", "offset syncs", "checkpoints", "heartbeats", "Connect's offsets",
    "saved plan",
)  # fmt: skip
"""What is fuzzed where nothing else is named: what comes from brokers' logs, and plans, which travel."""

_ROOM = Path(".fuzz")
_LIMITS = ("-timeout=10", "-rss_limit_mb=1536", "-max_len=8192", "-print_final_stats=1")
_SEALS = 1
"""The bit of an input's first byte that asks for checksums that fit."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz the named decoders at the same time; 1 where one breaks a promise."""
    parser = argparse.ArgumentParser(prog="python -m kit.decoders.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=DECODERS, metavar="NAME")
    parser.add_argument("--seconds", type=int, default=60, help="for each decoder")
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.in_process:
        _fuzz(given.names[0], given.seconds)
    running = {name: _started(name, given.seconds) for name in given.names}
    return max(_ended(name, process) for name, process in running.items())


def _folder(name: str) -> Path:
    return _ROOM / re.sub(r"\W+", "-", name)


def _started(name: str, seconds: int) -> subprocess.Popen[bytes]:
    corpus = _folder(name) / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "kit.decoders.fuzz", name, "--in-process", "--seconds", str(seconds)]
    with (_folder(name) / "log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


def _ended(name: str, process: subprocess.Popen[bytes]) -> int:
    failed = process.wait() != 0
    said = (_folder(name) / "log").read_text(errors="replace")
    executed = re.search(r"number_of_executed_units: *(\d+)", said)
    result = "FAILED" if failed else "no finding"
    sys.stdout.write(f"{name}: {executed[1] if executed else '?'} executions, {result}\n")
    if failed:
        sys.stdout.write(said[-3000:])
    return int(failed)


def _fuzz(name: str, seconds: int) -> None:
    """Fuzz one decoder in this process, and end it."""
    import atheris  # noqa: PLC0415  of `make fuzz` alone; what it imports is watched

    with atheris.instrument_imports(include=["mmtool", "json"]):
        from kit.decoders.every import every_decoder  # noqa: PLC0415  likewise

        row = next(row for row in every_decoder() if row.name == name)
    folder = _folder(name)
    for at, sample in enumerate(row.samples):
        (folder / "corpus" / f"sample-{at}").write_bytes(bytes((_SEALS,)) + sample)
    options = [*_LIMITS, f"-max_total_time={seconds}", f"-artifact_prefix={folder}/"]
    atheris.Setup([sys.argv[0], str(folder / "corpus"), *options], lambda data: _try(row, data))
    atheris.Fuzz()


def _try(row: Decoder, data: bytes) -> None:
    sample = data[1:]
    with suppress(*row.errors):
        row.read(row.seal(sample) if data[:1] and data[0] & _SEALS else sample)


if __name__ == "__main__":
    sys.exit(main())
