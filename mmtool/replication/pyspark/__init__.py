"""What Spark starts by name: called as its own, so that who looks for ``pyspark.daemon`` among processes finds it."""
