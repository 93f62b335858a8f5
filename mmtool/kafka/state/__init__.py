"""What mmtool stores in its own topics, written and read."""
