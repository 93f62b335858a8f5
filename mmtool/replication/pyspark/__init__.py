"""Spark starts this package's daemon by module name, so its process can be found as ``pyspark.daemon``."""
