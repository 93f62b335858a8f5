"""Other names of groups on a flow's target (``mmtool.group.map``): the file, the stored pairs, the names in force.

A  a stored pair counts before the file, and a moved group keeps the name under which it was moved
B  a name in force belongs to one group: two groups never commit under one name
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mmtool.plan.groups.facts import OWN_GROUP_PREFIX
from mmtool.plan.records.identity import FlowIdentity
from mmtool.plan.records.marks import GroupNameRecord
from mmtool.plan.words import few, have

Pairs = Mapping[str, str]
"""Names on the target, by the groups' names on the source."""
_HEADINGS = (["source", "target"], ["source name", "target name"], ["group", "target_group"])


class GroupMap(NamedTuple):
    """A group map as it was read.

    Attributes:
        pairs: Of the file.
        file: As the operator names it; empty without a map.
        problem: Why the file cannot be read; empty where it was read.
        is_inverse: It is the map of the reverse flow, turned round: its names on the target are the original ones.
    """

    pairs: Pairs
    file: str = ""
    problem: str = ""
    is_inverse: bool = False

    @property
    def inverse(self) -> GroupMap:
        """The map of the reverse flow, if this is the flow's own map."""
        return self._replace(pairs={name: group for group, name in self.pairs.items()}, is_inverse=True)


NO_MAP = GroupMap({})


def parse_group_map(lines: Iterable[str]) -> dict[str, str]:
    """Parse a CSV file of source name, target name, with or without a heading.

    Raises:
        ValueError: A line is invalid, or two lines contradict each other; names the line.
    """
    found: dict[str, str] = {}
    holders: dict[str, str] = {}
    at: dict[str, int] = {}
    for number, (group, name) in _rows(lines):
        if group in found and found[group] != name:
            raise ValueError(f"line {number}: group {group} has two target names, {found[group]} and {name}")
        if holders.setdefault(name, group) != group:
            raise ValueError(
                f"line {number}: groups {holders[name]} and {group} have one target name, {name}"
            )
        found[group], at[group] = name, number
    for group, name in found.items():
        if found.get(name, name) != name:
            raise ValueError(
                f"line {at[group]}: {group} gets the name {name}, and line {at[name]} gives group {name} the name"
                f" {found[name]}: names in a chain or a circle are not supported"
            )
    return found


def _rows(lines: Iterable[str]) -> Iterator[tuple[int, tuple[str, str]]]:
    for number, cells in csv_rows(lines):
        if len(cells) != 2 or not all(cells):
            raise ValueError(f"line {number} does not have two names: expected source name,target name")
        if number == 1 and [cell.lower() for cell in cells] in _HEADINGS:
            continue
        if own := [cell for cell in cells if cell.startswith(OWN_GROUP_PREFIX)]:
            raise ValueError(f"line {number}: {own[0]} is a name of mmtool's internal groups")
        yield number, (cells[0], cells[1])


