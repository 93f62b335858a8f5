"""``mmtool doctor`` on real clusters: each planted problem is found, and a healthy pair gets a clean bill."""

from __future__ import annotations

import pytest

from mmtool.lab.load import Load, produce
from mmtool.lab.topics import create_topic

pytestmark = pytest.mark.kafka


@pytest.fixture
def doctor(mmtool):
    """``doctor(path)``: its answer as JSON."""

    def run(properties, *options):
        return mmtool("doctor", "-c", properties, "-o", "json", *options)

    return run


def found(answer, check, severity="problem"):
    """The rows of a check that say so."""
    return [row for row in answer.rows if (row["check"], row["severity"]) == (check, severity)]


def wrong(answer):
    """Every row that is not ``ok``."""
    return [row for row in answer.rows if row["severity"] != "ok"]


@pytest.fixture
def written(bench, topic_name):
    """A topic of the source with records."""
    name = topic_name("checked")
    create_topic(bench.fleet["source"].bootstrap, name, 2)
    produce(bench.fleet["source"].bootstrap, Load(name, 100, 2, 200))
    return name


@pytest.mark.promise
def test_a_healthy_pair_gets_a_clean_bill_within_seconds(bench, written, doctor, measured):
    answer = doctor(bench.properties(written))
    measured(f"doctor of a healthy pair: {answer.seconds:.1f} s")
    assert (answer.code, wrong(answer)) == (0, []), answer.stdout
