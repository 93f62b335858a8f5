"""A host whose clock is a day ahead: nothing is decided by it, and brokers take what it writes."""

import pytest

from kit.exactness import wrong_translations
from kit.load import Load, produce
from mmtool.lab.topics import create_topic

pytestmark = pytest.mark.kafka

TOPIC = "skewed"
A_DAY_AHEAD = """
import time
right = time.time
time.time = lambda: right() + 86400
"""


@pytest.fixture(scope="module")
def skewed(tmp_path_factory):
    """Python's clock, of the command and of Spark's workers, is a day ahead; the JVM's and the brokers' are right."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(A_DAY_AHEAD)
    return {"PYTHONPATH": str(folder)}


@pytest.fixture(scope="module")
def mirrored(bench, skewed):
    """The properties file, and how the command on the host with the wrong clock ended."""
    create_topic(bench.fleet["source"].bootstrap, TOPIC, 3)
    produce(bench.fleet["source"].bootstrap, Load(TOPIC, 3_000, 3, 100))
    # heartbeats and syncs are MM2's records, on topics that have MM2's settings
    properties = bench.properties(TOPIC, **{"source->target.emit.heartbeats.interval.seconds": "1"})
    return properties, bench.catch_up(properties, environ=skewed)


def test_all_is_mirrored_and_every_offset_is_exact(bench, mirrored):
    properties, answer = mirrored
    assert answer.code == 0, answer.stderr
    asked, wrong = wrong_translations(
        bench.flow(properties), bench.fleet["source"], bench.fleet["target"], [TOPIC]
    )
    assert (asked > 3_000, wrong) == (True, [])


def test_what_mm2_s_topics_do_not_take_is_said_with_the_clock_as_the_reason(mirrored):
    _, answer = mirrored
    assert (
        "heartbeats: INVALID_TIMESTAMP (the clocks of this host and of the broker differ too much)"
        in answer.stderr
    )


def test_a_host_whose_clock_is_right_sees_where_it_stands(bench, mirrored):
    properties, _ = mirrored
    answer = bench.ask(properties, "status")
    rows = [row for row in answer.rows if row["topic"] == TOPIC]  # another file's heartbeats may be there
    assert [(row["lag_records"], row["state"]) for row in rows] == [(0, "idle")] * 3
