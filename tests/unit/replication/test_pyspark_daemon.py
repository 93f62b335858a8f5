"""The process that Python workers are forked from."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from mmtool.replication.pyspark.daemon import zips_last

_LOADED = """
import json, os, sys
from mmtool.replication.pyspark.daemon import load
load()
modules = ["pyspark.worker", "mmtool.replication.pump.pump", "confluent_kafka", "pandas", "pyarrow"]
print(json.dumps([len(os.listdir("/proc/self/task")), [name for name in modules if name in sys.modules]]))
"""


def test_what_spark_has_zipped_is_looked_for_after_what_is_installed():
    spark = ["/spark/python/lib/pyspark.zip", "/spark/python/lib/py4j-0.10.9.9-src.zip"]
    rest = ["/usr/lib/python311.zip", "/usr/lib/python3.11", "/venv/site-packages", "/a/pyspark.zip.d"]
    assert zips_last([*spark, *rest]) == [*rest, *spark]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the threads of a process in /proc")
def test_it_loads_the_pump_and_starts_no_thread_that_a_fork_would_lose():
    ran = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True)
    threads, loaded = json.loads(ran.stdout)
    assert (threads, {"pandas", "pyarrow"} & set(loaded)) == (1, set())
    assert {"pyspark.worker", "mmtool.replication.pump.pump"} <= set(loaded)
