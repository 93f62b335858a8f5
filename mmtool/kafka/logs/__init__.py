"""Partition logs: bounds, sizes, parts, batches read and appended."""
