"""The path of the class archive for this Java and this Spark."""

from __future__ import annotations

from importlib.metadata import distribution

from mmtool.java import ClassArchive
from mmtool.runtime.files import cache_root


def spark_classes() -> ClassArchive:
    """The class archive for this Java and this Spark; its file may be missing."""
    spark = distribution("pyspark")
    return ClassArchive(cache_root() / "spark", (spark.version, spark.locate_file("pyspark")))
