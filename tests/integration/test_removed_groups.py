"""Groups and commits that the source no longer has: the target knows it, and no selection moves them."""

import asyncio
import os

import pytest

from kit.black_hole import BlackHole
from kit.load import Load, produce
from kit.lookups import groups_of
from kit.mirror_flow import Owner
from mmtool.kafka.mirror_maker import Mm2Topics
from mmtool.lab.topics import create_topic
from mmtool.plan.groups.facts import Commit
from mmtool.replication.background import duties_of
from mmtool.translation.types import TopicPartition

pytestmark = [pytest.mark.kafka]

RECORDS = 3000


class Removals:
    """A flow with groups of which some lose their commits on the source."""

    def __init__(self, bench, mmtool):
        self.bench, self.mmtool = bench, mmtool
        self.topic = f"removed-{os.getpid()}"
        self.how = {"source->target.groups": f"{self.topic}-.*", "emit.checkpoints.interval.seconds": "1"}
        self.properties = bench.properties(self.topic, **self.how)
        self.places = [TopicPartition(self.topic, n) for n in range(2)]
        create_topic(self.source, self.topic, 2)
        produce(self.source, Load(self.topic, RECORDS, 2, record_bytes=100))
        self.groups = groups_of(self.source)

    @property
    def source(self):
        return self.bench.fleet["source"].bootstrap

    def name(self, word):
        return f"{self.topic}-{word}"

    def commit(self, word, *offsets):
        commits = {place: Commit(offset) for place, offset in zip(self.places, offsets, strict=False)}
        assert self.groups.alter(self.name(word), commits) == {}

    def held(self, word):
        checkpoints = Mm2Topics(self.bench.flow(self.properties)).checkpoints().checkpoints
        return {at.partition: told.pair.upstream for at, told in checkpoints.get(self.name(word), {}).items()}

    def run(self, *words, code=0, properties=None):
        flow = ("-c", properties or self.properties, "-o", "json")
        answer = self.mmtool(*words, *flow)
        assert answer.code == code, answer
        return answer

    def missing(self):
        """The groups with a partition that the audit reports as removed, with these partitions."""
        found = {}
        for row in self.run("groups", "audit").rows:
            if "no longer has this commit on source" in row["reason"]:
                assert row["verdict"] == "no_commit"
                found.setdefault(row["group"].removeprefix(f"{self.topic}-"), []).append(row["partition"])
        return found

    def without_source(self, *words, code=0):
        """A command with a source that does not answer."""
        with BlackHole() as hole:
            lost = {"source.bootstrap.servers": hole.bootstrap}
            return self.run(
                *words, properties=self.bench.properties(self.topic, **self.how, **lost), code=code
            )

    def emergency(self, *words, code=0):
        """The offsets of each group in a rehearsal, and the rehearsal."""
        answer = self.without_source("failover", "emergency", *words, code=code)
        (operation,) = answer.rows or [{"groups": []}]
        offsets = {
            group["group"].removeprefix(f"{self.topic}-"): {
                row["partition"]: row["downstream_offset"] for row in group["partitions"]
            }
            for group in operation["groups"]
        }
        return offsets, answer


async def act(flow, *acts):
    """An owner mirrors the topic and looks at the groups; after each act that follows, it looks again."""
    owner = await Owner.take(flow.bench.flow(flow.properties))
    await owner.catch_up()
    (checkpoints,) = [duty for duty in duties_of(owner.run, [], print) if duty.name == "checkpoints"]
    await checkpoints.perform()
    for one in acts:
        one()
        await checkpoints.perform()
    await owner.close()


def test_what_the_source_no_longer_has_is_known_on_the_target_and_moved_by_name_alone(bench, mmtool):
    flow = Removals(bench, mmtool)
    words = ("lives", "dead", "part", "again", "away")
    for word in words:
        flow.commit(word, 50, 60)

    def remove():
        assert [len(flow.held(word)) for word in words] == [2] * len(words)
        for word in ("dead", "again"):
            assert flow.groups.delete([flow.name(word)]) == {}
        assert flow.groups.forget(flow.name("part"), [flow.places[1]]) == {}
        flow.commit("again", 10)

    asyncio.run(act(flow, remove))
    assert flow.missing() == {"dead": [0, 1], "part": [1], "again": [1]}
    assert flow.held("again")[0] == 10

    assert flow.groups.delete([flow.name("away")]) == {}  # while no owner runs
    asyncio.run(act(flow))
    assert flow.missing()["away"] == [0, 1]

    offsets, answer = flow.emergency("--all-groups")
    assert offsets == {"lives": {0: 50, 1: 60}, "part": {0: 50, 1: None}, "again": {0: 10, 1: None}}
    assert (
        f"left out: {flow.name('away')}, {flow.name('dead')}, because source no longer has" in answer.stderr
    )
    audit = flow.without_source("groups", "audit", "--timeout", "5s")
    removed = [row["reason"] for row in audit.rows if row["verdict"] == "no_commit"]
    assert len(removed) == 6
    assert all("no longer has this commit on source, where it was last seen at 20" in why for why in removed)

    offsets, answer = flow.emergency("-g", flow.name("dead"), "-g", flow.name("lives"))
    assert offsets == {"dead": {0: 50, 1: 60}, "lives": {0: 50, 1: 60}}
    assert "is included by its name: the group no longer has this commit on source" in answer.stderr
    dead, lives = (group["partitions"][0]["knowledge_age_seconds"] for group in answer.rows[0]["groups"])
    assert dead > lives
    assert "left out" in flow.emergency("--groups", ".*-dead", code=3)[1].stderr

    flow.commit("dead", 70, 80)
    asyncio.run(act(flow))
    assert "dead" not in flow.missing()
    assert flow.emergency("--all-groups")[0]["dead"] == {0: 70, 1: 80}
