"""Where a failback writes the diverged tail: a file, a topic, or new records on the target."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Kind(StrEnum):
    """The values of ``--diverged``."""

    FILE = "file"
    TOPIC = "topic"
    REPLAY = "replay"


@dataclass(frozen=True, slots=True)
class ToFile:
    """The records go into a file, and nowhere else."""

    kind = Kind.FILE
    words = str(Kind.FILE)


@dataclass(frozen=True, slots=True)
class ToTopic:
    """The records go into a topic on the source that none of the groups reads."""

    topic: str
    kind = Kind.TOPIC

    @property
    def words(self) -> str:
        """The value of ``--diverged`` on the command line: ``topic NAME``."""
        return f"{Kind.TOPIC} {self.topic}"


@dataclass(frozen=True, slots=True)
class Replay:
    """The records are written to the target as new ones, and the reverse flow mirrors them to the source."""

    kind = Kind.REPLAY
    words = str(Kind.REPLAY)


Diverged: TypeAlias = ToFile | ToTopic | Replay
TO_FILE = ToFile()


def diverged_of(words: str) -> Diverged:
    """Parse a value of ``--diverged``, as in `words`.

    Raises:
        ValueError: The text is no value of ``--diverged``.
    """
    kind, _, topic = words.partition(" ")
    match Kind(kind), topic:
        case Kind.FILE, "":
            return TO_FILE
        case Kind.REPLAY, "":
            return Replay()
        case Kind.TOPIC, str() if topic:
            return ToTopic(topic)
    raise ValueError(f"{words!r} is no value of --diverged")
