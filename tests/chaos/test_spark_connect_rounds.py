"""Rounds as Spark Connect can run them: data frames only. A session of our own stands in: both speak one API."""

import asyncio
import os
import sys

import pytest
from pyspark.sql import SparkSession

from kit.bench import Bench
from kit.load import Load, produce
from kit.mirror_flow import Owner
from mmtool.lab.topics import create_topic, end_offsets
from mmtool.replication.driver.round import plan_round
from mmtool.replication.spark.rounds import ConnectRounds

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

_RECORDS = 1000


@pytest.fixture
def session(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    yield session
    session.stop()


def test_a_round_over_data_frames_mirrors_and_reports_every_partition(fleet, tmp_path, session):
    topic = f"connect-{os.getpid()}"
    create_topic(fleet["source"].bootstrap, topic, 2)
    produce(fleet["source"].bootstrap, Load(topic, _RECORDS, 2, 200))
    bench = Bench(fleet, tmp_path)

    async def scene():
        owner = await Owner.take(bench.flow(bench.properties(topic)))
        tasks = plan_round([owner.run], 1, 1, 5.0)
        rows = await asyncio.to_thread(ConnectRounds(session).run, tasks)
        owner.run.fold(rows, 5.0)
        await owner.close()
        return rows

    rows = asyncio.run(scene())
    assert sorted((row.topic, row.partition, row.tally.records > 0) for row in rows) == [
        (topic, p, True) for p in (0, 1)
    ]
    assert sum(end_offsets(fleet["target"].bootstrap, f"source.{topic}").values()) == _RECORDS
