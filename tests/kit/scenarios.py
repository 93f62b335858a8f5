"""Scenarios of failovers: a folder per case, with what both clusters hold, what is typed, and what comes of it.

``situation.toml`` says what is there before, and what happens meanwhile; ``command`` has one command for each line;
``expected.toml`` says how each ends, and how everything stands afterwards. What it does not say of afterwards must be
as it was before. A key that nothing reads is an error: no case tests nothing by a slip of the pen.

In commands ``OPERATION`` is the operation that was begun last, and ``OPERATION2`` that of the second command; ``FILE``
and ``PAGE`` are files for a plan and a runbook, ``KEPT`` is what a command kept of what it replaced, and ``DIR`` is the
folder of all of them.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from mmtool.plan.failover.acl_rules import LITERAL, Binding
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    Commits = Mapping[str, Mapping[TopicPartition, Commit]]

SIDES = ("source", "target")
_T = TypeVar("_T")
_WHEN = re.compile(r"(before|after|while writing) (\S+)")


class ScenarioError(Exception):
    """A scenario's file cannot be used: which, and why."""


class Table:
    """A table of a TOML file whose every key must be taken."""

    def __init__(self, where: str, values: Mapping[str, Any]) -> None:
        self.where = where
        self._left = dict(values)

    def __contains__(self, key: str) -> bool:
        return key in self._left

    def take(self, key: str, default: Any = None) -> Any:
        """A value; ``default`` where the file has none."""
        return self._left.pop(key, default)

    def need(self, key: str) -> Any:
        """A value that must be there.

        Raises:
            ScenarioError: It is not.
        """
        if key not in self._left:
            raise ScenarioError(f"{self.where}: {key} is missing")
        return self._left.pop(key)

    def table(self, key: str) -> Table:
        """A table in this one; an empty one where the file has none."""
        return Table(f"{self.where}, {key}", self.take(key, {}))

    def tables(self, key: str) -> list[Table]:
        """An array of tables."""
        return [Table(f"{self.where}, {key} {n}", of) for n, of in enumerate(self.take(key, []), 1)]

    def rest(self) -> list[tuple[str, Any]]:
        """Everything that is left, where keys are names."""
        left, self._left = list(self._left.items()), {}
        return left

    def close(self) -> None:
        """Every key was of use.

        Raises:
            ScenarioError: One was not.
        """
        if self._left:
            raise ScenarioError(f"{self.where}: nothing reads {', '.join(self._left)}")

    def read(self, kind: type[_T], **read: Any) -> _T:
        """An object of a dataclass: what is not read already is taken by its name, where the file has it.

        Raises:
            ScenarioError: Something is left.
        """
        for one in fields(kind):  # type: ignore[arg-type]  # a dataclass
            if one.name in self and one.name not in read:
                value = self.take(one.name)
                read[one.name] = tuple(value) if isinstance(value, list) else value
        self.close()
        return kind(**read)


