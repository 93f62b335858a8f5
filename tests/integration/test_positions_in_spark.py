"""Spark's own Kafka source reads from the offsets that ``translate-offsets --positions --as spark`` prints.

The source is no part of pyspark: its jars are those that an earlier ``spark-submit --packages`` has fetched; without
them the test is skipped.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kit.load import Load, Transactions, produce
from mmtool.lab.topics import create_topic, read_topic

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(280)]

JOB = """
import json, sys
from pyspark.sql import SparkSession
bootstrap, topic, offsets, jars = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.jars", jars).getOrCreate()
rows = (
    spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    .option("kafka.isolation.level", "read_committed").option("startingOffsets", offsets).load()
)
print(json.dumps([list(row) for row in rows.select("partition", "offset").collect()]))
"""


def jars():
    """Spark's Kafka source and what it needs, where Ivy has kept them."""
    known = [*Path.home().glob(".ivy2*/jars/*.jar")]
    wanted = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
    found = [next((str(one) for one in known if word in one.name), None) for word in wanted]
    if None in found:
        pytest.skip("run `spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION` once")
    return ",".join(found)


def test_sparks_kafka_source_reads_from_the_translated_positions_on(bench, mmtool, tmp_path):
    of_spark, topic = jars(), f"spark-positions-{time.monotonic_ns()}"
    source, target = (bench.fleet[side].bootstrap for side in ("source", "target"))
    create_topic(source, topic, 2)
    produce(source, Load(topic, 200, 2, 100, transactions=Transactions(topic, 10, 3)))
    properties, file = bench.properties(topic), tmp_path / "positions.csv"
    assert bench.catch_up(properties).code == 0
    read = 30
    records = read_topic(source, topic)
    first = [one for one in records if one.partition == 0][read]
    file.write_text(f"{topic},0,{first.offset}\n")  # nothing was read of partition 1
    printed = mmtool("translate-offsets", "-c", properties, "--positions", file, "--as", "spark")
    run = [sys.executable, "-c", JOB, target, f"source.{topic}", printed.stdout.strip(), of_spark]
    environ = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    ran = subprocess.run(run, check=True, capture_output=True, timeout=200, env=environ)
    unread = {one.value for one in records if one.partition == 1 or one.offset >= first.offset}
    mirror = read_topic(target, f"source.{topic}")
    expected = sorted([one.partition, one.offset] for one in mirror if one.value in unread)
    assert sorted(json.loads(ran.stdout)) == expected
