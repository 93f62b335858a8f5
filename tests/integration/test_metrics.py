"""Prometheus metrics of flows on real brokers: running, at rest, and with a cluster away."""

import os
import re
import signal
import socket
import time

import pytest

from kit.lab_admin import delete_topic
from kit.load import Load, produce
from kit.lookups import commit
from kit.processes import MmtoolProcess, run_mmtool
from kit.scrape import fetch, scrape, values
from mmtool.lab.ports import patience, wait_until
from mmtool.lab.topics import create_topic

pytestmark = pytest.mark.kafka

PATIENCE_SECONDS = 60
RECORDS = 3000


def url_of(process):
    process.wait_line("metrics on http", PATIENCE_SECONDS)
    return re.search(r"metrics on (\S+)", process.stderr)[1]


def ups(url):
    return {alias: up for (alias,), up in values(scrape(url), "mmtool_cluster_up", "cluster").items()}


def states(url, topic):
    found = values(scrape(url), "mmtool_partition_state", "partition", "state", topic=topic)
    return {state for _, state in found}


@pytest.fixture(scope="module")
def bench(own_bench):
    """Other files write positions with clocks of their own."""
    return own_bench


@pytest.fixture
def exporter(bench):
    """``exporter(properties, ...)`` is a running ``mmtool metrics`` on a port of its own."""
    started = []

    def start(properties, *options):
        folder = bench.directory / f"metrics-{len(started)}-{os.getpid()}-{time.monotonic_ns()}"
        process = MmtoolProcess(folder, "metrics", "-c", str(properties), "--port", "0", *options)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill_all()


def assert_tells_of_all(url, topic, owner_pid):
    """Every family of a flow whose topic is mirrored to its end."""
    series = scrape(url)
    flow = {"source": "source", "target": "target"}
    assert sum(values(series, "mmtool_records_total", "partition", topic=topic).values()) == RECORDS
    assert set(values(series, "mmtool_lag_records", "partition", **flow, topic=topic).values()) == {0}
    assert set(values(series, "mmtool_lag_seconds", "partition", topic=topic).values()) == {0}
    assert list(values(series, "mmtool_owner_info", "owner", **flow)) == [
        (f"{socket.gethostname()}/{owner_pid}",)
    ]
    assert set(values(series, "mmtool_spark_slots", "kind")) == {("wanted",), ("held",)}
    (last,) = values(series, "mmtool_last_success_timestamp_seconds", "source").values()
    assert abs(time.time() - last) < 30
    assert sum(values(series, "mmtool_data_loss_records_total", "partition").values()) == 0
    assert ups(url) == {"source": 1, "target": 1}
    counted = values(series, "mmtool_replication_latency_seconds_count", "topic", topic=topic)
    assert counted == {(topic,): RECORDS}
    buckets = values(series, "mmtool_replication_latency_seconds_bucket", "le", topic=topic)
    assert (len(buckets), buckets["+Inf",]) == (13, RECORDS)


def test_a_running_flow_is_told_by_its_process_and_by_any_other_host(bench, exporter, measured):
    topic, other, group = (f"metrics-{name}-{os.getpid()}" for name in ("a", "b", "app"))
    source = bench.fleet["source"].bootstrap
    create_topic(source, topic, 2, 1)
    create_topic(source, other, 1, 1)
    produce(source, Load(topic, RECORDS, 2, 100))
    commit(source, group, topic, 5)
    properties = bench.properties(f"metrics-.*-{os.getpid()}")
    alone = exporter(properties)
    elsewhere = url_of(alone)
    with bench.start(properties, "--metrics-port", "0") as process:
        here = url_of(process)
        assert fetch(here, "/readyz").status == 503
        wait_until(lambda: fetch(here, "/readyz").status == 200, "the owner to be ready", PATIENCE_SECONDS)
        wait_until(lambda: fetch(elsewhere, "/readyz").status == 200, "a first look", PATIENCE_SECONDS)
        for url in (here, elsewhere):
            wait_until(
                lambda u=url: states(u, topic) == {"caught_up"}, "it to be caught up", PATIENCE_SECONDS
            )
            assert_tells_of_all(url, topic, process.pid)
        measured(f"a scrape of a running flow took {fetch(here).seconds * 1000:.1f} ms")
        ready = {"source": "source", "target": "target", "group": group}
        wait_until(
            lambda: set(values(scrape(elsewhere), "mmtool_failover_ready", "group", **ready).values()) == {1},
            "the group to be ready",
            PATIENCE_SECONDS,
        )
        assert values(scrape(elsewhere), "mmtool_checkpoint_age_seconds", "group", **ready)
        delete_topic(source, other)
        wait_until(
            lambda: not states(elsewhere, other), "the series of a deleted topic to end", PATIENCE_SECONDS
        )
        answer = process.stop()
    assert (answer.code, "Traceback" in answer.stderr) == (143, False), answer.stderr
    wait_until(
        lambda: not values(scrape(elsewhere), "mmtool_owner_info", "owner"), "the owner to be gone", 60
    )
    assert fetch(elsewhere, "/readyz").status == 200
    line = ("failover", "emergency", "-c", str(properties), "-g", group, "--execute", "--yes")
    assert run_mmtool(bench.directory / group, *line, "--accept-data-loss").code == 0
    wait_until(
        lambda: (
            set(values(scrape(elsewhere), "mmtool_failover_state", "mode", "state"))
            == {("emergency", "completed")}
        ),
        "the operation to be told",
        PATIENCE_SECONDS,
    )
    assert states(elsewhere, topic) == {"failed_over"}
    began = time.monotonic()
    answer = alone.stop(signal.SIGINT)
    assert (answer.code, "Traceback" in answer.stderr) == (130, False), answer.stderr
    assert time.monotonic() - began < patience(5)
