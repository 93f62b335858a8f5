"""``mmtool status`` on real brokers: never run, running, ended, killed, and gated."""

from __future__ import annotations

import os
import re
import signal
import time

import pytest

from kit.lab_admin import alter_topic, delete_records
from kit.lookups import groups_of
from kit.processes import MmtoolProcess, run_mmtool
from mmtool.lab.load import Load, produce
from mmtool.lab.ports import patience, wait_until
from mmtool.lab.topics import create_topic
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

pytestmark = pytest.mark.kafka

PATIENCE_SECONDS = 60
SESSION_SECONDS = 10
PARTITIONS = 3
"""Of the first topic; the later one has one."""


@pytest.fixture(scope="module")
def look(bench):
    """``look(properties, ...)`` runs ``mmtool status -o json``."""
    folders = iter(range(1000))

    def run(properties, *options, output="json"):
        folder = bench.directory / f"status-{next(folders)}"
        return run_mmtool(folder, "status", "-c", str(properties), "-o", output, *options)

    return run


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


def test_status_tells_a_flow_s_life_from_kafka_alone(bench, look, measured):
    """Running; ended cleanly; behind; started again and killed. Any host could ask."""
    stem = f"status-{os.getpid()}"
    source = bench.fleet["source"].bootstrap
    create_topic(source, f"{stem}-a", PARTITIONS, 1)
    produce(source, Load(f"{stem}-a", 3000, PARTITIONS, 100))
    properties = bench.properties(f"{stem}-.*")

    with bench.start(properties, "-o", "json") as process:
        process.wait_line("caught_up", PATIENCE_SECONDS)
        wait_until(
            lambda: look(properties, "--max-lag-seconds", "5").code == 0, "the gate to open", PATIENCE_SECONDS
        )
        running = look(properties)
        assert set(states(running).values()) == {"caught_up"}
        assert {row["owner_pid"] for row in running.rows} == {process.pid}
        own = process.stop()
    assert shared(running.rows) == shared(own.rows)

    ended = look(properties, "--max-lag-seconds", "0")
    measured(f"status of a flow at rest took {ended.seconds:.1f} s")
    assert (ended.code, set(states(ended).values())) == (0, {"idle"})
    assert shared(ended.rows) == shared(own.rows)
    assert {(row["lag_records"], row["lag_seconds"], row["owner_pid"]) for row in ended.rows} == {
        (0, 0.0, None)
    }

    produce(source, Load(f"{stem}-a", 300, PARTITIONS, 100))
    create_topic(source, f"{stem}-b", 1, 1)
    time.sleep(1.5)
    behind = look(properties, "--max-lag-seconds", "1")
    assert (behind.code, sum(row["lag_records"] or 0 for row in behind.rows)) == (4, 300)
    assert 1 < max(row["lag_seconds"] for row in behind.rows[:PARTITIONS]) < PATIENCE_SECONDS
    assert states(behind)[f"{stem}-b", 0] == "never_ran"

    with bench.start(properties) as process:
        process.wait_line("owner of the flow", PATIENCE_SECONDS)
        process.kill_all()
        killed_at = time.monotonic()
    wait_until(lambda: not owned(look(properties)), "the dead owner's session to end", PATIENCE_SECONDS)
    seconds = time.monotonic() - killed_at
    measured(f"status knew {seconds:.1f} s after a kill -9 that replicate is not running")
    assert seconds < patience(SESSION_SECONDS + 2 * ended.seconds + 5)
    assert states(look(properties))[f"{stem}-a", 0] == "idle"


