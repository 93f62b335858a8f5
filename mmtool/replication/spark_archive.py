"""Spark's classes as its JVM needs them, kept on disk: read, checked and linked once per machine (JEP 350).

Spark then starts in about half the time, which is most of what a takeover takes. The archive is made on request
only, when installing or building an image::

    python -m mmtool.replication.spark_archive

That takes one start of Spark, about 800 MB of memory and 160 MB of disk. A JVM for which an archive was not made
passes it over.
"""

from __future__ import annotations

import hashlib
import os
import sys
from importlib.metadata import distribution
from typing import TYPE_CHECKING

from mmtool.caches import cache_root, one_at_a_time
from mmtool.errors import MmtoolError
from mmtool.lab.java import java_binary

if TYPE_CHECKING:
    from pathlib import Path

_DUMP_SECONDS = 300


def archive_path() -> Path:
    """Where the archive for this Java and this Spark lies, or would lie."""
    spark, java = distribution("pyspark"), java_binary().resolve()
    made_of = (spark.version, spark.locate_file("pyspark"), java, java.stat().st_mtime_ns, os.uname().machine)
    return cache_root() / "spark" / f"{hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]}.jsa"


def make_archive() -> Path:
    """Makes the archive where it is missing, and says where it is.

    Raises:
        UsageError: Java is missing or too old.
        MmtoolError: The JVM did not write it.
    """
    path = archive_path()
    with one_at_a_time(path.parent):
        if not path.exists():
            part = path.with_suffix(".part")
            part.unlink(missing_ok=True)
            _record(part)
            if not part.exists():
                raise MmtoolError(f"Java wrote no archive to {path.parent}", remedy="check the space on disk")
            part.replace(path)
    return path


def _record(part: Path) -> None:
    """Starts Spark as a flow does, and ends it; the JVM writes what it has loaded on its way out."""
    from pyspark import SparkContext

    from mmtool.replication.session import java_options, local_master, open_session

    options = f"{java_options()} -XX:ArchiveClassesAtExit={part}"
    open_session(local_master(1), {"spark.driver.extraJavaOptions": options}).stop()
    jvm = SparkContext._gateway.proc  # noqa: SLF001  there is no public way to wait for the JVM
    jvm.stdin.close()
    jvm.wait(_DUMP_SECONDS)


if __name__ == "__main__":
    sys.stdout.write(f"{make_archive()}\n")
