"""Mirrors as topics: created, grown, deleted; where they start."""
