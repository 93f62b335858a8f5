"""Commits of group offsets: checked, written, read back, undone, and kept in sync."""
