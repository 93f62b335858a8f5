"""Create the class data sharing archive of Spark's classes: read, checked and linked once per machine (JEP 350).

Spark then starts in about half the time, which is most of the time of a takeover. The archive is made on request
only, when installing or building an image::

    python -m mmtool.replication.spark.archive

That takes one start of Spark, about 800 MB of memory and 70 MB of disk. A JVM other than the one that the archive was
made for ignores it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mmtool.errors import MmtoolError
from mmtool.replication.spark.rounds import java_options, local_master, open_rounds, spark_classes
from mmtool.runtime.files import one_at_a_time

_DUMP_SECONDS = 300


def make_archive() -> Path:
    """Create the archive if it is missing, and return its path.

    Raises:
        UsageError: Java is missing or too old.
        MmtoolError: The JVM did not write it.
    """
    from pyspark import SparkContext

    classes = spark_classes()
    with one_at_a_time(classes.file.parent):
        if not classes.file.exists():
            # start Spark as a flow does, and end it; on exit the JVM writes the classes that it has loaded
            java = " ".join((java_options(), *classes.options(write=True)))
            rounds = open_rounds(local_master(1), {"spark.driver.extraJavaOptions": java})
            rounds.probe()
            rounds.stop()
            jvm = SparkContext._gateway.proc  # noqa: SLF001  there is no public way to wait for the JVM
            jvm.stdin.close()
            jvm.wait(_DUMP_SECONDS)
            classes.adopt()
    if not classes.file.exists():
        raise MmtoolError(
            f"Java wrote no class-data-sharing archive to {classes.file.parent}",
            remedy="check the free space of that disk",
        )
    return classes.file


if __name__ == "__main__":
    from mmtool.output import OutputFormat
    from mmtool.output.failures import handle_failures

    with handle_failures("archive", OutputFormat.TABLE):
        sys.stdout.write(f"{make_archive()}\n")
