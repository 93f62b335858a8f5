"""Mirrors as topics: created, grown and deleted, and where they start."""
