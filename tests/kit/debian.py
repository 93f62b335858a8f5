"""Programs from Debian's packages, unpacked into a folder of their own: nothing is installed on the machine."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".tools"


def has_apt() -> bool:
    """Whether this machine can fetch Debian's packages at all."""
    return shutil.which("apt-get") is not None and shutil.which("dpkg") is not None


def program(package: str, path: str) -> Path:
    """A program of a package, fetched at its first use.

    Args:
        package: Debian's name of it.
        path: Where the program lies in it, as ``usr/bin/promtool``.
    """
    folder = FOLDER / package
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / f"{package}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not (folder / path).exists():
            _unpack(package, folder)
    return folder / path


def _unpack(package: str, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    download = ["apt-get", "download", package]
    if subprocess.run(download, cwd=folder, capture_output=True, check=False).returncode:
        subprocess.run(["apt-get", "update"], check=True, capture_output=True)
        subprocess.run(download, cwd=folder, check=True, capture_output=True)
    (archive,) = folder.glob("*.deb")
    subprocess.run(["dpkg", "-x", archive.name, "."], cwd=folder, check=True, capture_output=True)
