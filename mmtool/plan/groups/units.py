"""Units: topics and groups that are configured to move together, and groups that read across units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.plan.words import few

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from mmtool.plan.words import Names


@dataclass(frozen=True, slots=True)
class ChosenUnit:
    """``--unit NAME``.

    Attributes:
        groups: Whether a group belongs to the unit.
        topics: Whether a topic of the source does.
        has_topics: Whether the configuration names any; without, no topic is outside.
    """

    name: str
    groups: Callable[[str], bool]
    topics: Callable[[str], bool]
    has_topics: bool = True


def dependencies(
    unit: ChosenUnit, read_by: Mapping[str, Collection[str]], moving: Collection[str], names: Names
) -> Iterator[str]:
    """Yield a sentence for each group that moves and reads topics outside the unit, or stays and reads topics in it.

    Args:
        unit: The unit.
        read_by: The flow's topics that each group reads, by their names on the source.
        moving: The groups that move.
        names: The clusters' names.
    """
    if not unit.has_topics:
        return
    staying = {group: topics for group, topics in read_by.items() if group not in moving}
    key = f"`mmtool.unit.{unit.name}.groups`"
    for group in sorted(set(moving) & read_by.keys()):
        outside = sorted(topic for topic in read_by[group] if not unit.topics(topic))
        if outside:
            left = sorted(other for other, topics in staying.items() if set(topics) & set(outside))
            read, stay = ("reads", "stays") if len(left) == 1 else ("read", "stay")
            it, kind = ("it", "group") if len(left) == 1 else ("them", "groups")
            shared = (
                f"; {kind} {few(left)}, which also {read} these topics, {stay} on {names.source}: to move {it}, add"
                f" {it} to {key}"
                if left
                else ""
            )
            yield (
                f"group {group} of unit {unit.name} also reads topics outside the unit ({few(outside)}): its offsets in"
                f" these topics move with it{shared}"
            )
    for group in sorted(staying):
        inside = sorted(filter(unit.topics, staying[group]))
        if inside:
            yield (
                f"group {group} stays on {names.source}, and reads topics of unit {unit.name} ({few(inside)}): to move"
                f" it as well, add it to {key}"
            )