@dataclass(frozen=True, slots=True)
class PartitionSaid:
    """One partition of a source topic, and its mirror.

    Attributes:
        source: Log start and log end.
        runs: Upstream, downstream, count; None where mmtool has mirrored nothing of it.
        began: Where the mirror began, upstream and downstream.
        seen_end: Where the mirror saw the source end last, and how long ago.
        target_start, target_end: Where the target's log begins and ends, when that is not where the runs do.
        mm2_syncs: MirrorMaker 2's offset syncs.
        halted: The mirror does not get past the frontier, for the target does not take what lies behind it.
        running: The mirror has stored where it is, and under which name.
        mm2_copied: Up to where MirrorMaker 2 has copied records that differ, and told of every hundredth; it goes on
            to each of ``mm2_goes_on`` when it is looked at.
        deleted: Records that the source has deleted since.
    """

    place: TopicPartition
    source: tuple[int, int]
    runs: tuple[tuple[int, int, int], ...] | None
    frontier: int
    seen_end: int
    deleted: range
    began: tuple[int, int] = (0, 0)
    seen_seconds_ago: float = 0
    target_start: int = 0
    target_end: int | None = None
    mm2_syncs: tuple[tuple[int, int], ...] = ()
    halted: bool = False
    running: bool = False
    mm2_copied: int | None = None
    mm2_goes_on: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupSaid:
    """One group.

    Attributes:
        commits: By side.
        checkpoints: Upstream and downstream, as the target was told last.
        checkpoint_age_seconds: How old the checkpoints are.
        members: By side: client ids.
        streams: Its commits are those of a Kafka Streams application.
        rates: Offsets per second that it was seen to commit, by partition.
    """

    name: str
    commits: Mapping[str, Mapping[TopicPartition, Commit]]
    checkpoints: Mapping[TopicPartition, tuple[int, int]]
    members: Mapping[str, tuple[str, ...]]
    rates: Mapping[TopicPartition, int]
    checkpoint_age_seconds: float = 0
    by_mm2: bool = False
    metadata: str = ""
    streams: bool = False


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happens while commands run.

    Attributes:
        when: ``before`` or ``after`` a step or ``command``, or ``while writing`` a group.
        what: The step, the group, or the command's number.
        command: During which command, counted from 1.
        kind: What it is.
        how: What there is to know of it.
    """

    when: str
    what: str
    command: int
    kind: str
    how: Any


@dataclass(frozen=True, slots=True)
class SideSaid:
    """What is wrong with a cluster.

    Attributes:
        unreachable: Why it does not answer; empty when it does.
        rights_missing: What it tells beforehand that the user may not.
        denied: Partitions of which it takes no commit.
        lacks: Topics that are gone.
        made_again: Topics that were deleted and are there again, as others under the same name.
        longest_metadata: How long a commit's may be.
        rules: ACLs, as `rule_of` reads them; a cluster has an authorizer, and no rules, where nothing is said.
        stuck: Those that can be made and not be removed.
        acls: What is wrong with ACLs: ``absent``, ``read_only`` or ``first_locks_out``.
        hides: Groups that cannot be asked, and why.
        leaderless: Partitions whose bounds nobody tells.
        others: Groups that are no consumer groups, and what they are.
        records: What some partitions hold, where that is looked at: offset and content.
    """

    unreachable: str = ""
    rights_missing: tuple[str, ...] = ()
    denied: tuple[TopicPartition, ...] = ()
    lacks: tuple[str, ...] = ()
    made_again: tuple[str, ...] = ()
    longest_metadata: int = 4096
    rules: tuple[Binding, ...] = ()
    stuck: tuple[Binding, ...] = ()
    acls: str = ""
    hides: Mapping[str, str] = field(default_factory=dict)
    leaderless: tuple[TopicPartition, ...] = ()
    others: Mapping[str, str] = field(default_factory=dict)
    records: Mapping[TopicPartition, tuple[tuple[int, str], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Situation:
    """What is there before the first command, and what happens meanwhile.

    Attributes:
        learns: What the operator learns from this case, in one sentence.
        on_brokers: It is tried on real brokers as well.
        properties: Lines of the properties file beside the usual ones.
        home_again: Groups went away and their source is back: as `kit.there_and_back` says for ``prefixed``
            names, and `kit.one_name` for ``identical`` ones; empty where the situation says it all.
        failed_over, moved, paused: Marks that are there already.
        drain: Why the mirror cannot be brought up: ``late``, ``halted`` or ``owned``.
        journal: Why the journal takes nothing; empty when it does.
        operator: Who has an operation under way; empty when nobody.
        files: What files hold, by name; they can be executed, and ``DIR`` in `properties` is their folder.
    """

    learns: str
    partitions: tuple[PartitionSaid, ...]
    groups: tuple[GroupSaid, ...]
    sides: Mapping[str, SideSaid]
    happenings: tuple[Happening, ...]
    failed_over: tuple[str, ...]
    moved: tuple[str, ...]
    paused: tuple[str, ...]
    drain: str
    on_brokers: bool = False
    properties: str = ""
    home_again: str = ""
    journal: str = ""
    operator: str = ""
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def topics(self) -> dict[str, list[PartitionSaid]]:
        """Partitions by topic, in order."""
        found: dict[str, list[PartitionSaid]] = {}
        for said in self.partitions:
            found.setdefault(said.place.topic, []).append(said)
        return found


@dataclass(frozen=True, slots=True)
class End:
    """How a command has to end.

    Attributes:
        code: The exit code; None for a process that was killed.
        errors: ``errors[].code``: none, one or several.
        says, says_not: Words on stderr.
        row: Keys of the operation's row.
        steps: States of some steps.
        partitions: Keys of the row of a group and a partition of the source.
        rows: Keys of all rows, where the command shows something else than one operation.
        page: Words of the runbook that it has written.
        prints: What is on stdout, of a command without ``-o json``.
    """

    code: int | None
    errors: tuple[str, ...]
    partitions: Mapping[tuple[str, str], Mapping[str, Any]]
    says: tuple[str, ...] = ()
    says_not: tuple[str, ...] = ()
    row: Mapping[str, Any] = field(default_factory=dict)
    steps: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[Mapping[str, Any], ...] | None = None
    page: tuple[str, ...] = ()
    prints: str | None = None


@dataclass(frozen=True, slots=True)
class SceneState:
    """How everything stands, of a scenario's own groups and topics.

    Attributes:
        commits: By side.
        operations: The states of the operations on record, the oldest first.
        rules: ACLs, by side; nothing on clusters that have none.
        exported: Offsets of the diverged records that files hold.
        marked_by: The operation in whose name a topic is marked; None where that does not matter.
    """

    commits: Mapping[str, Commits]
    failed_over: frozenset[str]
    moved: frozenset[str]
    operations: tuple[str, ...] = ()
    rules: Mapping[str, frozenset[Binding]] = field(default_factory=dict)
    exported: tuple[int, ...] = ()
    marked_by: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One case."""

    name: str
    situation: Situation
    commands: tuple[tuple[str, ...], ...]
    ends: tuple[End, ...]
    afterwards: Mapping[str, Any] = field(default_factory=dict)

    def expected(self, before: SceneState, names: Mapping[str, str] | None = None) -> SceneState:
        """How everything has to stand afterwards: as before, but for what is said; ``names`` of operations."""
        said = Table(f"{self.name}, afterwards", self.afterwards)
        commits = {
            side: {**before.commits[side], **{g: commits_of(of) for g, of in said.take(side, {}).items()}}
            for side in SIDES
        }
        failed_over = frozenset(said.take("failed_over", before.failed_over))
        moved = frozenset(said.take("moved", before.moved))
        operations = tuple(said.take("operations", ()))
        rules = {side: frozenset(map(rule_of, of)) for side, of in said.take("rules", {}).items()}
        exported = tuple(said.take("exported", ()))
        by = said.take("marked_by")
        said.close()
        stands = {side: _some(of) for side, of in commits.items()}
        marked = None if by is None else {topic: (names or {})[operation] for topic, operation in by.items()}
        return SceneState(stands, failed_over, moved, operations, {**before.rules, **rules}, exported, marked)


