"""Make the files of a release in ``dist/``: wheel, source distribution, SBOM, licences and checksums.

``make release`` runs it on the commit that is checked out. Nothing is uploaded.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from sbom import complete

ROOT = Path(__file__).parents[2]
EXTRAS = "connect,msk"
"""Installed for the SBOM and the licences, so that both name every package that a user may get."""
_PYTHON = sys.executable


def make_release(dist: Path) -> list[Path]:
    """Write every file of the release into an empty or missing folder, and return them.

    Raises:
        SystemExit: The folder has files, or the checkout has changes that no commit holds.
    """
    if dist.exists() and any(dist.iterdir()):
        raise SystemExit(f"error: {dist} is not empty: remove its files first")
    if _git("status", "--porcelain"):
        raise SystemExit("error: the checkout has changes: commit them first, a release is made of a commit")
    with TemporaryDirectory(prefix="mmtool-release-") as made:
        folder = Path(made)
        tree = _committed(folder / "tree")
        write_reference(tree)
        wheel = _build(tree, dist)
        python = _installed(wheel, tree / "constraints.txt", folder / "venv")
        name, version, *_ = wheel.name.split("-")
        _write_sbom(python, tree, version, dist / f"{name}-{version}.cdx.json")
        _write_licences(python, dist / f"{name}-{version}.licences.txt")
    return [*sorted(dist.iterdir()), _write_checksums(dist)]


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


def _committed(tree: Path) -> Path:
    """The files of the commit: what is not committed is in no release."""
    with tarfile.open(fileobj=BytesIO(_git("archive", "HEAD"))) as archive:
        archive.extractall(tree, filter="tar")
    return tree


def write_reference(tree: Path) -> None:
    """Write the generated pages of a tree from its own code, among them the manual page, which the wheel has."""
    path = os.pathsep.join(str(tree / folder) for folder in (".", "tests"))
    tool = tree / "docs" / "_tools" / "reference.py"
    subprocess.run([_PYTHON, tool], check=True, env={**os.environ, "PYTHONPATH": path})


def _run(*command: str | Path) -> None:
    """Run a tool; the time of the commit stands for now, so that a wheel of the same commit has the same bytes."""
    epoch = _git("log", "-1", "--format=%ct").decode().strip()
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": epoch}
    )


def _build(tree: Path, dist: Path) -> Path:
    _run(_PYTHON, "-m", "build", "--no-isolation", "--outdir", dist, tree)
    (wheel,) = dist.glob("*.whl")
    return wheel


def _installed(wheel: Path, constraints: Path, venv: Path) -> Path:
    """The Python of an environment with the wheel and what it needs, without pip; nothing is run in it."""
    _run(_PYTHON, "-m", "venv", "--without-pip", venv)
    python = venv / "bin" / "python"
    pip = [_PYTHON, "-m", "pip", "--python", python, "--disable-pip-version-check", "--quiet"]
    _run(*pip, "install", "--no-compile", "-c", constraints, f"{wheel}[{EXTRAS}]")
    return python


def _write_sbom(python: Path, tree: Path, version: str, file: Path) -> None:
    tool = Path(_PYTHON).with_name("cyclonedx-py")
    how = ["--output-reproducible", "--of", "JSON", "--pyproject", tree / "pyproject.toml"]
    _run(tool, "environment", *how, "-o", file, python)
    (jars,) = python.parents[1].glob("lib/python*/site-packages/pyspark/jars")
    file.write_text(complete(file.read_text(encoding="utf-8"), version, jars), encoding="utf-8")


def _write_licences(python: Path, file: Path) -> None:
    """Name, version, licence and the licence's text of each package."""
    tool = Path(_PYTHON).with_name("pip-licenses")
    what = ["--with-urls", "--with-license-file", "--no-license-path", "--with-notice-file"]
    _run(tool, "--python", python, "--format=plain-vertical", *what, f"--output-file={file}")


def _write_checksums(dist: Path) -> Path:
    """SHA-256, as ``sha256sum --check`` reads them."""
    lines = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(dist.iterdir())
    ]
    sums = dist / "SHA256SUMS"
    sums.write_text("".join(lines), encoding="utf-8")
    return sums


if __name__ == "__main__":
    for made in make_release(ROOT / "dist"):
        sys.stdout.write(f"{made.relative_to(ROOT)}\n")