def test_timestamps_ahead_of_the_clock_do_not_hide_a_lag(bench, look):
    """Devices with a wrong clock, which brokers accept: no figure takes the lag for 0, and no gate opens."""
    topic, ahead = f"ahead-{os.getpid()}", {"first_timestamp_ms": int(time.time() * 1000) + 1_800_000}
    source, group = bench.fleet["source"].bootstrap, f"ahead-app-{os.getpid()}"
    create_topic(source, topic, 1, 1)
    produce(source, Load(topic, 1000, 1, 100, **ahead))
    groups_of(source).alter(group, {TopicPartition(topic, 0): Commit(900)})
    properties = bench.properties(topic, **{"source->target.groups": group})
    answer = bench.catch_up(properties)
    assert answer.code == 0, answer
    (caught_up,) = look(properties).rows
    assert (caught_up["lag_records"], caught_up["lag_seconds"]) == (0, 0.0)
    produce(source, Load(topic, 1000, 1, 100, **ahead))
    time.sleep(1.5)
    behind = look(properties, "--max-lag-seconds", "1")
    (row,) = behind.rows
    assert (behind.code, row["lag_records"]) == (4, 1000)
    assert 1.5 <= row["lag_seconds"] < PATIENCE_SECONDS
    (row,) = look(properties, "-g", group).rows
    assert (row["lag_records"], row["lag_seconds"], row["rpo_records"]) == (1100, None, 1000)
    assert 1.5 <= row["rpo_seconds"] < PATIENCE_SECONDS
    alter_topic(source, topic, retention_ms="2000")
    assert (
        "at any moment the source may delete records that are not mirrored"
        in look(properties).rows[0]["reason"]
    )


def test_what_a_full_log_is_about_to_delete_unmirrored_is_told(bench, look):
    """A hundred records of two hours, of which thirty are mirrored: the next one has 24 minutes, behind ten others."""
    topic, step = f"full-{os.getpid()}", 72_000
    source, start_ms = bench.fleet["source"].bootstrap, int(time.time() * 1000) - 100 * 72_000
    create_topic(source, topic, 1, 1)
    alter_topic(source, topic, retention_bytes="1000000000", retention_ms="-1")
    produce(source, Load(topic, 30, 1, 100, first_timestamp_ms=start_ms, timestamp_step_ms=step))
    properties = bench.properties(topic)
    assert bench.catch_up(properties).code == 0
    produce(source, Load(topic, 70, 1, 100, first_timestamp_ms=start_ms + 30 * step, timestamp_step_ms=step))
    assert look(properties).rows[0]["reason"] == "replicate is not running"
    delete_records(source, topic, 10)
    (row,) = look(properties).rows
    assert re.search(
        r"from \S+ on, in (23|24) minutes, the source may delete .* \(retention.bytes\)", row["reason"]
    )


def test_a_flow_that_never_ran_is_told_as_soon_as_both_clusters_answered(bench, look, tmp_path):
    fleet = bench.fleet
    create_topic(fleet["target"].bootstrap, topic := f"back-{os.getpid()}", 1, 1)
    properties = tmp_path / "back.properties"
    settings = {"target->source.topics": topic, "heartbeats.replication.enabled": "false"}
    properties.write_text(fleet.properties([("target", "source")], **settings))
    answer = look(properties)
    assert (answer.code, [row["state"] for row in answer.rows]) == (0, ["never_ran"])
    assert look(properties, "--max-lag-seconds", "3600").code == 4

    text = properties.read_text().replace(fleet["source"].bootstrap, "127.0.0.1:1")
    properties.write_text(text)
    dead = look(properties, "--timeout", "2s")
    assert (dead.code, dead.seconds < patience(15)) == (9, True)


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_watch_ends_cleanly(bench, tmp_path, signum, code):
    create_topic(bench.fleet["source"].bootstrap, topic := f"watch-{signum}-{os.getpid()}", 1, 1)
    properties = bench.properties(topic)
    with MmtoolProcess(
        tmp_path, "status", "--watch", "--every", "0.2", "-o", "json", "-c", str(properties)
    ) as process:
        wait_until(
            lambda: (tmp_path / "stdout").read_text().count("\n") > 1, "two documents", PATIENCE_SECONDS
        )
        answer = process.stop(signum, timeout=20)
    assert (answer.code, "Traceback" in answer.stderr) == (code, False)
