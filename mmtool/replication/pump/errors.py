"""What ends a pump: its records are somebody else's by now, or it cannot tell where they are."""

from __future__ import annotations


class FencedError(Exception):
    """Another owner claimed the shard: this pump must stop, and everything it still holds is the other's."""


class InDoubtError(Exception):
    """What the target holds cannot be told from its answers: resume by reading its log."""
