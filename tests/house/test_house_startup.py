"""``mmtool --help`` is typed a hundred times a day."""

import json
import resource
import subprocess
import sys
from statistics import median

import pytest

pytestmark = pytest.mark.long

HEAVY = [
    "aiokafka",
    "confluent_kafka",
    "jinja2",
    "numpy",
    "pandas",
    "py4j",
    "pyarrow",
    "pydantic",
    "pyspark",
]
FLOOR = "import typer, rich"
LOADED = """
import atexit, json, sys
atexit.register(lambda: print("\\n" + json.dumps(sorted(sys.modules))))
from mmtool.commands.app import main
main(sys.argv[1:])
"""


def seconds(root, *arguments):
    """Processor time, which other processes on the machine do not stretch."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, cwd=root)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("line", [["--help"], ["--version"]], ids=" ".join)
def test_looking_for_help_loads_no_heavy_library(root, line):
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, *line], check=True, capture_output=True, text=True, cwd=root
    )
    loaded = set(json.loads(ran.stdout.splitlines()[-1]))
    assert loaded.intersection(HEAVY) == set()


def test_help_takes_at_most_twice_the_time_of_the_libraries_it_is_made_of(root):
    pairs = [(seconds(root, "-c", FLOOR), seconds(root, "-m", "mmtool", "--help")) for _ in range(9)]
    floor, help_ = (median(column) for column in zip(*pairs, strict=True))
    assert help_ <= 2 * floor, f"help {help_ * 1000:.0f} ms, typer and rich {floor * 1000:.0f} ms"


BEGUN = """
import json, sys
from mmtool.kafka.groups.lease import OperationLock
OperationLock.begin = lambda _: (print(json.dumps(sorted(sys.modules))), sys.exit(0))
from mmtool.commands.app import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize("mode", ["planned", "emergency"])
def test_the_operation_lock_is_asked_for_before_anything_heavy_is_loaded(root, tmp_path, mode):
    """Kafka lets nobody in for three seconds: what else takes long is done meanwhile."""
    config = tmp_path / "mm2.properties"
    config.write_text(
        "clusters = east, west\neast.bootstrap.servers = 127.0.0.1:1\nwest.bootstrap.servers = 127.0.0.1:1\n"
        "east->west.enabled = true\n"
    )
    words = ["failover", mode, "-c", str(config), "-g", "app", "--execute", "--yes"]
    ran = subprocess.run(
        [sys.executable, "-c", BEGUN, *words], check=True, capture_output=True, text=True, cwd=root
    )
    loaded = set(json.loads(ran.stdout.splitlines()[0]))
    assert loaded.intersection({"numpy", "pandas", "pyarrow", "pyspark", "aiokafka"}) == set()
