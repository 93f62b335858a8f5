"""How a failover is done: the values of ``--fence``, ``--unknown`` and ``--diverged``; loaded before a command runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


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


class DivergedKind(StrEnum):
    """The values of ``--diverged``."""

    FILE = "file"
    TOPIC = "topic"


@dataclass(frozen=True, slots=True)
class ToFile:
    """The records go into a file, and nowhere else."""

    words = str(DivergedKind.FILE)


@dataclass(frozen=True, slots=True)
class ToTopic:
    """The records go into a topic on the source that none of the groups reads."""

    topic: str

    @property
    def words(self) -> str:
        """The value of ``--diverged`` on the command line: ``topic NAME``."""
        return f"{DivergedKind.TOPIC} {self.topic}"


@dataclass(frozen=True, slots=True)
class Replayed:
    """An older mmtool wrote the records to the target as new ones; journals have such operations."""

    words = "replay"


Diverged: TypeAlias = ToFile | ToTopic | Replayed
TO_FILE = ToFile()
REPLAYED = Replayed()


def diverged_of(words: str) -> ToFile | ToTopic:
    """Parse a value of ``--diverged``, as in `words`.

    Raises:
        ValueError: The text is no value of ``--diverged``.
    """
    kind, _, topic = words.partition(" ")
    match DivergedKind(kind), topic:
        case DivergedKind.FILE, "":
            return TO_FILE
        case DivergedKind.TOPIC, str() if topic:
            return ToTopic(topic)
    raise ValueError(f"{words!r} is no value of --diverged")
