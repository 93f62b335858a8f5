"""mmtool's internal topics, written and read."""
