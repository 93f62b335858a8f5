"""The Python daemon that Spark starts by module name; its process can be found as ``pyspark.daemon``."""
