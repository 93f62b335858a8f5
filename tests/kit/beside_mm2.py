"""Flows that the real MirrorMaker 2 has run, with groups that stand at parts of them: what it left, and the truth."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from kit.batches import PlainRecord, batch_of
from kit.load import Load, Transactions, produce
from kit.log_cleaner import CompactedTopic, compact
from kit.lookups import groups_of
from kit.mm2_model import mm2_answer, mm2_store
from kit.mm2_truth import CopiedPartition, Sighted, copied_partitions, surviving_partitions
from kit.processes import Answer, run_mmtool
from kit.raw_producer import append_batches
from kit.real_mirror_maker import MirrorMaker
from mmtool.config import load_settings
from mmtool.kafka.mirror_maker import syncs_place
from mmtool.kafka.state.log_reader import read_log
from mmtool.lab.topics import create_topic, end_offsets
from mmtool.plan.groups.facts import Commit
from mmtool.translation.mm2_records import Checkpoint, OffsetSync, decode_checkpoint, decode_offset_sync
from mmtool.translation.sync_map import OffsetPair
from mmtool.translation.types import DownstreamOffset, TopicPartition, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mmtool.config import ClusterSettings, FlowSettings
    from mmtool.lab.fleet import Fleet
    from mmtool.lab.topics import Isolation

RECORDS, PARTITIONS, GROUPS = 6_000, 2, 8
_EARLY, _LATER = 6, 2  # waves of the compacted topic before MM2 starts, and while it runs
_PATIENCE_SECONDS = 240.0
_TRIES = 5  # with two lost races of ten on a machine five times as slow as usual
_SETTINGS = {
    "tasks.max": "6",  # a task's permits are for one partition, whose first record gets its sync in any case
    "heartbeats.replication.enabled": "false",
    "emit.checkpoints.interval.seconds": "1",
    "refresh.topics.interval.seconds": "2",
    "refresh.groups.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
    "source.offset.flush.interval.ms": "3000",  # each flush is a race that may lose syncs, see ForgottenError
    "target.offset.flush.interval.ms": "3000",
}


@dataclass(frozen=True)
class Variant:
    """How MM2 is to run a flow.

    Attributes:
        mark: What the names of its topics and groups begin with.
        settings: Of the flow.
        isolation: With which the source is read; other than MM2's default, it is a setting of that cluster.
    """

    mark: str
    source: str
    target: str
    settings: Mapping[str, str] = field(default_factory=dict)
    isolation: Isolation = "read_uncommitted"

    def lines(self) -> dict[str, str]:
        """Its part of a properties file."""
        own = {"topics": f"{self.mark}-.*", "groups": f"{self.mark}.*", **self.settings}
        return {
            f"{self.source}.consumer.isolation.level": self.isolation,
            **{f"{self.source}->{self.target}.{key}": value for key, value in own.items()},
        }


class ForgottenError(Exception):
    """MM2 wrote an offset sync after a later one of its partition, and its store has dropped all before it.

    `OffsetSyncWriter.firePendingOffsetSyncs` of 4.3.1 takes a sync under its lock and sends it after it has let go
    of it, from two threads. On a busy machine the two are seldom sent the other way round; what the groups have
    committed before then gets no checkpoint any more.
    """


def beside_mm2(fleet: Fleet, directory: Path, *variants: Variant, **worker: str) -> list[BesideMM2]:
    """One MM2 that has run these flows, has told of every group, and has stopped.

    With new topics again, if it forgot what it had to tell of: the tests are about what it tells.

    Raises:
        ForgottenError: It forgot each time.
    """
    for n in range(1, _TRIES):
        try:
            return _run(fleet, directory, *variants, **worker)
        except ForgottenError:
            variants = tuple(replace(variant, mark=f"{variant.mark}-{n}") for variant in variants)
            directory = directory / f"again-{n}"
            directory.mkdir()
    return _run(fleet, directory, *variants, **worker)


def _run(fleet: Fleet, directory: Path, *variants: Variant, **worker: str) -> list[BesideMM2]:
    settings = {**_SETTINGS, **worker, **{k: v for variant in variants for k, v in variant.lines().items()}}
    flows = [(variant.source, variant.target) for variant in variants]
    properties = directory / "mm2.properties"
    properties.write_text(fleet.properties(flows, **settings))
    made = [BesideMM2(fleet, properties, variant) for variant in variants]
    for flow in made:
        flow.begin()
    with MirrorMaker(properties.read_text(), directory) as mm2:
        for flow in made:
            mm2.wait_until(flow.has_begun, "records of each partition")
            flow.go_on()
        for flow in made:
            mm2.wait_until(flow.has_told_all, "checkpoints of every group", _PATIENCE_SECONDS)
        mm2.stop()
    for flow in made:
        flow.end()
    return made


class BesideMM2:
    """Three topics that MM2 has mirrored: plain, in transactions, and compacted before, meanwhile and afterwards.

    Attributes:
        groups: Each has read a part of every partition, the last one everything.
        unheard: One more, whose name has a comma.
    """

    def __init__(self, fleet: Fleet, properties: Path, variant: Variant) -> None:
        mark, sides = variant.mark, (fleet[variant.source], fleet[variant.target])
        self.properties = properties
        (self.flow,) = load_settings(properties, os.environ).select(variant.source, variant.target)
        self.source, self.target = (side.bootstrap for side in sides)
        self.plain, self.payments = f"{mark}-plain", f"{mark}-payments"
        self.profiles = CompactedTopic(f"{mark}-profiles", PARTITIONS)
        self.topics = (self.plain, self.payments, self.profiles.name)
        self.remotes = {topic: self.flow.remote_topic(topic) for topic in self.topics}
        self.groups = (*(f"{mark}-{n}" for n in range(1, GROUPS)), f'{mark} has "read" everything')
        self.unheard = f"{mark}-orders, returns"
        self._here = Sighted(sides[0], self.topics, variant.isolation)
        self._there = Sighted(sides[1], self.remotes.values())

    @property
    def places(self) -> list[TopicPartition]:
        return [TopicPartition(topic, n) for topic in self.topics for n in range(PARTITIONS)]

    def remote(self, place: TopicPartition) -> TopicPartition:
        return place._replace(topic=self.remotes[place.topic])

    # --- what happens ---------------------------------------------------------------------------------------

    def begin(self) -> None:
        """What is there before MM2."""
        for topic in (self.plain, self.payments):
            create_topic(self.source, topic, PARTITIONS)
        self.profiles.create(self.source)
        produce(self.source, Load(self.plain, RECORDS, PARTITIONS, record_bytes=100))
        transactions = Transactions(f"{self.payments}-writer", 37, 5)
        produce(
            self.source, Load(self.payments, RECORDS, PARTITIONS, record_bytes=100, transactions=transactions)
        )
        self.profiles.write(self.source, _EARLY)
        self._compact_source()

    def has_begun(self) -> bool:
        ends = [end_offsets(self.target, remote) for remote in self.remotes.values()]
        return all(len(of) == PARTITIONS and min(of.values()) > 0 for of in ends)

    def go_on(self) -> None:
        """What comes while MM2 runs: more records, some of which the cleaner takes, and the groups."""
        self.profiles.write(self.source, _LATER)
        self._compact_source()
        self.profiles.write(self.source, 1)
        self._here.look()
        self._commit()

    def has_told_all(self) -> bool:
        """Of every record, and of every group as far as that can be.

        Raises:
            ForgottenError: It cannot tell of one of the groups any more.
        """
        told = offset_syncs(self.flow)
        if any(at not in told or told[at][-1].upstream < max(self._here.now[at]) for at in self.places):
            return False
        self._refuse_what_is_forgotten(told)
        held, last = self.checkpoints(), self.groups[-1]
        if any((group, self.remote(at)) not in held for group in self.groups for at in self.places):
            return False
        newest = {at: told[at][-1].downstream for at in self.places}
        has_read_all = all(held[last, self.remote(at)].downstream >= newest[at] for at in self.places)
        return has_read_all and self._has_synced_groups(held)

    def end(self) -> None:
        """What comes when MM2 is gone: the target's cleaner."""
        mirror = self.remotes[self.profiles.name]
        self._there.look()
        compact(self.target, mirror)
        self._there.look(mirror)

    def _compact_source(self) -> None:
        self._here.look(self.profiles.name)
        compact(self.source, self.profiles.name)

    def _commit(self) -> None:
        ends, groups = self._here.ends, groups_of(self.source)
        for number, group in enumerate(self.groups, start=1):
            read = {place: Commit(self._read_by(number, place)) for place in self.places}
            assert groups.alter(group, read) == {}
        assert groups.alter(self.unheard, {place: Commit(ends[place] // 3) for place in self.places}) == {}

    def _refuse_what_is_forgotten(self, told: Mapping[TopicPartition, list[OffsetPair]]) -> None:
        for at in self.places:
            store = mm2_store(told[at])
            if mm2_answer(store, self._read_by(1, at)) is None:
                raise ForgottenError(f"{at}: its store begins at {store[-1].upstream}")

    def _read_by(self, number: int, place: TopicPartition) -> int:
        """How far the group of this number has read, counted from 1."""
        return self._here.ends[place] * number // GROUPS

    def _has_synced_groups(self, held: Mapping[tuple[str, TopicPartition], Checkpoint]) -> bool:
        told = {at: checkpoint.downstream for at, checkpoint in held.items()}
        return not self.flow.sync_group_offsets or self.committed() == told

    # --- what MM2 left --------------------------------------------------------------------------------------

    def checkpoints(self) -> dict[tuple[str, TopicPartition], Checkpoint]:
        """The last one of each of the groups and partitions, the latter by their names on the target."""
        found = {}
        for record in read_log(self.flow.target, self._checkpoints_topic):
            told = decode_checkpoint(record.key, record.value)
            if isinstance(told, Checkpoint) and told.group in {*self.groups, self.unheard}:
                found[told.group, told.topic_partition] = told
        return found

    def committed(self) -> dict[tuple[str, TopicPartition], int]:
        """What the groups have committed on the target."""
        names = (*self.groups, self.unheard)
        found = groups_of(self.target).commits(names)
        return {(name, at): commit.offset for name in names for at, commit in found[name].items()}

    @cached_property
    def syncs(self) -> dict[TopicPartition, list[OffsetPair]]:
        """Of these topics: other tests' flows may have the same topic for theirs."""
        return {at: syncs for at, syncs in offset_syncs(self.flow).items() if at in self.places}

    def spoil(self) -> dict[str, int]:
        """Writes records that MM2 cannot have written, under its own keys, into its topics; how many into which."""
        before = UpstreamOffset(5), DownstreamOffset(-1)
        cluster, syncs = syncs_place(self.flow)
        sync = OffsetSync(self.places[0], *before)
        point = Checkpoint(self.groups[0], self.remote(self.places[0]), *before, "")
        return {
            syncs: _write_nonsense(cluster, syncs, sync),
            self._checkpoints_topic: _write_nonsense(self.flow.target, self._checkpoints_topic, point),
        }

    @property
    def _checkpoints_topic(self) -> str:
        return self.flow.checkpoints_topic

    # --- the truth ------------------------------------------------------------------------------------------

    @cached_property
    def truth(self) -> dict[tuple[str, int], CopiedPartition]:
        """Every copy that MM2 made."""
        return copied_partitions(self._here, self._there, self.remotes)

    @cached_property
    def survivors(self) -> dict[tuple[str, int], CopiedPartition]:
        """What the cleaners have left of the compacted topic, on both sides."""
        name = self.profiles.name
        return surviving_partitions(self._here, self._there, {name: self.remotes[name]})

    # --- mmtool ---------------------------------------------------------------------------------------------

    def run(self, *command: str, code: int = 0) -> Answer:
        """A command for all of the groups.

        Raises:
            AssertionError: It ended with another code.
        """
        selected = [word for group in (*self.groups, self.unheard) for word in ("-g", group)]
        flow = ("-c", str(self.properties), "-s", self.flow.source.alias, "-t", self.flow.target.alias)
        answer = run_mmtool(self.properties.parent, *command, *flow, *selected)
        assert answer.code == code, answer
        return answer

    @cached_property
    def rows(self) -> list[dict[str, object]]:
        """What ``translate-offsets`` answers."""
        return self.run("translate-offsets", "-o", "json").rows


def offset_syncs(flow: FlowSettings) -> dict[TopicPartition, list[OffsetPair]]:
    """Every one that is left in MM2's topic, in its order."""
    found = defaultdict(list)
    for record in read_log(*syncs_place(flow)):
        sync = decode_offset_sync(record.key, record.value)
        if isinstance(sync, OffsetSync):
            pair = OffsetPair(sync.upstream, sync.downstream, record.timestamp_ms)
            found[sync.topic_partition].append(pair)
    return dict(found)


def _write_nonsense(cluster: ClusterSettings, topic: str, record: OffsetSync | Checkpoint) -> int:
    """A tombstone, records that are cut off, no record at all, and one of offsets that no log has."""
    key, value = record.key(), record.value()
    records = [
        (key, None),
        (key, value[:-1]),
        (key[:-1], value),
        (b"", b""),
        (b"\xff\xff", value),
        (key, value),
    ]
    now = int(time.time() * 1000)
    batch = batch_of([PlainRecord(n, now, *spoilt) for n, spoilt in enumerate(records)])
    append_batches(cluster.bootstrap_servers, topic, 0, [batch])
    return len(records)
