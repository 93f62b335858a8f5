"""A real browser without a window: Debian's Chromium, unpacked with what it depends on into a folder of its own."""

from __future__ import annotations

import fcntl
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kit.debian import FOLDER

_PACKAGES = ("chromium", "fonts-dejavu-core")
_PROGRAM = "usr/lib/chromium/chromium"
_LIBRARIES = ("usr/lib/*-linux-gnu", "usr/lib/*-linux-gnu/pulseaudio", "lib/*-linux-gnu")
_QUIET = ("--disable-background-networking", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND")
"""No name is resolved: what the browser asks its maker for does not leave the machine."""
_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Browser:
    """Chromium, started anew for each page.

    Attributes:
        root: Where the packages are unpacked.
        profile: A folder for what it remembers.
    """

    root: Path
    profile: Path

    def screenshot(self, page: Path, to: Path, width: int = 1100, *, dark: bool = False) -> None:
        """The upper 2,600 pixels of a page as PNG."""
        theme = ["--blink-settings=preferredColorScheme=0"] if dark else []
        self._run(page, "--hide-scrollbars", f"--window-size={width},2600", f"--screenshot={to}", *theme)

    def print(self, page: Path, to: Path) -> None:
        """The page as PDF, on paper of the size that it asks for."""
        self._run(page, "--no-pdf-header-footer", f"--print-to-pdf={to}")

    def document(self, page: Path) -> str:
        """The page's elements once it is loaded, as HTML."""
        return self._run(page, "--dump-dom").stdout

    def network_log(self, page: Path, to: Path) -> None:
        """What it asked of the network, as Chromium's own log in JSON."""
        self._run(page, f"--log-net-log={to}", "--dump-dom")

    def _program(self) -> Path:
        """The unpacked program; that of the machine where it was installed already, and so not fetched."""
        own = self.root / _PROGRAM
        return own if own.exists() else Path("/", _PROGRAM)

    def _run(self, page: Path, *options: str) -> subprocess.CompletedProcess[str]:
        libraries = ":".join(str(folder) for pattern in _LIBRARIES for folder in self.root.glob(pattern))
        always = ["--headless", "--no-sandbox", "--disable-gpu", *_QUIET, f"--user-data-dir={self.profile}"]
        return subprocess.run(
            [self._program(), *always, *options, page.as_uri()],
            check=True,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            env={**os.environ, "LD_LIBRARY_PATH": libraries},
        )


def unpacked() -> Path:
    """The folder with Chromium in it; fetched at its first use, which takes some seconds and 400 MB."""
    folder = FOLDER / "chromium"
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / "chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not (folder / "complete").exists():
            _unpack(folder)
            (folder / "complete").touch()
    return folder / "root"


def _unpack(folder: Path) -> None:
    """What is installed on the machine already is not fetched again."""
    archives, root = folder / "archives", folder / "root"
    (archives / "partial").mkdir(parents=True, exist_ok=True)
    root.mkdir(exist_ok=True)
    get = ["apt-get", "--yes", "--no-install-recommends", "--download-only", "-o", "Debug::NoLocking=1"]
    line = [*get, "-o", f"Dir::Cache::archives={archives}", "install", *_PACKAGES]
    if subprocess.run(line, capture_output=True, check=False).returncode:
        subprocess.run(["apt-get", "update"], check=True, capture_output=True)
        subprocess.run(line, check=True, capture_output=True)
    for archive in sorted(archives.glob("*.deb")):
        subprocess.run(["dpkg", "-x", archive, root], check=True, capture_output=True)
        archive.unlink()
