"""The engine: rounds on Spark, the pump inside each task, claims, resume, ownership."""
