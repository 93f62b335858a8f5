"""``mmtool verify``: are both sides the same? Compared on Spark, range by range; see `comparison` for what counts."""