def _some(commits: Commits) -> Commits:
    """A group without any commit is as good as none."""
    return {group: of for group, of in commits.items() if of}


def read_scenario(folder: Path, rename: Callable[[str], str] = str) -> Scenario:
    """The case of a folder.

    Args:
        folder: With its three files.
        rename: Is given each file's text before it is read, where names must be others.

    Raises:
        ScenarioError: A file cannot be used.
    """
    texts = {path.name: rename(path.read_text(encoding="utf-8")) for path in folder.iterdir()}
    if sorted(texts) != ["command", "expected.toml", "situation.toml"]:
        raise ScenarioError(f"{folder.name} has {', '.join(sorted(texts))}")
    situation = Table(f"{folder.name}, situation", tomllib.loads(texts["situation.toml"]))
    expected = Table(f"{folder.name}, expected", tomllib.loads(texts["expected.toml"]))
    commands = tuple(tuple(shlex.split(line)) for line in texts["command"].splitlines())
    ends = tuple(map(_end, expected.tables("commands")))
    if len(ends) != len(commands):
        raise ScenarioError(f"{folder.name}: {len(commands)} commands and {len(ends)} ends")
    found = Scenario(folder.name, _situation(situation), commands, ends, expected.take("afterwards", {}))
    expected.close()
    return found


