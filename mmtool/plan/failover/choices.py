"""The values of options that choose how a failover is done; commands load this module before they run."""

from __future__ import annotations

from enum import StrEnum


class FenceKind(StrEnum):
    """The values of ``--fence``: how producers are kept off the source."""

    NONE = "none"
    """No fence: producers may stay while groups move."""
    ACL = "acl"
    """A DENY of WRITE for each principal that a rule allows to write."""
    HOOK = "hook"
    """The operator's executable in ``mmtool.hook.fence``."""
    WATCH = "watch"
    """No action: the operator has stopped the producers, and mmtool checks it."""


class Unknowns(StrEnum):
    """The values of ``--unknown``: a group's start position in a partition where its offset is unknown."""

    LEAVE = "leave"
    EARLIEST = "earliest"
    LATEST = "latest"
