"""Spark Connect needs more of pyspark than plain rounds do."""

from importlib.util import find_spec

import pytest

from mmtool.errors import UsageError
from mmtool.replication.pump.report import ReportRow
from mmtool.replication.spark import connect_rounds
from mmtool.replication.spark.rounds import open_rounds


def test_spark_connect_without_its_packages_says_what_to_install(monkeypatch):
    monkeypatch.setattr(
        connect_rounds, "find_spec", lambda name: None if name in {"grpc", "pandas"} else find_spec(name)
    )
    with pytest.raises(UsageError) as caught:
        open_rounds("sc://127.0.0.1:15002", {})
    assert str(caught.value) == (
        "mmtool.spark.master = sc://127.0.0.1:15002: Spark Connect needs grpc, pandas, which this host lacks"
    )
    assert caught.value.remedy == (
        "install mmtool with its extra `connect`: `pipx install --force '.[connect]'` in the clone, or"
        " `pip install 'mmtool[connect]'` in the environment that has mmtool"
    )


def test_a_report_crosses_spark_connect_as_it_is():
    about = ("flow", 1, "id", "orders", 2, "running", "", False, 7, 0, 5, 3, b"block")
    row = ReportRow(*about, 10, 1000, 0, 0, 0, 0, 0, [1, *[0] * 12], 40, "")
    batch = connect_rounds._report([row, row._replace(latency=())])
    assert batch.schema.names == list(ReportRow._fields)
    first, second = (ReportRow(**one) for one in batch.to_pylist())
    assert first == row
    assert second.tally.latency == ()