def place_of(text: str) -> TopicPartition:
    """``orders-0``."""
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def rule_of(text: str) -> Binding:
    """``ALLOW alice WRITE TOPIC orders``, or for a prefix ``ALLOW alice WRITE TRANSACTIONAL_ID alice- PREFIXED``."""
    permission, user, operation, resource, name, *pattern = text.split()
    return Binding(name, (pattern or [LITERAL])[0], f"User:{user}", "*", operation, permission, resource)


def commits_of(said: Mapping[str, Any]) -> dict[TopicPartition, Commit]:
    """``{"orders-0" = 50}``, or with metadata ``{"orders-0" = [50, "metadata"]}``."""
    return {
        place_of(at): Commit(*(commit if isinstance(commit, list) else [commit]))
        for at, commit in said.items()
    }


def _situation(said: Table) -> Situation:
    mirror = said.table("mirror")
    marks = {of: tuple(mirror.take(of, ())) for of in ("failed_over", "moved", "paused")}
    drain = mirror.take("drain", "")
    mirror.close()
    return said.read(
        Situation,
        learns=said.need("learns"),
        partitions=tuple(_partitions(said.table("topics"))),
        groups=tuple(_groups(said.table("groups"))),
        sides={side: _side(said.table(side)) for side in SIDES},
        happenings=tuple(map(_happening, said.tables("happens"))),
        drain=drain,
        **marks,
    )


def _partitions(topics: Table) -> Iterable[PartitionSaid]:
    for topic, partitions in topics.rest():
        for number, values in enumerate(partitions):
            yield _partition(
                TopicPartition(topic, number), Table(f"{topics.where}, {topic}-{number}", values)
            )


def _partition(place: TopicPartition, said: Table) -> PartitionSaid:
    mirrored, runs = said.take("mirrored"), said.take("runs")
    if mirrored is not None:
        runs = [[0, 0, mirrored]] if mirrored else []
    shipped = None if runs is None else tuple((up, down, count) for up, down, count in runs)
    last = max((up + count for up, _, count in shipped or ()), default=0)
    frontier = said.take("frontier", last)
    return said.read(
        PartitionSaid,
        place=place,
        source=(said.take("source_start", 0), said.need("source_end")),
        runs=shipped,
        frontier=frontier,
        seen_end=said.take("seen_end", frontier),
        deleted=range(*said.take("deleted", (0, 0))),
    )


def _groups(groups: Table) -> Iterable[GroupSaid]:
    for name, values in groups.rest():
        said = Table(f"{groups.where}, {name}", values)
        checkpoints = {place_of(at): (up, down) for at, (up, down) in said.take("checkpoints", {}).items()}
        yield said.read(
            GroupSaid,
            name=name,
            commits={side: commits_of(said.take(side, {})) for side in SIDES},
            checkpoints=checkpoints,
            members={side: tuple(said.take(f"members_on_{side}", ())) for side in SIDES},
            rates={place_of(at): rate for at, rate in said.take("rates", {}).items()},
        )


def _side(said: Table) -> SideSaid:
    records = said.take("records", {}).items()
    return said.read(
        SideSaid,
        **{name: tuple(map(place_of, said.take(name, ()))) for name in ("denied", "leaderless")},
        **{name: tuple(map(rule_of, said.take(name, ()))) for name in ("rules", "stuck")},
        records={place_of(at): tuple((n, text) for n, text in of) for at, of in records},
    )


def _happening(said: Table) -> Happening:
    when, command = said.need("when"), said.take("command", 1)
    matched = _WHEN.fullmatch(when)
    if matched is None:
        raise ScenarioError(f"{said.where}: {when!r} is none of before/after STEP, while writing GROUP")
    left = said.rest()
    if len(left) != 1:
        raise ScenarioError(f"{said.where}: one thing happens, not {', '.join(key for key, _ in left)}")
    return Happening(matched[1], matched[2], command, *left[0])


def _end(said: Table) -> End:
    code = said.need("exit")
    partitions = {
        (group, at): row for group, of in said.take("partitions", {}).items() for at, row in of.items()
    }
    errors = said.take("errors", [said.take("error")] if "error" in said else ())
    return said.read(
        End, code=None if code == "killed" else code, errors=tuple(errors), partitions=partitions
    )
