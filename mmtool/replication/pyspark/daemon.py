"""The process that Spark forks its Python workers from, with the copier's modules already imported.

Spark starts it on its own host, as ``spark.python.daemon.module``. Each worker, also one that replaces a dead one,
starts with these modules loaded. A process may be forked safely only while it has one thread, so no module that is
imported here may start any (test_pyspark_daemon).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import PurePath

_ZIPPED = ("pyspark", "py4j-")


def zips_last(path: Sequence[str]) -> list[str]:
    """``path`` with Spark's zips at the end.

    Python compiles modules that it imports from a zip again at every start.
    """

    def is_zip(entry: str) -> bool:
        name = PurePath(entry).name
        return name.startswith(_ZIPPED) and name.endswith(".zip")

    return sorted(path, key=is_zip)


def load() -> None:
    """Import the modules that a worker needs before its first record, which its garbage collector then passes over.

    The linear algebra of numpy, which is not used, is kept from starting threads.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import pyspark.worker  # noqa: F401  what a forked worker runs

    from mmtool.replication.spark.task import spare_the_loaded

    spare_the_loaded()


if __name__ == "__main__":
    sys.path[:] = zips_last(sys.path)
    load()
    from pyspark.daemon import manager

    manager()
