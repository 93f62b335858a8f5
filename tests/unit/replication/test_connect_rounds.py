"""Spark Connect needs more of pyspark than plain rounds do."""

from importlib.util import find_spec

import pytest

from mmtool.errors import UsageError
from mmtool.replication import connect_rounds
from mmtool.replication.pump.report import ReportRow
from mmtool.replication.spark_rounds import open_rounds


def test_spark_connect_without_its_packages_says_what_to_install(monkeypatch):
    monkeypatch.setattr(
        connect_rounds, "find_spec", lambda name: None if name in {"grpc", "pandas"} else find_spec(name)
    )
    with pytest.raises(UsageError) as caught:
        open_rounds("sc://127.0.0.1:15002", {})
    assert str(caught.value) == (
        "mmtool.spark.master = sc://127.0.0.1:15002: Spark Connect needs grpc, pandas, not installed here"
    )
    assert caught.value.remedy == "pip install 'mmtool[connect]'"


def test_spark_has_a_column_for_each_field_of_a_report():
    columns = [column.split()[0] for column in connect_rounds._SCHEMA.split(",")]
    assert columns == list(ReportRow._fields)
