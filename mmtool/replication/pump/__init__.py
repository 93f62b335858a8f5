"""What runs inside a Spark task: fetch from the source, re-address, produce to the target, keep the books."""
