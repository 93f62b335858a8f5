"""A real Structured Streaming query whose checkpoint has an offset log of version 2, exported for the target.

Its source is not Spark's connector for Kafka, which pyspark comes without, but tells positions in the same form.
"""

import json
import os
import subprocess
import sys
import time

import pytest

from kit.load import Load, produce
from mmtool.lab.topics import create_topic, end_offsets

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(280)]

QUERY = """
import sys, time
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

class Positions(DataSourceStreamReader):
    # tells positions as Spark's Kafka source does: topic to partition to offset
    def __init__(self, topic, end):
        self.topic, self.end = topic, end
    def initialOffset(self):
        return {self.topic: {"0": 0, "1": 0}}
    def latestOffset(self):
        return {self.topic: {"0": self.end, "1": self.end}}
    def partitions(self, start, end):
        return [InputPartition(0)]
    def read(self, partition):
        yield (1,)

class Topic(DataSource):
    @classmethod
    def name(cls):
        return "positions"
    def schema(self):
        return "id int"
    def streamReader(self, schema):
        return Positions(self.options["topic"], int(self.options["end"]))

topic, end, checkpoint = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.streaming.offsetLog.formatVersion", "2")
    .getOrCreate()
)
spark.dataSource.register(Topic)
rows = spark.readStream.format("positions").option("topic", topic).option("end", end).load()
both = rows.selectExpr("id").union(spark.readStream.format("rate").load().selectExpr("int(value) AS id"))
query = both.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
while query.isActive and query.lastProgress is None:
    time.sleep(0.2)
query.stop()
spark.stop()
sys.exit(query.lastProgress is None)
"""


def test_a_query_with_an_offset_log_of_version_2_goes_on_on_the_target_behind_its_last_batch(
    bench, mmtool, tmp_path
):
    topic = f"spark-v2-{time.monotonic_ns()}"
    source, checkpoint = bench.fleet["source"].bootstrap, tmp_path / "query"
    create_topic(source, topic, 2)
    produce(source, Load(topic, 1000, 2, record_bytes=100))
    run = [sys.executable, "-c", QUERY, topic, "350", str(checkpoint)]
    subprocess.run(run, check=True, timeout=120, env={**os.environ, "PYSPARK_PYTHON": sys.executable})
    assert (checkpoint / "offsets" / "0").read_text().startswith("v2\n")
    produce(source, Load(topic, 100, 2, record_bytes=100, first_sequence=500))
    properties = bench.properties(topic)
    assert bench.catch_up(properties).code == 0
    ended = mmtool(
        "groups", "export", "-c", properties, "--in", "spark-checkpoint", checkpoint, "--format", "spark"
    )
    assert json.loads(ended.stdout) == {f"source.{topic}": {"0": 350, "1": 350}}
    assert end_offsets(bench.fleet["target"].bootstrap, f"source.{topic}") == {0: 600, 1: 500}
