"""``mmtool verify``: compare both sides of a flow on Spark, range by range; see `comparison` for the rules."""
