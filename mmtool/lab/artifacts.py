"""Download Kafka's own jars by their Maven coordinates, once per version and user.

Resolved by the Ivy that ships in pyspark's ``jars`` folder, into
``<cache>/mmtool/kafka/<version>/<bundle>/``. A folder appears there by one rename, with a manifest of
names and sizes; a folder that differs from its manifest is resolved again. ``MMTOOL_IVY_SETTINGS`` names an Ivy
settings file for networks that have their own repository.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from xml.sax.saxutils import quoteattr

from mmtool.errors import MmtoolError
from mmtool.java import java_binary, pyspark_jar
from mmtool.runtime.files import cache_root, one_at_a_time

KAFKA_VERSION = "4.4.0"
"""The default version of brokers and tools."""

MIRROR_MAKER_VERSION = "4.3.1"
"""The newest published `connect-mirror`: there is none of 4.4.0."""

_BUNDLES = {
    "broker": ("kafka_2.13",),
    "mirror": ("connect-mirror", "connect-json"),
    "streams": ("kafka-streams",),
    "tools": ("kafka-tools",),
}
"""Kafka's artifacts that are cached together: the broker, MirrorMaker 2, Kafka Streams, the command-line tools."""

RESOLVE_SECONDS = 600
_MANIFEST = "manifest.json"
_LOGGING = ("org.slf4j", "slf4j-simple", "1.7.36")  # the slf4j-api generation that Kafka 3.x and 4.x bring
_NOT_FOUND = "not found"
_NO_MODULE = f"module {_NOT_FOUND}"  # Ivy's words also where a proxy refuses the request
_NETWORK = (
    "check the network (behind a proxy, set JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=... -Dhttps.proxyPort=...; "
    "for a Maven repository of your own, set MMTOOL_IVY_SETTINGS=ivysettings.xml) and the free space of "
    "the cache folder, then run the command again"
)
_VERSION = f"choose a Kafka version that the Maven repository has, with --kafka-version; if it has this one, {_NETWORK}"


def classpath(bundle: str, version: str | None = None) -> list[Path]:
    """The jars of a bundle of `_BUNDLES`, downloaded where they are not cached; by default of its newest version.

    Raises:
        MmtoolError: The jars are not cached and cannot be downloaded.
    """
    folder = _folder(bundle, version or (MIRROR_MAKER_VERSION if bundle == "mirror" else KAFKA_VERSION))
    if whole := _cached(folder):
        return whole
    with one_at_a_time(cache_folder()):
        return _cached(folder) or _resolve(folder)


def is_cached(version: str = KAFKA_VERSION) -> bool:
    """Whether brokers of this version start without a download."""
    return bool(_cached(_folder("broker", version)))


def cache_folder() -> Path:
    """The folder where Kafka's jars are cached."""
    return cache_root() / "kafka"


def _folder(bundle: str, version: str) -> Path:
    return cache_folder() / version / bundle


def _cached(folder: Path) -> list[Path]:
    """The jars of a folder that agrees with its manifest; empty where it does not."""
    try:
        manifest: dict[str, int] = json.loads((folder / _MANIFEST).read_text())
        whole = all((folder / name).stat().st_size == size for name, size in manifest.items())
    except (OSError, ValueError):
        return []
    return [folder / name for name in sorted(manifest)] if whole else []


def _resolve(folder: Path) -> list[Path]:
    staging = folder.with_name(f".{folder.name}.staging")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    _run_ivy(folder.name, folder.parent.name, staging)
    sizes = {jar.name: jar.stat().st_size for jar in staging.glob("*.jar")}
    (staging / _MANIFEST).write_text(json.dumps(sizes, indent=1, sort_keys=True))
    shutil.rmtree(folder, ignore_errors=True)
    staging.rename(folder)
    return _cached(folder)


def _run_ivy(bundle: str, version: str, staging: Path) -> None:
    (staging / "ivy.xml").write_text(_ivy_file(bundle, version))
    what = f"Kafka {version} ({bundle} jars)"
    try:
        answer = subprocess.run(
            _ivy_command(staging), capture_output=True, text=True, timeout=RESOLVE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise MmtoolError(
            f"{what} could not be downloaded within {RESOLVE_SECONDS} s", remedy=_NETWORK, code="download"
        ) from error
    if answer.returncode != 0 or not any(staging.glob("*.jar")):
        reason = _first_complaint(answer.stdout + answer.stderr)
        remedy = _VERSION if reason.startswith(_NO_MODULE) else _NETWORK
        raise MmtoolError(f"{what} could not be downloaded: {reason}", remedy=remedy, code="download")


def _ivy_file(bundle: str, version: str) -> str:
    kafka = [("org.apache.kafka", artifact, version) for artifact in _BUNDLES[bundle]]
    roots = "".join(
        f"<dependency org={quoteattr(org)} name={quoteattr(name)} rev={quoteattr(rev)}"
        ' conf="default->default"/>'
        for org, name, rev in (*kafka, _LOGGING)
    )
    return (
        '<ivy-module version="2.0"><info organisation="mmtool" module="lab"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{roots}</dependencies>'
        "</ivy-module>"
    )


def _ivy_command(staging: Path) -> list[str]:
    settings, jar = os.environ.get("MMTOOL_IVY_SETTINGS"), pyspark_jar("ivy-*.jar")
    if jar is None:
        raise MmtoolError(
            "pyspark's jars folder holds no ivy-*.jar",
            remedy="install mmtool again: its pyspark is not complete",
        )
    return [
        *(str(java_binary()), "-XX:TieredStopAtLevel=1", "-cp", str(jar), "org.apache.ivy.Main"),
        *(("-settings", settings) if settings else ()),
        *("-cache", str(cache_folder() / "ivy"), "-ivy", str(staging / "ivy.xml"), "-confs", "default"),
        # scala-logging is of type bundle, Jetty's parts are eclipse-plugin: unnamed types are left out
        *("-types", "jar", "bundle", "eclipse-plugin"),
        *("-retrieve", f"{staging}/[artifact]-[revision](-[classifier]).[ext]"),
    ]


def _first_complaint(output: str) -> str:
    marks = ("Server access error", _NOT_FOUND, "FAILED", "Exception", "error", "ERROR")
    lines = [line.strip(" :\t") for line in output.splitlines()]
    return next((line for mark in marks for line in lines if mark in line), "Ivy gave no reason")[:200]
