"""The two signals that stop a worker's copier: fenced by another owner, or in doubt about the target.

They end a Spark task, not a command as the errors of `mmtool.errors` do.
"""

from __future__ import annotations


class FencedError(Exception):
    """Another owner claimed the shard: this worker must stop, and leave all that it still holds to that owner."""


class InDoubtError(Exception):
    """The target's answers do not say what it holds: recover by reading its log."""
