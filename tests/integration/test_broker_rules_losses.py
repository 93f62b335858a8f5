"""Records that cannot be mirrored, on real brokers: located, said, and never passed over in silence.

The flow runs from ``target`` to ``source``, so that no other test's flow is taken over by accident. Beside each topic
that something happens to there is another one, which goes on.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from kit.batches import PlainRecord, batch_of
from kit.lab_admin import alter_topic, configs_of, delete_records, delete_topic
from kit.mirror_flow import Owner, flow_of
from kit.wire import NOW_MS, Wire, on_loop
from mmtool.events import is_for_people
from mmtool.kafka.state.state_log import read_control
from mmtool.kafka.wire.codes import Code
from mmtool.lab.topics import create_topic, read_topic
from mmtool.replication.pump.mirror import PartitionMirror
from mmtool.replication.topics.topic_needs import config_rules

if TYPE_CHECKING:
    from mmtool.config.settings import FlowSettings

FROM, TO = "target", "source"
HOUR_MS = 3_600_000
FOR_EVER = str((1 << 63) - 1)


@dataclass(frozen=True)
class Scene:
    """One flow, a topic that something happens to, and one that goes on."""

    settings: FlowSettings
    up: str
    down: str
    topic: str
    other: str

    def with_policy(self, **changes):
        return replace(self, settings=self.settings.model_copy(update=changes))

    @property
    def mirrored(self):
        return self.settings.remote_topic(self.topic)

    async def write(self, *records):
        """A batch of them into the topic, where there are any, and one record into the other."""
        wire = Wire(self.settings.source, self.up)
        for topic, some in ((self.topic, records), (self.other, [record(0, b"other")])):
            if not some:
                continue
            numbered = [replace(one, offset=place) for place, one in enumerate(some)]
            log = await wire.log(topic)
            assert (await log.produce(batch_of(numbered).write())).error_code == Code.NONE
        await wire.close()

    async def run(self):
        """A process that takes the flow, mirrors what it can, and ends: why the topic is halted, if it is."""
        owner = await Owner.take(self.settings)
        await owner.catch_up()
        halted = owner.run.view.refused.get(self.topic) or owner.halted(self.topic)
        assert owner.halted(self.other) == ""
        await owner.close()
        return halted

    def read(self):
        return [one.value for one in read_topic(self.down, self.mirrored)]

    def others(self):
        return len(read_topic(self.down, self.settings.remote_topic(self.other)))

    async def delete_below(self, offset):
        """DeleteRecords on the source, as retention would."""
        await asyncio.to_thread(delete_records, self.up, self.topic, offset)

    async def make_again(self):
        await asyncio.to_thread(delete_topic, self.up, self.topic)
        await asyncio.to_thread(create_topic, self.up, self.topic)


@pytest.fixture
def scene(fleet, tmp_path, topic_name):
    topic, other = topic_name("loses"), topic_name("loses-other")
    create_topic(fleet[FROM].bootstrap, topic, 1, 1, **{"message.timestamp.after.max.ms": FOR_EVER})
    create_topic(fleet[FROM].bootstrap, other)
    settings = flow_of(fleet, tmp_path, FROM, TO, f"{topic},{other}")
    up, down = fleet[FROM].bootstrap, fleet[TO].bootstrap
    return Scene(settings, up, down, topic, other)


def record(number, value=None, *, key=b"k", timestamp=NOW_MS):
    return PlainRecord(0, timestamp + number, key, b"%d" % number if value is None else value)


def records(first, stop):
    return [record(number) for number in range(first, stop)]


def values(*numbers):
    return [b"%d" % number for number in numbers]


@on_loop
async def test_a_mirror_that_began_before_there_were_records_is_told_of_the_first_ones_it_lost(scene):
    await scene.write()
    assert await scene.run() == ""
    await scene.write(*records(0, 10))
    await scene.delete_below(5)
    assert (await scene.run()).startswith("the source deleted offsets 0 to 4 before they were mirrored:")
    assert (scene.read(), scene.others()) == ([], 2)


@on_loop
async def test_a_loss_that_the_operator_accepts_is_a_gap_in_the_books(scene):
    await scene.write(*records(0, 10))
    assert await scene.run() == ""
    await scene.write(*records(10, 20))
    await scene.delete_below(15)
    accepting = scene.with_policy(on_data_loss="continue")
    assert await accepting.run() == ""
    assert scene.read() == values(*range(10), *range(15, 20))
    assert await accepting.run() == ""  # it is said as long as the flow lives, and counted once
    owner = await Owner.take(accepting.settings)
    control = read_control(scene.settings.target, owner.run.flow.identity)
    told = control.positions[owner.topic_id(scene.topic), 0]
    assert (told.gaps, told.gaps_end, told.reason) == (5, 15, "")
    assert owner.runs(scene.topic) == [(0, 0, 10), (15, 10, 5)]
    await owner.close()


@on_loop
async def test_a_source_topic_that_is_made_again_while_its_first_round_runs_is_another_one_too(scene):
    await scene.write(*records(0, 10))
    owner = await Owner.take(scene.settings)
    await scene.make_again()
    assert await owner.run.refresh()
    assert "was deleted and created again" in owner.run.view.refused[scene.topic]
    assert scene.topic not in {partition.topic for partition in owner.run.partitions()}
    await owner.kill()


@on_loop
async def test_a_source_topic_that_was_made_again_begins_anew_where_the_operator_says_so(scene):
    await scene.write(*records(0, 10))
    assert await scene.run() == ""
    await scene.make_again()
    await scene.write(*records(100, 103))
    assert await scene.with_policy(on_topic_recreated="restart").run() == ""
    assert scene.read() == values(*range(10), *range(100, 103))


@on_loop
async def test_a_record_above_the_target_s_limit_halts_at_its_offset_until_the_limit_is_raised(scene):
    """What came in one batch with it waits with it."""
    await scene.write(*records(0, 2))
    assert await scene.run() == ""
    alter_topic(scene.down, scene.mirrored, max_message_bytes="2000")
    await scene.write(record(2))
    await scene.write(record(3), record(4, b"x" * 5000), record(5))
    halted = await scene.run()
    assert ("offset 4" in halted, "2000" in halted) == (True, True), halted
    assert (scene.read(), scene.others()) == (values(0, 1, 2, 3), 3)
    alter_topic(scene.down, scene.mirrored, max_message_bytes="10000")
    assert await scene.run() == ""
    assert scene.read() == [*values(0, 1, 2, 3), b"x" * 5000, b"5"]


async def made_small(scene):
    """The same flow with dead letters, to a topic that takes 2,000 bytes, whose source has one record of 5,000."""
    await scene.write(*records(0, 2))
    assert await scene.run() == ""
    alter_topic(scene.down, scene.mirrored, max_message_bytes="2000")
    await scene.write(record(2), record(3, b"x" * 5000), record(4))
    return scene.with_policy(on_oversize="dead-letter")


def letters(scene):
    found = read_topic(scene.down, f"{scene.mirrored}.mmtool-dlq")
    return [
        (one.key, len(one.value), one.timestamp_ms, dict(one.headers)["mmtool.source.offset"])
        for one in found
    ]


@on_loop
async def test_a_dead_letter_comes_once_though_its_writer_dies_before_it_is_booked(scene, monkeypatch):
    small = await made_small(scene)

    def dies(*_):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(PartitionMirror, "posted", dies)
        owner = await Owner.take(small.settings)
        with pytest.raises(MemoryError):
            await owner.catch_up()
        await owner.kill()
    letter = [(b"k", 5000, NOW_MS + 3, b"3")]
    assert letters(small) == letter
    assert await small.run() == ""
    assert (small.read(), letters(small)) == (values(0, 1, 2, 4), letter)


@on_loop
async def test_records_that_the_target_is_going_to_refuse_for_their_time_are_told_of_before_they_are_mirrored(
    scene,
):
    limits = {
        "message.timestamp.before.max.ms": str(24 * HOUR_MS),
        "message.timestamp.after.max.ms": str(HOUR_MS),
    }
    await asyncio.to_thread(create_topic, scene.down, scene.mirrored, 1, 1, **limits)
    for number, ahead in enumerate((-48, 0, 0, 48)):
        await scene.write(record(number, timestamp=NOW_MS + ahead * HOUR_MS))
    owner = await Owner.take(scene.settings)
    said = list(filter(is_for_people, owner.run.warnings))
    await owner.close()
    assert said == [
        f"{scene.settings.name}: {scene.topic}-0 holds records {what} on: {scene.mirrored} refuses them, and"
        f" mirroring halts at this offset; raise message.timestamp.{key}.max.ms on {scene.mirrored},"
        " or set mmtool.on.timestamp.refused = raise-limit"
        for what, key in (
            ("older than 1d 0h, from offset 0", "before"),
            ("more than 1h 0m ahead of the broker's clock, from offset 3", "after"),
        )
    ]


@on_loop
async def test_where_bounds_may_be_raised_a_target_takes_every_timestamp(scene):
    """Kafka 4's own bound is an hour ahead; a record that halted its partition before goes as well."""
    narrow = {"message.timestamp.before.max.ms": str(24 * HOUR_MS)}
    await asyncio.to_thread(create_topic, scene.down, scene.mirrored, 1, 1, **narrow)
    await scene.write(record(0, timestamp=NOW_MS + 48 * HOUR_MS))
    assert (await scene.run()).startswith(
        "the target refuses the batch at source offset 0: INVALID_TIMESTAMP"
    )
    await scene.write(record(1, timestamp=NOW_MS - 48 * HOUR_MS))
    lifted = scene.with_policy(on_timestamp_refused="raise-limit")
    assert await lifted.run() == ""
    assert scene.read() == values(0, 1)
    configs = await asyncio.to_thread(configs_of, scene.down, [scene.mirrored])
    bounds = {configs[scene.mirrored][f"message.timestamp.{key}.max.ms"] for key in ("before", "after")}
    assert bounds == {FOR_EVER}
    assert not config_rules(lifted.settings).accepts("message.timestamp.after.max.ms")
