"""Owners that died on a compacted topic: what cleaners have taken since, from either log, holds nobody up."""

import asyncio
import time

import pytest

from kit.batches import PlainRecord, batch_of
from kit.log_cleaner import CompactedTopic, compact
from kit.mirror_flow import Owner, flow_of
from kit.wire import Wire, on_loop
from mmtool.kafka.batches import decode
from mmtool.kafka.wire.codes import Code

FROM, TO = "target", "source"
BOOKED, UNBOOKED, UNSEEN = 2, 4, 3


async def died(fleet, settings, topic):
    """Some waves are mirrored and booked, some appended and never booked, some the owner has not lived to see."""
    upstream = Wire(settings.source, fleet[FROM].bootstrap)
    write = asyncio.to_thread
    await write(topic.write, fleet[FROM].bootstrap, BOOKED)
    owner = await Owner.take(settings)
    await owner.catch_up()
    await write(topic.write, fleet[FROM].bootstrap, UNBOOKED)
    target, sequence = await owner.target_log(topic.name), owner.block(topic.name).runs.records
    frontier = owner.block(topic.name).tail.upstream_frontier
    for view in await (await upstream.log(topic.name)).batches():
        if view.header.base_offset >= frontier:
            records = [PlainRecord(n, r.timestamp, r.key, r.value) for n, r in enumerate(decode(view))]
            twin = batch_of(records, codec="lz4", producer=(*owner.signature(topic.name), sequence))
            assert (await target.produce(twin.write())).error_code == Code.NONE
            sequence += len(records)
    await owner.kill()
    await write(topic.write, fleet[FROM].bootstrap, UNSEEN)
    return upstream


def told(record):
    return record.timestamp, record.key, record.value


@pytest.mark.parametrize(
    "cleaned",
    [
        pytest.param((FROM,), id="source", marks=pytest.mark.chaos),
        pytest.param((TO,), id="target", marks=pytest.mark.chaos),
        pytest.param((FROM, TO), id="both"),
    ],
)
@on_loop
async def test_an_owner_that_died_is_followed_although_its_last_records_were_compacted(
    fleet, tmp_path, topic_name, cleaned, measured
):
    topic = CompactedTopic(topic_name("compacted"), partitions=1, keys=60)
    topic.create(fleet[FROM].bootstrap)
    settings = flow_of(fleet, tmp_path, FROM, TO, topic.name)
    mirrored = settings.remote_topic(topic.name)
    upstream = await died(fleet, settings, topic)
    for side in cleaned:
        await asyncio.to_thread(compact, fleet[side].bootstrap, {FROM: topic.name, TO: mirrored}[side])
    began = time.monotonic()
    owner = await Owner.take(settings)
    assert owner.halted(topic.name) == ""
    await owner.catch_up()
    measured(
        f"{' and '.join(cleaned)} compacted: even {time.monotonic() - began:.1f} s after the next owner began"
    )
    here = {r.offset: r for r in await (await upstream.log(topic.name)).records()}
    there = {r.offset: r for r in await (await owner.target_log(topic.name)).records()}
    runs = owner.runs(topic.name)
    await owner.close()
    await upstream.close()
    came = [told(record) for record in there.values()]
    assert len(came) == len(set(came)), "none twice"
    assert [when for when, *_ in came] == sorted(when for when, *_ in came), "in order"
    assert {r.key: r.value for r in there.values()} == {r.key: r.value for r in here.values()}
    pairs = [(here.get(up + i), there.get(down + i)) for up, down, count in runs for i in range(count)]
    assert [(a, b) for a, b in pairs if a and b and told(a) != told(b)] == []
    assert {r.offset for r in here.values()} >= {a.offset for a, b in pairs if a and b} != set()
