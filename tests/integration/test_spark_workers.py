"""Python workers of a real Spark."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

_SEEN = """
import gc, json, os, sys
from pathlib import Path
from mmtool.replication.spark.rounds import local_master, open_rounds

def seen(_):
    import pyspark
    parent = Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\\0")
    yield pyspark.__file__, "mmtool.replication.spark.task" in sys.modules, parent[1:3], gc.get_freeze_count()

rounds = open_rounds(local_master(2), {})
jvm = Path(f"/proc/{rounds._context._gateway.proc.pid}/cmdline").read_text()
print(json.dumps(["pyspark.daemon" in jvm, rounds._context.parallelize(range(2), 2).mapPartitions(seen).collect()]))
rounds.stop()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells in /proc how a process was started")
def test_a_worker_has_the_pump_before_its_first_task_out_of_its_collectors_way_and_nothing_from_a_zip():
    ran = subprocess.run([sys.executable, "-c", _SEEN], capture_output=True, text=True, check=True)
    named_by_the_jvm, workers = json.loads(ran.stdout)
    found = [(".zip" in file, loaded, start, frozen > 50_000) for file, loaded, start, frozen in workers]
    assert found == [(False, True, ["-m", "mmtool.replication.pyspark.daemon"], True)] * 2
    assert not named_by_the_jvm  # nobody who kills what is called so kills it
