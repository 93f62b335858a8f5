"""Offsets written into __consumer_offsets: checked, committed, read back, undone, kept in sync."""
