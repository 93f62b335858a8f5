"""A scenario's situation on clusters in memory, and what happens there while its commands run."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kit.maps import position_of
from kit.one_name import OneName
from kit.operations import FakeJournal, KilledError
from kit.scenarios import SIDES, SceneState, commits_of, place_of
from kit.scene import Scene
from kit.tables import ScenarioError, Table
from kit.there_and_back import ThereAndBack
from mmtool.errors import GateError, OwnedElsewhereError, RefusedError, UnreachableError
from mmtool.failover.operation.records import recorded
from mmtool.kafka.ports import Bounds
from mmtool.plan.groups.facts import Member
from mmtool.plan.records.documents import State
from mmtool.plan.records.journal import Entry, Kind
from mmtool.plan.records.marks import FailedOverRecord, MovedGroupRecord
from mmtool.translation.lockstep import Seen
from mmtool.translation.types import TopicId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from kit.clusters import FakeCluster
    from kit.scenarios import GroupSaid, Happening, PartitionSaid, SideSaid, Situation
    from mmtool.errors import MmtoolError
    from mmtool.kafka.ports import Problem
    from mmtool.plan.groups.facts import Commit
    from mmtool.translation.types import TopicPartition

_SCENES: dict[str, type[Scene]] = {"": Scene, "prefixed": ThereAndBack, "identical": OneName}
_DRAINS: dict[str, MmtoolError] = {
    "late": GateError(
        "flow east->west did not mirror the remaining records within 8 s",
        remedy="give --timeout more",
    ),
    "halted": RefusedError(
        "the remaining records of orders-0 cannot be mirrored: a record is too large", remedy="mend it"
    ),
    "owned": OwnedElsewhereError("another mmtool owns the flow"),
}


@dataclass
class ListeningJournal(FakeJournal):
    """Says of each step that it is about to be done, or is done, once that is on record."""

    heard: Callable[[str, str], None] = field(kw_only=True)

    def append(self, entries: Sequence[Entry]) -> None:
        super().append(entries)
        for entry in entries:
            when = {"running": "before", "done": "after"}.get(str(entry.body.get("step_state")))
            if entry.kind == Kind.STEP and when is not None:
                self.heard(when, str(entry.body["step"]))


@dataclass
class ScenarioScene:
    """The clusters of a scenario, and its happenings.

    Attributes:
        command: The number of the one that runs.
    """

    scene: Scene
    situation: Situation
    command: int = 0
    happened: list[Happening] = field(default_factory=list)

    @classmethod
    def of(cls, situation: Situation, directory: Path) -> ScenarioScene:
        """Everything as the situation says."""
        made = cls(_SCENES[situation.home_again](directory, situation.properties), situation)
        for topic, partitions in situation.topics.items():
            made.scene.has(topic, *(said.source[1] for said in partitions))
            for said in partitions:
                made._partition(said)
        for group in situation.groups:
            made._group(group)
        made._marks()
        made._keep()
        for side, cluster in made.sides.items():
            made._trouble(cluster, situation.sides[side])
        return made

    @property
    def sides(self) -> dict[str, FakeCluster]:
        return {"source": self.scene.source, "target": self.scene.target}

    def begin(self) -> None:
        """The next command is about to run."""
        self.command += 1
        self._hear("before", "command")

    def end(self) -> None:
        """It has ended, or was killed."""
        self._hear("after", "command")

    def standing(self) -> SceneState:
        """How everything stands."""
        return SceneState(
            {
                side: {group: dict(of) for group, of in cluster.groups.committed.items() if of}
                for side, cluster in self.sides.items()
            },
            frozenset(self.scene.marks.failed_over),
            frozenset(self.scene.marks.moved),
            tuple(one.state for one in recorded(self._entries())),
        )

    def check_all_happened(self) -> None:
        """Nothing that the situation tells of was waited for in vain.

        Raises:
            ScenarioError: Something was.
        """
        missed = [one for one in self.situation.happenings if one not in self.happened]
        if missed:
            raise ScenarioError(f"{missed[0].when} {missed[0].what}: it never came to that")

    def _entries(self) -> list[Entry]:
        """Looked at past whatever is wrong with it."""
        return [Entry.decode(value) for value in self.scene.journal.stored.values()]

    def _partition(self, said: PartitionSaid) -> None:
        scene, (topic, number) = self.scene, said.place
        scene.source.logs[said.place] = Bounds(*said.source)
        remote = type(said.place)(scene.settings.remote_topic(topic), number)
        if said.runs is not None:
            scene.mirrored(
                topic, number, said.runs, said.frontier, start=said.began, source_end=said.seen_end
            )
        if said.halted:
            halted = position_of(
                said.place, scene.source.ids[topic], said.frontier, said.seen_end, State.HALTED
            )
            scene.state.view.apply(halted.key, halted.encode(), 0)
        if said.syncs:
            scene.mirrored_by_mm2(topic, number, said.target_end or 0, *said.syncs)
        stands = scene.target.logs[remote]
        end = stands.log_end if said.target_end is None else said.target_end
        scene.target.logs[remote] = Bounds(said.target_start, end)

    def _group(self, said: GroupSaid) -> None:
        for side, cluster in self.sides.items():
            if said.commits[side]:
                cluster.groups.committed.setdefault(said.name, {}).update(said.commits[side])
            if said.members[side]:
                cluster.groups.members[said.name] = tuple(map(_member, said.members[side]))
        at_ms = int((time.time() - said.age_seconds) * 1000)
        for place, pair in said.checkpoints.items():
            self.scene.told_of(
                said.name, place, pair, at_ms=at_ms, by_mm2=said.by_mm2, metadata=said.metadata
            )

    def _marks(self) -> None:
        at_ms, before = int(time.time() * 1000), "20260101T000000Z-abcdef"
        self.scene.state.marked(
            *(
                FailedOverRecord(name, True, before, "bob@host-2", at_ms)
                for name in self.situation.failed_over
            ),
            *(MovedGroupRecord(name, True, before, "bob@host-2", at_ms) for name in self.situation.moved),
        )

    def _trouble(self, cluster: FakeCluster, said: SideSaid) -> None:
        for topic in said.lacks:
            del cluster.ids[topic]
            for place in [place for place in cluster.logs if place.topic == topic]:
                del cluster.logs[place]
        cluster.ids |= {topic: TopicId(f"id-again-{topic}") for topic in said.made_again}
        cluster.groups.rights_missing, cluster.groups.denied = list(said.rights_missing), set(said.denied)
        cluster.contents |= {
            place: [Seen(offset, text.encode(), 0) for offset, text in of]
            for place, of in said.records.items()
        }
        cluster.metadata_max = said.longest_metadata
        if said.unreachable:
            self._away(cluster, said.unreachable)

    def _away(self, cluster: FakeCluster, why: str) -> None:
        failure = UnreachableError(why)
        cluster.go_away(failure)
        if cluster is self.scene.target:  # its topics go away with it
            self.scene.journal.failure = self.scene.marks.failure = failure

    def _keep(self) -> None:
        scene, said = self.scene, self.situation
        scene.draining = _DRAINS[said.drain] if said.drain else None
        scene.journal = ListeningJournal(heard=self._hear)
        if said.journal:
            scene.journal.failure = UnreachableError(said.journal)
        if said.operator:
            scene.lock.failure = OwnedElsewhereError(
                f"another operation on flow east->west is running: {said.operator}; this command wrote nothing"
            )
        alter = scene.target.groups.alter

        def heard(group: str, offsets: Mapping[TopicPartition, Commit]) -> dict[TopicPartition, Problem]:
            self._hear("while writing", group)
            return alter(group, offsets)

        scene.target.groups.alter = heard  # type: ignore[method-assign]

    def _hear(self, when: str, what: str) -> None:
        for one in self.situation.happenings:
            if (one.when, one.what, one.command) == (when, what, self.command) and one not in self.happened:
                self.happened.append(one)
                self._happen(one)

    def _happen(self, one: Happening) -> None:
        ways: dict[str, Callable[[], None]] = {
            "killed": lambda: _throw(KilledError()),
            "interrupted": lambda: _throw(KeyboardInterrupt()),
            "unreachable": lambda: self._leave(one.how),
            "answers_again": lambda: self._back(self.sides[one.how]),
            "commits": lambda: self._each(one, self._commits),
            "joins": lambda: self._each(one, self._joins),
            "granted": lambda: self._grant(self.sides[one.how]),
            "grows": lambda: self._grow(one.how),
        }
        if one.kind not in ways:
            raise ScenarioError(f"nobody knows how {one.kind} happens")
        ways[one.kind]()

    def _leave(self, why: Mapping[str, str]) -> None:
        for side, sentence in why.items():
            self._away(self.sides[side], sentence)

    def _grow(self, ends: Mapping[str, int]) -> None:
        for at, end in ends.items():
            self.scene.source.logs[place_of(at)] = Bounds(0, end)

    def _each(self, one: Happening, do: Callable[[FakeCluster, str, object], object]) -> None:
        said = Table(one.kind, one.how)
        for side in SIDES:
            for group, of in said.take(side, {}).items():
                do(self.sides[side], group, of)
        said.close()

    @staticmethod
    def _commits(cluster: FakeCluster, group: str, of: object) -> None:
        assert isinstance(of, dict)
        cluster.groups.committed.setdefault(group, {}).update(commits_of(of))

    @staticmethod
    def _joins(cluster: FakeCluster, group: str, of: object) -> None:
        cluster.groups.members[group] = (_member(str(of)),)

    @staticmethod
    def _grant(cluster: FakeCluster) -> None:
        cluster.groups.rights_missing, cluster.groups.denied = [], set()

    def _back(self, cluster: FakeCluster) -> None:
        cluster.failure = cluster.groups.failure = None
        self.scene.journal.failure = self.scene.marks.failure = None


def _throw(error: BaseException) -> None:
    raise error


def _member(client_id: str) -> Member:
    return Member(client_id, "/10.0.0.7")
