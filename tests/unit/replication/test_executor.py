"""Which worker a record of the control topic, and a line of the log, is of."""

import os
import socket

import pytest

from kit.mirror import assigned
from mmtool.plan.records.documents import PositionRecord, State, decode, encode
from mmtool.replication.control.control_follower import booked_position
from mmtool.replication.driver.round import round_ended
from mmtool.replication.pump.report import AWAY, ReportRow
from mmtool.replication.spark import log
from mmtool.replication.spark.assignment import NOTHING_YET

HOST = socket.gethostname()
LOG_URL = "http://w1:8081/logPage/?appId=app-1&executorId=7&logType=stderr"


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({}, f"{HOST}:{os.getpid()}"),
        ({"SPARK_EXECUTOR_ID": "3"}, f"{HOST}/3"),
        ({"SPARK_LOG_URL_STDERR": LOG_URL}, f"{HOST}/7"),
    ],
    ids=["local", "kubernetes", "standalone"],
)
def test_a_worker_is_named_by_its_host_and_by_spark_s_executor_where_that_is_known(
    monkeypatch, environ, name
):
    for variable in ("SPARK_EXECUTOR_ID", "SPARK_LOG_URL_STDERR"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    log._name.cache_clear()
    assert log.executor_name() == name
    log._name.cache_clear()


def test_a_position_that_an_older_mmtool_wrote_has_no_executor():
    position = booked_position(assigned(), "me")
    body = decode(position.encode())
    del body["executor"], body["round"]
    assert PositionRecord.decode(encode(body)) == position


def row(executor_, state=State.RUNNING, partition=0, told=""):
    return ReportRow(
        "f", 0, "id", "t", partition, state, "", False, 1, 1, 0, 0, b"", *NOTHING_YET, told, executor_
    )


def test_each_worker_s_part_of_a_round_is_told_and_then_the_round():
    rows = [row("h:1"), row("h:2", State.HALTED), row("h:2"), row("h:2", partition=-1, told=AWAY)]
    told = [
        (n.event, n.fields.get("executor"), n.fields["partitions"], n.fields["halted"])
        for n in round_ended(4, rows, 9.0)
    ]
    assert told == [
        ("worker_ended", "h:1", 1, 0),
        ("worker_ended", "h:2", 2, 1),
        ("round_ended", None, 3, 1),
    ]
