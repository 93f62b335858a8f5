"""The replication engine: driver and ownership, rounds on Spark, the copier in each task, recovery."""