def csv_rows(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line of a CSV text and its cells, without spaces around them; empty lines are skipped.

    Raises:
        ValueError: A line is not CSV; names the line.
    """
    rows = csv.reader(lines, strict=True, skipinitialspace=True)
    try:
        for row in rows:
            if any(cells := [cell.strip() for cell in row]):
                yield rows.line_num, cells
    except csv.Error as error:
        raise ValueError(f"line {rows.line_num}: {error}") from error


Store = Callable[[FlowIdentity, Sequence[GroupNameRecord]], None]
"""Appends records to a flow's control topic."""


@dataclass(slots=True)
class GroupNames:
    """The names of one flow's groups on its target; every other group keeps its name.

    Attributes:
        sides: The aliases of source and target.
        map: The file's pairs.
        selects: Whether the flow selects a group.
        store: Writes pairs to the flow's stored state.
        pairs: In force; none before the stored state was read.
        stored: As the control topic has them.
        moved: Groups that belong to the target.
        written: What this process has stored: the control topic may be read some time later.
    """

    sides: tuple[str, str] = ("the source", "the target")
    map: GroupMap = NO_MAP
    selects: Callable[[str], bool] = bool
    store: Store = lambda *_: None
    pairs: Pairs = field(default_factory=dict)
    stored: Pairs = field(default_factory=dict)
    moved: Collection[str] = ()
    written: Pairs = field(default_factory=dict)

    @property
    def in_use(self) -> bool:
        """Whether a group has another name, or may have one."""
        return bool(self.pairs or self.map.problem)

    def there(self, group: str) -> str:
        """A group's name on the target."""
        return self.pairs.get(group, group)

    def renamed(self, group: str) -> str | None:
        """A group's name on the target, where it is another one; else None."""
        name = self.there(group)
        return None if name == group else name

    def here(self, names: Iterable[str]) -> dict[str, str]:
        """The groups' names on the source, by these names on the target, without names that belong to no group."""
        held = {name: group for group, name in self.pairs.items()}
        return {name: held.get(name, name) for name in names if name in held or name not in self.pairs}

    def adopt(self, stored: Pairs, moved: Collection[str], listed: Callable[[], Iterable[str]]) -> None:
        """Take over what the stored state says now; ``listed`` returns the target's groups.

        The file's new name for a group counts only if the target no longer has a group of the stored name.
        """
        stored, wanted = {**self.written, **stored}, self.map.pairs
        free = [g for g in stored if g not in moved and wanted.get(g, stored[g]) != stored[g]]
        there = {self.there(name) for name in listed()} if free else set[str]()
        gone = {group for group in free if stored[group] not in there}
        self.stored, self.moved = stored, moved
        ours = {group: name for group, name in stored.items() if group not in gone}
        self.pairs = {**{g: name for g, name in wanted.items() if g not in moved}, **ours}

    def refused(self, groups: Iterable[str], here: Collection[str], there: Collection[str]) -> dict[str, str]:
        """Why groups must not be written under their names on the target, by group.

        Args:
            groups: The groups.
            here: The source's groups.
            there: The target's groups, by their names on the source.
        """
        source, target = self.sides
        sharing: dict[str, list[str]] = {}
        for group, name in self.pairs.items():
            sharing.setdefault(name, []).append(group)
        found = {}
        for group in groups:
            name = self.there(group)
            others = [one for one in sharing.get(name, ()) if one != group]
            if self.is_unnamed(group):
                found[group] = f"the file with its name on {target} cannot be read: {self.map.problem}"
            elif others:
                found[group] = f"its name on {target}, {name}, is also the name of group {others[0]}"
            elif name == group or self.is_known(group):
                continue
            elif name in here and self.selects(name):
                found[group] = f"its name on {target}, {name}, is also the name of a group of {source}"
            elif group in there and not self.map.is_inverse:
                found[group] = f"{target} has a group {name} that this flow did not create"
        return found

    def is_known(self, group: str) -> bool:
        """Whether a group's name in force is stored, or the group was moved."""
        return group in self.moved or self.stored.get(group) == self.there(group)

    def is_unnamed(self, group: str) -> bool:
        """Whether a group's name is unknown: the file cannot be read, and no name is stored."""
        return bool(self.map.problem) and group not in self.stored and group not in self.moved

    def warnings(self, here: Collection[str]) -> Iterator[str]:
        """Yield sentences about lines of the file that have no effect; ``here`` has the source's groups."""
        source, target = self.sides
        if unknown := sorted(self.map.pairs.keys() - set(here) - self.stored.keys()):
            yield f"{self.map.file} names groups that {source} does not have: {few(unknown)}"
        kept = [g for g in sorted(self.map.pairs) if self.there(g) != self.map.pairs[g]]
        if kept:
            yield (
                f"{few(kept)} {have(len(kept))} another name on {target} than {self.map.file} says, as offsets were"
                f" committed under it: to use the new one, delete group {self.there(kept[0])} on {target}"
            )

    def keep(self, identity: FlowIdentity, groups: Iterable[str]) -> None:
        """Store the pairs of groups that are about to be written, and are not stored yet."""
        news = {g: self.there(g) for g in groups if self.stored.get(g, g) != self.there(g)}
        if news:
            self.store(identity, [GroupNameRecord(group, name) for group, name in news.items()])
            self.written, self.stored = {**self.written, **news}, {**self.stored, **news}
