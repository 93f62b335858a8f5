"""Transforms of a flow: MirrorMaker 2's that drop records or headers, and which of them apply to a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import NamedTuple

READY_MADE = "mmtool.transforms:"
"""How the names of mmtool's own functions begin."""


class On(StrEnum):
    """What a condition looks at; the words are those of versions in stored state."""

    TOPIC = auto()
    """The whole name of the target topic matches a regular expression (``TopicNameMatches``)."""
    HEADER = auto()
    """The record has a header with this name (``HasHeaderKey``)."""
    TOMBSTONE = auto()
    """The record has no value (``RecordIsTombstone``)."""


class Condition(NamedTuple):
    """A predicate of Kafka Connect: ``text`` is the pattern or the name of the header."""

    on: On
    text: str = ""
    negated: bool = False


class Step(NamedTuple):
    """One transform of Kafka Connect.

    Attributes:
        headers: The names of the headers that it drops; None where it drops the record (``Filter``).
        condition: Which records it applies to; None for all.
    """

    headers: tuple[str, ...] | None
    condition: Condition | None = None


def steps_for(
    steps: Iterable[Step], target_topic: str, matches: Callable[[str, str], bool]
) -> tuple[Step, ...]:
    """The steps that apply to records of a target topic, without conditions on its name.

    Args:
        steps: In their order.
        target_topic: The name that the topic has on the target, which MirrorMaker 2's transforms see.
        matches: Whether a regular expression of Java matches a whole name.
    """
    found = []
    for step in steps:
        condition = step.condition
        if condition is None or condition.on is not On.TOPIC:
            found.append(step)
        elif matches(condition.text, target_topic) != condition.negated:
            found.append(step._replace(condition=None))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class TransformSpec:
    """What is done to the records of one topic: `steps` first, then the function.

    Attributes:
        version: Names the steps, the function, its code and its settings; never empty, and without secrets.
        covers: Other versions that make the same of each record that they do not refuse.
        steps: As `steps_for` returns them.
        function: ``package.module:name``; empty without a function.
        settings: Of the function, with secrets.
        archive: The module or package of the function as a zip file; empty where every worker has it.
        problem: Why there is no such function, or it cannot be sent to workers; empty where it can.
    """

    version: str
    steps: tuple[Step, ...] = ()
    function: str = ""
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    archive: bytes = field(default=b"", repr=False)
    problem: str = ""
    covers: tuple[str, ...] = ()

    def makes(self, version: str) -> bool:
        """Whether records of a version are made again by this one."""
        return version in (self.version, *self.covers)

    @property
    def is_own(self) -> bool:
        """Whether the function, if there is one, is ready-made."""
        return not self.function or self.function.startswith(READY_MADE)

    @property
    def name(self) -> str:
        """The function, or the key of the steps, as it is named in sentences."""
        return self.function or "transforms"
