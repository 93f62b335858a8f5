"""The copier inside a Spark task: fetch from the source, produce to the target, store offset runs."""
