"""What `flow rebuild` stores, and where."""

import asyncio
from types import SimpleNamespace

import pytest

from kit.mirror import SOURCE_ID, TARGET_ID
from kit.paired_flow import PairedFlow
from kit.paired_logs import LogOnWire, PairedLog
from kit.pairs import HERE, THERE
from mmtool.kafka.state.state_log import RunsLog
from mmtool.plan.records.identity import FlowIdentity
from mmtool.replication.flow_state import rebuild as rebuilding
from mmtool.replication.flow_state.rebuild import Rebuilt, derive_partition
from mmtool.replication.spark.assignment import ShardAssignment
from mmtool.translation.derive import NOTHING_TOLD
from mmtool.translation.types import ClusterId

IDENTITY = FlowIdentity(ClusterId("s"), ClusterId("t"), "source", "target")


@pytest.fixture
def struck_out(monkeypatch):
    """Each record that is struck out, by its partition of the runs topic."""
    found = {}

    async def store(_cluster, _identity, shard, records):
        found.setdefault(shard.shard, []).extend(records)
        return shard

    async def append(_cluster, topic, records, *, partition):
        assert topic == IDENTITY.runs_topic
        found.setdefault(partition, []).extend(records)

    monkeypatch.setattr(rebuilding, "store_records", store)
    monkeypatch.setattr(rebuilding, "append_records", append)
    return found


@pytest.mark.parametrize("partition", [0, 6, 7, 11])
def test_a_stray_record_is_struck_out_wherever_it_lies(struck_out, partition):
    """A flow of seven shards keeps nothing in the eighth partition; who can write there can write to any."""
    shards = {n: ShardAssignment(n, 70 + n, 0, 0) for n in range(7)}
    log = RunsLog(strays={partition: [b"stray"]})
    context = SimpleNamespace(target=None, identity=IDENTITY)
    asyncio.run(rebuilding._store_all(context, Rebuilt(None, ()), log, shards, 7))
    assert struck_out == {partition: [(b"stray", None)]}


@pytest.mark.parametrize(("before", "says"), [(6, True), (0, False), (None, False)])
def test_where_the_target_lost_all_of_the_mirror_its_way_on_is_no_rebuild_and_is_said(before, says):
    """A log that was cut whole halts with a word on `flow rebuild`, which finds nothing to make a map of."""
    flow = PairedFlow(PairedLog(side=HERE), PairedLog(side=THERE))
    flow.take()
    flow.source.born(6)
    context = SimpleNamespace(
        source=LogOnWire(flow.source, "source", SOURCE_ID),
        target=LogOnWire(flow.target, "target", TARGET_ID),
        settings=SimpleNamespace(reads_committed=True),
        identity=FlowIdentity(SOURCE_ID, TARGET_ID, "east", "west"),
    )
    about = flow.newest.about
    found = asyncio.run(derive_partition(context, about, before, {flow.producer_id}, None, NOTHING_TOLD))
    assert (
        "`mmtool flow seek -c FILE -s east -t west --topic orders --to earliest --ex" in found.kept
    ) == says
    assert ("there is nothing to rebuild" in found.kept) != says
