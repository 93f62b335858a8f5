"""A disk that is small enough to be filled: memory, mounted; only root may."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CHUNK = b"\0" * 65536


@contextmanager
def small_disk(directory: Path, size: int) -> Iterator[Path]:
    """A folder that is made, with a disk of so many bytes of its own."""
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def fill(disk: Path) -> Path:
    """Until nothing goes in any more; the file that does it."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(_CHUNK)
        except OSError:
            return filler
