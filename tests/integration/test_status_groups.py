"""``mmtool status --groups``, rates and MirrorMaker 2's flows on real brokers."""

import os
import re
import time

import pytest

from kit.black_hole import BlackHole
from kit.load import Load, produce
from kit.lookups import commit
from kit.processes import error_of
from mmtool.lab.ports import patience, wait_until
from mmtool.lab.topics import create_topic, end_offsets

pytestmark = [pytest.mark.kafka]

PATIENCE_SECONDS = 60
RECORDS = 3000
LOST_SECONDS = 5
UNSEEN_SECONDS = 12
"""Longer than an end that was seen counts as the present one."""


@pytest.fixture(scope="module")
def bench(own_bench):
    """Of a flow of which mmtool has never run anything one row is expected."""
    return own_bench


@pytest.fixture(scope="module")
def look(bench):
    """``look(properties, ...)`` runs ``mmtool status -o json``."""

    def run(properties, *options, output="json"):
        return bench.ask(properties, "status", *options, output=output)

    return run


def emergency(bench, mmtool, topic, group, how):
    """What the rehearsal says of each partition, with a source that does not answer."""
    with BlackHole() as hole:
        unreachable = bench.properties(topic, **how, **{"source.bootstrap.servers": hole.bootstrap})
        ended = mmtool("failover", "emergency", "-g", group, "-c", unreachable, "-o", "json")
    assert ended.code == 0, ended
    return ended.rows[0]["groups"][0]["partitions"]


def assert_is_ready(rows, commit):
    """A group that has read one partition to its end, and has 100 records of the other one left."""
    first, second = rows
    assert [(row["lag_records"], row["rpo_records"], row["ready"], row["reason"]) for row in rows] == [
        (0, 0, True, ""),
        (100, 0, True, ""),
    ]
    assert (first["lag_seconds"], first["rpo_seconds"]) == (0.0, 0.0)
    assert 0 < second["lag_seconds"] < PATIENCE_SECONDS
    assert second["checkpoint_age_seconds"] < 10
    assert (second["committed"], second["target_committed"]) == (commit, commit)


EMERGENCY = "`mmtool failover emergency -c {} -s source -t target --all-groups`"


def assert_tells_of_the_target(look, properties, measured, what):
    answer = look(properties)
    measured(f"status with {what} took {answer.seconds:.1f} s")
    assert (answer.code, EMERGENCY.format(properties) in error_of(answer)["remedy"]) == (9, True), answer
    rows = [row for row in answer.rows if row["topic"].startswith("glance-")]
    assert [(row["state"], row["lag_records"], row["lag_seconds"]) for row in rows] == [
        ("idle", None, None)
    ] * 2
    assert all("source does not answer" in row["reason"] for row in rows)
    assert all(row["upstream_position"] > 0 for row in rows)
    assert answer.seconds < patience(LOST_SECONDS)


def assert_names_the_emergency(mmtool, properties, group, measured, what):
    answer = mmtool("failover", "planned", "-g", group, "-c", properties, "-o", "json")
    measured(f"failover planned with {what} took {answer.seconds:.1f} s")
    assert (answer.code, EMERGENCY.format(properties) in error_of(answer)["remedy"]) == (9, True), answer
    assert answer.seconds < patience(LOST_SECONDS)


def ask_without_the_source(bench, look, mmtool, measured, topic, app, how):
    """With a silent source, then with a stopped one; returns what ``status --groups`` says with the silent one."""
    properties = bench.properties(topic, **how)
    with BlackHole() as hole:
        unreachable = bench.properties(topic, **how, **{"source.bootstrap.servers": hole.bootstrap})
        dead = look(unreachable, "--groups", "--timeout", "3s")
        assert_tells_of_the_target(look, unreachable, measured, "a silent source")
        assert_names_the_emergency(mmtool, unreachable, app, measured, "a silent source")
    bench.fleet["source"].stop_broker(0)
    assert_tells_of_the_target(look, properties, measured, "a stopped source")
    assert_names_the_emergency(mmtool, properties, app, measured, "a stopped source")
    bench.fleet["source"].start_broker(0)
    return dead


