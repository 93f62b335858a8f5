"""The two signals that stop a worker's copier: fenced by another owner, or in doubt about the target.

They end a task, and not a command as those of `mmtool.errors` do.
"""

from __future__ import annotations


class FencedError(Exception):
    """Another owner claimed the shard: this pump must stop, and everything it still holds is the other's."""


class InDoubtError(Exception):
    """What the target holds cannot be told from its answers: resume by reading its log."""
