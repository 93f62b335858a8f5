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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kit.tables import ScenarioError, Table
from mmtool.plan.failover.acl_rules import LITERAL, Binding
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    Commits = Mapping[str, Mapping[TopicPartition, Commit]]

SIDES = ("source", "target")
_WHEN = re.compile(r"(before|after|while writing) (\S+)")


@dataclass(frozen=True, slots=True)
class PartitionSaid:
    """One partition of a source topic, and its mirror.

    Attributes:
        source: Log start and log end.
        runs: Upstream, downstream, count; None where mmtool has mirrored nothing of it.
        began: Where the mirror began, upstream and downstream.
        seen_end: Where the mirror saw the source end last, and how long ago.
        target_start, target_end: Where the target's log begins and ends, when that is not where the runs do.
        syncs: MirrorMaker 2's offset syncs.
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
    began: tuple[int, int]
    seen_end: int
    seen_seconds_ago: float
    target_start: int
    target_end: int | None
    syncs: tuple[tuple[int, int], ...]
    halted: bool
    running: bool
    mm2_copied: int | None
    mm2_goes_on: tuple[int, ...]
    deleted: range


@dataclass(frozen=True, slots=True)
class GroupSaid:
    """One group.

    Attributes:
        commits: By side.
        checkpoints: Upstream and downstream, as the target was told last.
        age_seconds: How old the checkpoints are.
        members: By side: client ids.
        streams: Its commits are those of a Kafka Streams application.
        rates: Offsets per second that it was seen to commit, by partition.
    """

    name: str
    commits: Mapping[str, Mapping[TopicPartition, Commit]]
    checkpoints: Mapping[TopicPartition, tuple[int, int]]
    age_seconds: float
    by_mm2: bool
    metadata: str
    members: Mapping[str, tuple[str, ...]]
    streams: bool
    rates: Mapping[TopicPartition, int]


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
    on_brokers: bool
    properties: str
    home_again: str
    partitions: tuple[PartitionSaid, ...]
    groups: tuple[GroupSaid, ...]
    sides: Mapping[str, SideSaid]
    failed_over: tuple[str, ...]
    moved: tuple[str, ...]
    paused: tuple[str, ...]
    drain: str
    journal: str
    operator: str
    happenings: tuple[Happening, ...]
    files: Mapping[str, str]

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
    says: tuple[str, ...]
    says_not: tuple[str, ...]
    row: Mapping[str, Any]
    steps: Mapping[str, str]
    partitions: Mapping[tuple[str, str], Mapping[str, Any]]
    rows: tuple[Mapping[str, Any], ...] | None
    page: tuple[str, ...]
    prints: str | None


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
    found = Situation(
        said.need("learns"),
        said.take("on_brokers", False),
        said.take("properties", ""),
        said.take("home_again", ""),
        tuple(_partitions(said.table("topics"))),
        tuple(_groups(said.table("groups"))),
        {side: _side(said.table(side)) for side in SIDES},
        tuple(mirror.take("failed_over", ())),
        tuple(mirror.take("moved", ())),
        tuple(mirror.take("paused", ())),
        mirror.take("drain", ""),
        said.take("journal", ""),
        said.take("operator", ""),
        tuple(map(_happening, said.tables("happens"))),
        said.take("files", {}),
    )
    mirror.close()
    said.close()
    return found


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
    began, syncs = said.take("began", [0, 0]), said.take("mm2_syncs", [])
    found = PartitionSaid(
        place,
        (said.take("source_start", 0), said.need("source_end")),
        shipped,
        frontier,
        (began[0], began[1]),
        said.take("seen_end", frontier),
        said.take("seen_seconds_ago", 0),
        said.take("target_start", 0),
        said.take("target_end"),
        tuple((up, down) for up, down in syncs),
        said.take("halted", False),
        said.take("running", False),
        said.take("mm2_copied"),
        tuple(said.take("mm2_goes_on", ())),
        range(*said.take("deleted", (0, 0))),
    )
    said.close()
    return found


def _groups(groups: Table) -> Iterable[GroupSaid]:
    for name, values in groups.rest():
        said = Table(f"{groups.where}, {name}", values)
        checkpoints = {place_of(at): (up, down) for at, (up, down) in said.take("checkpoints", {}).items()}
        yield GroupSaid(
            name,
            {side: commits_of(said.take(side, {})) for side in SIDES},
            checkpoints,
            said.take("checkpoint_age_seconds", 0),
            said.take("by_mm2", False),
            said.take("metadata", ""),
            {side: tuple(said.take(f"members_on_{side}", ())) for side in SIDES},
            said.take("streams", False),
            {place_of(at): rate for at, rate in said.take("rates", {}).items()},
        )
        said.close()


def _side(said: Table) -> SideSaid:
    found = SideSaid(
        said.take("unreachable", ""),
        tuple(said.take("rights_missing", ())),
        tuple(map(place_of, said.take("denied", ()))),
        tuple(said.take("lacks", ())),
        tuple(said.take("made_again", ())),
        said.take("longest_metadata", 4096),
        tuple(map(rule_of, said.take("rules", ()))),
        tuple(map(rule_of, said.take("stuck", ()))),
        said.take("acls", ""),
        said.take("hides", {}),
        tuple(map(place_of, said.take("leaderless", ()))),
        said.take("others", {}),
        {place_of(at): tuple((n, text) for n, text in of) for at, of in said.take("records", {}).items()},
    )
    said.close()
    return found


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
    rows = said.take("rows")
    found = End(
        None if code == "killed" else code,
        tuple(said.take("errors", [said.take("error")] if "error" in said else ())),
        tuple(said.take("says", ())),
        tuple(said.take("says_not", ())),
        said.take("row", {}),
        said.take("steps", {}),
        partitions,
        None if rows is None else tuple(rows),
        tuple(said.take("page", ())),
        said.take("prints"),
    )
    said.close()
    return found
