"""A scenario's situation on clusters in memory, and what happens there while its commands run."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit.fences import SUPER_USER
from kit.maps import position_of
from kit.one_name import OneName
from kit.operations import FakeJournal, KilledError
from kit.scenarios import ScenarioError, SceneState, commits_of, place_of, rule_of
from kit.scene import Scene
from kit.tail_files import exported_records
from kit.there_and_back import ThereAndBack
from mmtool.errors import GateError, OwnedElsewhereError, RefusedError, UnreachableError
from mmtool.failover.operation.records import recorded
from mmtool.kafka.ports import Bounds
from mmtool.plan.groups.facts import Member
from mmtool.plan.records.documents import CommitRatesRecord, PauseRecord, State
from mmtool.plan.records.journal import EntryKind, JournalEntry
from mmtool.plan.records.marks import FailedOverRecord, MovedGroupRecord
from mmtool.translation.lockstep import Seen
from mmtool.translation.types import UNKNOWN, ClusterId, TopicId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kit.clusters import FakeCluster
    from kit.fences import FakeFences
    from kit.scenarios import GroupSaid, Happening, PartitionSaid, SideSaid, Situation
    from mmtool.errors import MmtoolError
    from mmtool.kafka.ports import Problem
    from mmtool.plan.groups.facts import Commit, GroupKind
    from mmtool.translation.types import TopicPartition

_OLDER = Path(__file__).parents[1] / "scenarios" / "failover" / "older_replays"
_SCENES: dict[str, type[Scene]] = {"": Scene, "prefixed": ThereAndBack, "identical": OneName}
_DRAINS: dict[str, MmtoolError | Callable[[float | None], MmtoolError]] = {
    "late": lambda seconds: GateError(
        f"flow east->west did not mirror the remaining records within {seconds and round(seconds)} s",
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

    def append(self, entries: Sequence[JournalEntry]) -> None:
        super().append(entries)
        for entry in entries:
            when = {"running": "before", "done": "after"}.get(str(entry.body.get("step_state")))
            if entry.kind == EntryKind.STEP and when is not None:
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
        properties = situation.properties.replace("DIR", str(directory))
        made = cls(_SCENES[situation.home_again](directory, properties), situation)
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
            _guard(made.acls[side], situation.sides[side])
        return made

    @property
    def sides(self) -> dict[str, FakeCluster]:
        return {"source": self.scene.source, "target": self.scene.target}

    @property
    def acls(self) -> dict[str, FakeFences]:
        return {"source": self.scene.fences, "target": self.scene.acls}

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
            {side: frozenset(acls.rules or ()) for side, acls in self.acls.items()},
            tuple(
                found.record.offset
                for file in sorted(self.scene.config.parent.glob("**/mmtool-diverged-*.jsonl"))
                for found in exported_records(file)
            ),
            {topic: mark.operation_id for topic, mark in self.scene.state.view.failed_over.items()},
        )

    def check_all_happened(self) -> None:
        """Nothing that the situation tells of was waited for in vain.

        Raises:
            ScenarioError: Something was.
        """
        missed = [one for one in self.situation.happenings if one not in self.happened]
        if missed:
            raise ScenarioError(f"{missed[0].when} {missed[0].what}: it never came to that")

    def _entries(self) -> list[JournalEntry]:
        """Looked at past whatever is wrong with it."""
        return [JournalEntry.decode(value) for value in self.scene.journal.stored.values()]

    def _partition(self, said: PartitionSaid) -> None:
        scene, (topic, number) = self.scene, said.place
        scene.source.logs[said.place] = Bounds(*said.source)
        remote = type(said.place)(scene.settings.remote_topic(topic), number)
        if said.runs is not None:
            seen_ms, end = int((time.time() - said.seen_seconds_ago) * 1000), said.seen_end
            scene.mirrored(
                topic, number, said.runs, said.frontier, start=said.began, source_end=end, seen_ms=seen_ms
            )
        if said.halted or said.running:
            state = State.HALTED if said.halted else State.RUNNING
            stored = position_of(said.place, scene.source.ids[topic], said.frontier, said.seen_end, state)
            stored = replace(stored, target_topic=remote.topic)
            scene.state.view.apply(stored.key, stored.encode(), 0)
        if said.mm2_syncs:
            scene.mirrored_by_mm2(topic, number, said.target_end or 0, *said.mm2_syncs)
        if said.mm2_copied is not None:
            seen = [n for n in range(*said.source) if n not in said.deleted]
            scene.holds(scene.source, topic, [(n, str(n)) for n in seen])
            self._copy(said, said.mm2_copied)
            scene.copying = [partial(self._copy, said, until) for until in said.mm2_goes_on]
        stands = scene.target.logs[remote]
        end = stands.log_end if said.target_end is None else said.target_end
        scene.target.logs[remote] = Bounds(said.target_start, end)

    def _copy(self, said: PartitionSaid, until: int) -> None:
        topic, number = said.place
        syncs = [(n, n) for n in range(0, until, 100)]
        self.scene.mirrored_by_mm2(topic, number, until, *syncs)
        remote = self.scene.settings.remote_topic(topic)
        self.scene.holds(self.scene.target, remote, [(n, str(n)) for n in range(until)])

    def _group(self, said: GroupSaid) -> None:
        for side, cluster in self.sides.items():
            if said.commits[side]:
                cluster.groups.committed.setdefault(said.name, {}).update(said.commits[side])
            if said.members[side]:
                cluster.groups.members[said.name] = tuple(map(_member, said.members[side]))
        at_ms = int((time.time() - said.checkpoint_age_seconds) * 1000)
        for place, pair in said.checkpoints.items():
            self.scene.told_of(
                said.name, place, pair, at_ms=at_ms, by_mm2=said.by_mm2, metadata=said.metadata
            )
        if said.rates:
            by_topic: dict[str, dict[str, int]] = {}
            for (topic, number), rate in said.rates.items():
                by_topic.setdefault(topic, {})[str(number)] = rate * 1000
            rates = CommitRatesRecord(said.name, by_topic)
            self.scene.state.view.apply(rates.key, rates.encode(), 0)
        if said.streams:
            self.scene.runs_streams(said.name)

    def _marks(self) -> None:
        at_ms, before = int(time.time() * 1000), "20260101T000000Z-abcdef"
        paused = {topic: self.scene.source.ids[topic] for topic in self.situation.paused}
        self.scene.state.marked(
            *(
                FailedOverRecord(name, True, before, "bob@host-2", at_ms)
                for name in self.situation.failed_over
            ),
            *(MovedGroupRecord(name, True, before, "bob@host-2", at_ms) for name in self.situation.moved),
            *(
                PauseRecord(source_id, topic, paused=True, by="bob@host-2", since_ms=0, reason="")
                for topic, source_id in paused.items()
            ),
        )

    def _trouble(self, cluster: FakeCluster, said: SideSaid) -> None:
        for topic in said.lacks:
            del cluster.ids[topic]
            for place in [place for place in cluster.logs if place.topic == topic]:
                del cluster.logs[place]
        _make_again(cluster, said.made_again)
        cluster.groups.rights_missing, cluster.groups.denied = list(said.rights_missing), set(said.denied)
        cluster.contents |= {
            place: [Seen(offset, text.encode(), 0) for offset, text in of]
            for place, of in said.records.items()
        }
        cluster.metadata_max = said.longest_metadata
        cluster.groups.hidden = {group: UnreachableError(why) for group, why in said.hides.items()}
        cluster.groups.others = dict(said.others)
        cluster.unanswered = {place: UnreachableError(f"{place} has no leader") for place in said.leaderless}
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

        def heard(
            group: str, offsets: Mapping[TopicPartition, Commit], kind: GroupKind | None = None
        ) -> dict[TopicPartition, Problem]:
            self._hear("while writing", group)
            return alter(group, offsets, kind)

        scene.target.groups.alter = heard  # type: ignore[method-assign]

    def _hear(self, when: str, what: str) -> None:
        for one in self.situation.happenings:
            if (one.when, one.what, one.command) == (when, what, self.command) and one not in self.happened:
                self.happened.append(one)
                self._happen(one)

    def _happen(self, one: Happening) -> None:
        if one.kind in _ON_SIDES:
            for side, how in one.how.items():
                _ON_SIDES[one.kind](self.sides[side], how)
            return
        ways: dict[str, Callable[[], None]] = {
            "killed": lambda: _throw(KilledError()),
            "interrupted": lambda: _throw(KeyboardInterrupt()),
            "unreachable": lambda: self._leave(one.how),
            "answers_again": lambda: self._back(self.sides[one.how]),
            "granted": lambda: self._repair(self.sides[one.how]),
            "grows": lambda: self._grow(one.how),
            "produces": lambda: self._produce(one.how),
            "allows": lambda: self._allow(one.how),
            "properties": lambda: self.scene.configure(one.how),
            "journal_has": lambda: self._remember(one.how),
            "journal_fails": lambda: self._silence(one.how),
            "marks_fail": lambda: setattr(self.scene.marks, "failure", UnreachableError(one.how)),
        }
        if one.kind not in ways:
            raise ScenarioError(f"nobody knows how {one.kind} happens")
        ways[one.kind]()

    def _leave(self, why: Mapping[str, str]) -> None:
        for side, sentence in why.items():
            self._away(self.sides[side], sentence)

    def _grow(self, ends: Mapping[str, int]) -> None:
        """A partition that is not there yet is added, as the mirror does on the target."""
        for at, end in ends.items():
            place = place_of(at)
            remote = place._replace(topic=self.scene.settings.remote_topic(place.topic))
            self.scene.target.logs.setdefault(remote, Bounds(0, 0))
            self.scene.source.logs[place] = Bounds(0, end)

    def _produce(self, counts: Mapping[str, int]) -> None:
        """By a super user, whom no rule holds."""
        for at, count in counts.items():
            assert self.scene.fences.produce(SUPER_USER, place_of(at), 7, count) == ""

    def _allow(self, rules: Sequence[str]) -> None:
        assert self.scene.fences.rules is not None
        self.scene.fences.rules.update(map(rule_of, rules))

    def _remember(self, name: str) -> None:
        """The journal has the operation of an older mmtool, whose bytes are in a file of this name."""
        for line in (_OLDER / f"{name}.jsonl").read_bytes().splitlines():
            self.scene.journal.stored[JournalEntry.decode(line).key] = line

    def _silence(self, why: str) -> None:
        self.scene.journal.failure = self.scene.marks.failure = UnreachableError(why)

    def _repair(self, cluster: FakeCluster) -> None:
        """Whatever stood in a failover's way is gone."""
        cluster.groups.rights_missing, cluster.groups.denied = [], set()
        for acls in self.acls.values():
            acls.undeletable = set()
        self.scene.draining = self.scene.lock.failure = None

    def _back(self, cluster: FakeCluster) -> None:
        cluster.failure = cluster.groups.failure = None
        self.scene.journal.failure = self.scene.marks.failure = None