def test_what_a_failover_now_would_cost_is_what_the_emergency_s_rehearsal_says(bench, look, mmtool, measured):
    topic = f"glance-{os.getpid()}"
    app, late, source = f"{topic}-app", f"{topic}-late", bench.fleet["source"].bootstrap
    how = {
        "source->target.groups": f"{topic}-.*",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
    }
    properties = bench.properties(topic, **how)
    create_topic(source, topic, 2)
    produce(source, Load(topic, RECORDS, 2, record_bytes=100))
    ends = end_offsets(source, topic)
    commit(source, app, topic, ends[0], ends[1] - 100)

    def has_rates(answer):
        return all(row["records_per_second"] is not None for row in answer.rows)

    def known():
        rows = look(properties, "--groups").rows
        return all(row["ready"] and row["target_committed"] == row["committed"] for row in rows)

    with bench.start(properties) as process:
        process.wait_line("caught_up", PATIENCE_SECONDS)
        wait_until(known, "the checkpoints of the group", PATIENCE_SECONDS)
        running = look(properties, "-g", app)
        wait_until(lambda: has_rates(look(properties)), "a second word of each pump", PATIENCE_SECONDS)
        flow = look(properties)
        process.stop()
    measured(f"status --groups of a running flow took {running.seconds:.1f} s")
    assert_is_ready(running.rows, ends[1] - 100)
    assert {row["state"] for row in flow.rows} == {"caught_up"}
    assert all(row["state_seconds"] > 0 for row in flow.rows)

    produce(source, Load(topic, 300, 2, record_bytes=100))
    commit(source, late, topic, 10, 10)
    ended = look(properties, "--groups")
    assert ended.code == 0
    assert sum(row["rpo_records"] for row in ended.rows if row["group"] == app) == 300
    assert all(row["lag_seconds"] > 0 for row in ended.rows if row["lag_records"])
    not_ready = [row for row in ended.rows if not row["ready"]]
    assert {row["group"] for row in not_ready} == {late}
    assert {row["reason"].split(":")[0] for row in not_ready} == {"unknown_group"}
    told = emergency(bench, mmtool, topic, app, how)
    costs = ("reread_max", "reread_expected")
    assert [[row[key] for key in costs] for row in ended.rows if row["group"] == app] == [
        [partition[key] for key in costs] for partition in told
    ]
    assert (
        "1 of 2 groups ready to fail over; not ready: " in look(properties, "--groups", output="table").stderr
    )

    dead = ask_without_the_source(bench, look, mmtool, measured, topic, app, how)
    assert dead.code == 9
    assert [(row["group"], row["ready"], row["committed"]) for row in dead.rows] == [(app, True, None)] * 2
    assert [row["reread_max"] for row in dead.rows] == [partition["reread_max"] for partition in told]


def test_a_loss_is_unknown_once_nobody_sees_the_source(bench, look, mmtool, measured):
    """The last test of this file: the mirror dies before its source."""
    topic, cluster = f"unseen-{os.getpid()}", bench.fleet["source"]
    app, late = f"{topic}-app", 1_225
    how = {"source->target.groups": f"{topic}-.*", "emit.checkpoints.interval.seconds": "1"}
    properties = bench.properties(topic, **how)
    line = ("failover", "emergency", "-g", app, "--timeout", "5s")
    create_topic(cluster.bootstrap, topic, 2)
    produce(cluster.bootstrap, Load(topic, RECORDS, 2, record_bytes=100))
    commit(cluster.bootstrap, app, topic, *end_offsets(cluster.bootstrap, topic).values())

    def known():
        return [row["ready"] for row in look(properties, "-g", app).rows] == [True, True]

    with bench.start(properties) as process:
        process.wait_line("caught_up", PATIENCE_SECONDS)
        wait_until(known, "the checkpoints of the group", PATIENCE_SECONDS)
        process.kill_all()
    produce(cluster.bootstrap, Load(topic, late, 2, record_bytes=100))
    cluster.kill()
    time.sleep(UNSEEN_SECONDS)
    groups = look(properties, "-g", app, "--timeout", "3s")
    shown = look(properties, "-g", app, "--timeout", "3s", output="table")
    rehearsal = mmtool(*line, "-c", properties, "-o", "json")
    refused = mmtool(*line, "-c", properties, "--execute", "--yes", "-o", "json")
    assert (groups.code, [row["rpo_records"] for row in groups.rows]) == (9, [None, None])
    assert re.search(
        r"in an emergency: unknown: source last seen \d+ (s|min) ago \(at [\d:]{8}\)", shown.stderr
    )
    assert "0 records lost" not in shown.stderr
    assert (rehearsal.code, rehearsal.rows[0]["lost_max"], rehearsal.rows[0]["lost_min"]) == (0, None, 0)
    assert "the number of lost records is unknown: source last seen " in rehearsal.stderr
    assert (refused.code, error_of(refused)["code"]) == (3, "data_loss")
