"""``mmtool status`` on real brokers: never run, running, ended, killed, and gated."""

import os
import time

import pytest

from kit.lab_admin import alter_topic
from kit.load import Load, produce
from kit.lookups import commit
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


def test_timestamps_ahead_of_the_clock_do_not_hide_a_lag(bench):
    """Devices with a wrong clock, which brokers accept: no figure takes the lag for 0, and no gate opens."""
    topic, ahead = f"ahead-{os.getpid()}", {"first_timestamp_ms": int(time.time() * 1000) + 1_800_000}
    source, group = bench.fleet["source"].bootstrap, f"ahead-app-{os.getpid()}"
    create_topic(source, topic, 1, 1)
    produce(source, Load(topic, 1000, 1, 100, **ahead))
    commit(source, group, topic, 900)
    properties = bench.properties(topic, **{"source->target.groups": group})
    answer = bench.catch_up(properties)
    assert answer.code == 0, answer
    (caught_up,) = bench.ask(properties, "status").rows
    assert (caught_up["lag_records"], caught_up["lag_seconds"]) == (0, 0.0)
    produce(source, Load(topic, 1000, 1, 100, **ahead))
    time.sleep(1.5)
    behind = bench.ask(properties, "status", "--max-lag-seconds", "1")
    (row,) = behind.rows
    assert (behind.code, row["lag_records"]) == (4, 1000)
    assert 1.5 <= row["lag_seconds"] < PATIENCE_SECONDS
    (row,) = bench.ask(properties, "status", "-g", group).rows
    assert (row["lag_records"], row["lag_seconds"], row["rpo_records"]) == (1100, None, 1000)
    assert 1.5 <= row["rpo_seconds"] < PATIENCE_SECONDS
    alter_topic(source, topic, retention_ms="2000")
    assert (
        "at any moment the source may delete records that are not mirrored"
        in bench.ask(properties, "status").rows[0]["reason"]
    )
