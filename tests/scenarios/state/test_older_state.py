"""What an older mmtool stored is read as it was meant: a folder for each version, with what it wrote."""

import json
from pathlib import Path

import pytest

from mmtool.kafka.state.control_view import ControlView
from mmtool.kafka.state.state_log import registration
from mmtool.plan.records.documents import State
from mmtool.translation.answers import Exact, TargetLog
from mmtool.translation.block_codec import decode_block, decode_key
from mmtool.translation.partition_map import join_blocks
from mmtool.translation.translate import translate
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

SCENARIOS = Path(__file__).parent
VERSIONS = sorted(path.parent.name for path in SCENARIOS.glob("*/records.json"))


@pytest.fixture(params=VERSIONS)
def stored(request):
    """Key and value of the records of each topic."""
    records = json.loads((SCENARIOS / request.param / "records.json").read_text())

    def of(topic):
        return [(bytes.fromhex(r["key"]), bytes.fromhex(r["value"])) for r in records if r["topic"] == topic]

    return of


def test_control_records_tell_who_ran_the_flow_and_how_it_ended(stored):
    view = ControlView()
    for offset, (key, value) in enumerate(stored("control")):
        view.apply(key, value, offset)
    assert view.flow is not None
    assert (view.flow.source_cluster_id, view.flow.target_cluster_id, view.flow.shards) == (
        "src-id",
        "tgt-id",
        32,
    )
    assert view.owner is not None
    assert (view.owner.host, view.owner.pid) == ("host-1", 4711)
    assert {shard: (s.producer_id, s.epoch, s.open) for shard, s in view.shards.items()} == {
        3: (4000, 2, True),
        4: (4001, 0, False),
    }
    (position,) = view.positions.values()
    assert (position.upstream_position, position.downstream_position, position.state) == (
        120,
        95,
        State.RUNNING,
    )


def test_registered_producer_ids_are_known(stored):
    ((_, value),) = stored("producers")
    producer = registration(value, 0)
    assert producer is not None
    assert (producer.producer_id, producer.source_cluster_id, producer.shard) == (4000, "src-id", 3)


def test_offset_runs_translate_as_they_did(stored):
    blocks = [decode_block(value) for _, value in stored("runs")]
    assert [block.key for block in blocks] == [decode_key(key) for key, _ in stored("runs")]
    known = join_blocks(blocks)
    log = TargetLog(DownstreamOffset(0), DownstreamOffset(97))
    answers = {
        commit: translate(known, UpstreamOffset(commit), target=log) for commit in (10, 30, 31, 75, 110, 120)
    }
    expected = {10: 0, 30: 20, 31: 20, 75: 60, 110: 95, 120: 95}
    assert answers == {commit: Exact(offset) for commit, offset in expected.items()}
    assert (known.tail.target_verified_end, known.about.target_topic) == (97, "A.orders")
