"""``mmtool status`` on real brokers: never run, running, ended, killed, and gated."""

from __future__ import annotations

import os
import time

import pytest

from mmtool.lab.load import Load, produce
from mmtool.lab.ports import patience, wait_until
from mmtool.lab.topics import create_topic

pytestmark = pytest.mark.kafka

PATIENCE_SECONDS = 60
SESSION_SECONDS = 10
PARTITIONS = 3
"""Of the first topic; the later one has one."""


def states(answer):
    return {(row["topic"], row["partition"]): row["state"] for row in answer.rows}


def owned(answer):
    return any(row["owner_pid"] for row in answer.rows)


def shared(rows):
    """What ``replicate`` and ``status`` both say of a partition that is at rest, whoever runs the flow."""
    keys = (
        "topic",
        "partition",
        "target_topic",
        "upstream_position",
        "downstream_position",
        "records",
        "bytes",
    )
    return [{key: row[key] for key in keys} for row in rows]


def test_status_tells_a_flow_s_life_from_kafka_alone(bench, measured):
    """Running; ended cleanly; behind; started again and killed. Any host could ask."""
    stem = f"status-{os.getpid()}"
    source = bench.fleet["source"].bootstrap
    create_topic(source, f"{stem}-a", PARTITIONS, 1)
    produce(source, Load(f"{stem}-a", 3000, PARTITIONS, 100))
    properties = bench.properties(f"{stem}-.*")

    with bench.start(properties, "-o", "json") as process:
        process.wait_line("caught_up", PATIENCE_SECONDS)
        wait_until(
            lambda: bench.ask(properties, "status", "--max-lag-seconds", "5").code == 0,
            "the gate to open",
            PATIENCE_SECONDS,
        )
        running = bench.ask(properties, "status")
        assert set(states(running).values()) == {"caught_up"}
        assert {row["owner_pid"] for row in running.rows} == {process.pid}
        own = process.stop()
    assert shared(running.rows) == shared(own.rows)

    ended = bench.ask(properties, "status", "--max-lag-seconds", "0")
    measured(f"status of a flow at rest took {ended.seconds:.1f} s")
    assert (ended.code, set(states(ended).values())) == (0, {"idle"})
    assert shared(ended.rows) == shared(own.rows)
    assert {(row["lag_records"], row["lag_seconds"], row["owner_pid"]) for row in ended.rows} == {
        (0, 0.0, None)
    }

    produce(source, Load(f"{stem}-a", 300, PARTITIONS, 100))
    create_topic(source, f"{stem}-b", 1, 1)
    time.sleep(1.5)
    behind = bench.ask(properties, "status", "--max-lag-seconds", "1")
    assert (behind.code, sum(row["lag_records"] or 0 for row in behind.rows)) == (4, 300)
    assert 1 < max(row["lag_seconds"] for row in behind.rows[:PARTITIONS]) < PATIENCE_SECONDS
    assert states(behind)[f"{stem}-b", 0] == "never_ran"

    with bench.start(properties) as process:
        process.wait_line("owner of the flow", PATIENCE_SECONDS)
        process.kill_all()
        killed_at = time.monotonic()
    wait_until(
        lambda: not owned(bench.ask(properties, "status")),
        "the dead owner's session to end",
        PATIENCE_SECONDS,
    )
    seconds = time.monotonic() - killed_at
    measured(f"status knew {seconds:.1f} s after a kill -9 that replicate is not running")
    assert seconds < patience(SESSION_SECONDS + 2 * ended.seconds + 5)
    assert states(bench.ask(properties, "status"))[f"{stem}-a", 0] == "idle"
