"""Passwords and private keys reach executors in the closure of a job, and Spark puts it into no file."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

JOB = """
import sys
from mmtool.replication.spark.rounds import local_master, open_rounds
rounds = open_rounds(local_master(1), {"spark.local.dir": sys.argv[1]})
key = "secret-" + "key-" * 500_000
job = rounds._context.parallelize(range(1), 1).mapPartitions(lambda _: [len(key)])
print(job.collect())
rounds._context.parallelize(range(1), 1).count()
from pathlib import Path
files = [path for path in Path(sys.argv[1]).rglob("*") if path.is_file()]
print([path.name for path in files if b"secret-key-" in path.read_bytes()])
rounds.stop()
"""


def test_a_closure_of_megabytes_is_in_no_file_of_sparks(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", JOB, str(tmp_path)], check=False, capture_output=True, text=True
    )
    assert ran.stdout.splitlines() == ["[2000007]", "[]"], ran.stderr
