"""The UDF of the public Python API in real Spark jobs: on the tasks' side nothing is known but the broadcast map."""

import json
import os
import pickle
import subprocess
import sys

import pytest

from kit.pairs import HERE, THERE, ModelPair
from kit.runs import ModelMirror, Slot
from mmtool.translation import Bounded, Exact, OffsetMap, Reason, Refused, TopicPartition
from mmtool.translation.blocks import MirrorStart
from mmtool.translation.offset_map import MappedPartition
from mmtool.translation.translate import translate, translate_in_pair
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

pytestmark = [pytest.mark.chaos, pytest.mark.spark, pytest.mark.timeout(400)]

JOB = """
import json, pickle, sys
from pyspark.sql import SparkSession
from mmtool.translation import translate_offsets_udf

mode, path = sys.argv[1:]
builder = SparkSession.builder.remote("local[2]") if mode == "connect" else SparkSession.builder.master("local[2]")
spark = (
    builder.config("spark.ui.enabled", "false")
    .config("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    .getOrCreate()
)
with open(path + ".map", "rb") as file:
    translated = translate_offsets_udf(spark, pickle.load(file))
with open(path + ".rows") as file:
    rows = [tuple(row) for row in json.load(file)]
table = spark.createDataFrame(rows, "n int, topic string, partition int, offset bigint").repartition(3)
answers = table.withColumn("answer", translated("topic", "partition", "offset"))
found = answers.orderBy("n").select("answer.*").collect()
with open(path + ".found", "w") as file:
    json.dump({"type": answers.schema["answer"].dataType.simpleString(), "rows": [tuple(row) for row in found]}, file)
"""
NOTHING = [(None, 0, 4), ("orders", None, 4), ("orders", 0, None), ("orders", 0, -1)]


@pytest.fixture(scope="module")
def known():
    """A topic with producers on one side, which has every kind of hole, and one with producers on both."""
    slots = [Slot.RECORD, Slot.RECORD, Slot.COMPACTED, Slot.MARKER, Slot.ABORTED, Slot.RECORD] * 60
    mirror = ModelMirror(slots, MirrorStart(UpstreamOffset(0), DownstreamOffset(2**40)))
    mirror.ship(340)
    pair = ModelPair()
    for side in (HERE, THERE, HERE):
        pair.born(side, 40)
        pair.mirror(side, 30)
    pair.store(HERE, 0)
    pair.store(THERE, 0)
    return {
        TopicPartition("orders", 0): MappedPartition(
            mirror.partition_map(), mirror.target_log(), mirror.source_log()
        ),
        TopicPartition("shared", 0): MappedPartition(
            pair.map(HERE), pair.target_log(), pair.source_log(), pair.map(THERE)
        ),
    }


def expected(known, topic, partition, offset):
    if None in {topic, partition, offset} or offset < 0:
        return row_of(Refused(Reason.NO_COMMIT))
    mirror = known.get(TopicPartition(topic, partition))
    if mirror is None:
        return row_of(Refused(Reason.NOT_MIRRORED))
    bounds = {"target": mirror.target, "source": mirror.source}
    if mirror.back is None:
        return row_of(translate(mirror.map, offset, **bounds))
    return row_of(translate_in_pair(mirror.map, mirror.back, offset, **bounds))


def row_of(answer):
    match answer:
        case Exact(offset):
            return [offset, "exact", 0, None]
        case Bounded(offset, most):
            return [offset, "bounded", most, None]
        case Refused(reason):
            return [None, "refused", None, reason.value]


@pytest.mark.parametrize("mode", ["classic", "connect"])
def test_every_offset_is_translated_in_its_task_as_a_commit_is(known, mode, tmp_path):
    rows = [("orders", 0, at) for at in range(365)] + [("shared", 0, at) for at in range(130)]
    rows += [*NOTHING, ("unheard", 0, 1)]
    path = tmp_path / "job"
    path.with_suffix(".map").write_bytes(pickle.dumps(OffsetMap(known)))
    path.with_suffix(".rows").write_text(json.dumps([(n, *row) for n, row in enumerate(rows)]))
    run = [sys.executable, "-c", JOB, mode, str(path)]
    environ = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    ended = subprocess.run(run, timeout=300, env=environ, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-4_000:]
    found = json.loads(path.with_suffix(".found").read_text())
    fields = "downstream_offset:bigint,exactness:string,reread_max:bigint,reason:string"
    assert found == {"type": f"struct<{fields}>", "rows": [expected(known, *row) for row in rows]}
    assert {word for _, word, _, _ in found["rows"]} == {"exact", "bounded", "refused"}
