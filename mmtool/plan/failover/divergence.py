"""Where a failback writes the diverged tail: a file or a topic."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Kind(StrEnum):
    """The values of ``--diverged``."""

    FILE = "file"
    TOPIC = "topic"


@dataclass(frozen=True, slots=True)
class ToFile:
    """The records go into a file, and nowhere else."""

    words = str(Kind.FILE)


@dataclass(frozen=True, slots=True)
class ToTopic:
    """The records go into a topic on the source that none of the groups reads."""

    topic: str

    @property
    def words(self) -> str:
        """The value of ``--diverged`` on the command line: ``topic NAME``."""
        return f"{Kind.TOPIC} {self.topic}"


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
    match Kind(kind), topic:
        case Kind.FILE, "":
            return TO_FILE
        case Kind.TOPIC, str() if topic:
            return ToTopic(topic)
    raise ValueError(f"{words!r} is no value of --diverged")