def _commit(cluster: FakeCluster, commits: Mapping[str, Any]) -> None:
    for group, of in commits.items():
        cluster.groups.committed.setdefault(group, {}).update(commits_of(of))


def _make_again(cluster: FakeCluster, topics: Sequence[str]) -> None:
    cluster.ids |= {topic: TopicId(f"id-again-{topic}") for topic in topics}


_ON_SIDES: dict[str, Callable[[FakeCluster, Any], None]] = {
    "commits": _commit,
    "joins": lambda cluster, who: cluster.groups.members.update(
        {group: (_member(client_id),) for group, client_id in who.items()}
    ),
    "rights_missing": lambda cluster, names: setattr(cluster.groups, "rights_missing", names),
    "denies": lambda cluster, places: setattr(cluster.groups, "denied", set(map(place_of, places))),
    "made_again": _make_again,
    "is_cluster": lambda cluster, name: setattr(cluster, "cluster_id", ClusterId(name)),
}
"""What happens to one cluster, or to both."""


def _guard(acls: FakeFences, said: SideSaid) -> None:
    acls.rules = None if said.acls == "absent" else set(said.rules)
    acls.undeletable = set(said.stuck)
    acls.may_alter = said.acls != "read_only"
    acls.allows_unruled = UNKNOWN if said.acls == "first_locks_out" else False


def _throw(error: BaseException) -> None:
    raise error


def _member(client_id: str) -> Member:
    return Member(client_id, "/10.0.0.7")
