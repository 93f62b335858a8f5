"""Sessions of five seconds (``connections.max.reauth.ms``): what a running flow and the brokers notice of their end."""

from __future__ import annotations

import re
import time

import pytest

from kit.bench import Bench, Stage
from kit.broker_watch import Arrivals
from kit.scram import killed_connections, login_metrics, scram_fleet
from mmtool.lab.wait import patience

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.promise]

SESSION_MS = 5_000
SESSIONS = 8
GAP_SECONDS = 1.0
PATIENCE_SECONDS = 60
PROGRESS = re.compile(r"^source->target  records ")


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    with scram_fleet(tmp_path_factory.mktemp("reauth"), "source", "target", session_ms=SESSION_MS) as scram:
        yield Bench(scram.fleet, tmp_path_factory.mktemp("reauth-runs"), scram.lines())


def test_a_flow_notices_nothing_of_sessions_that_end_under_load(bench, measured):
    """Neither do its leases and admin clients: no connection is killed, no arrival waits, nothing comes twice."""
    with Stage(bench, "sessions", records_per_second=600.0) as stage:
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        before = len(process.stderr)
        with Arrivals(bench.fleet["target"].bootstrap, stage.targets[:1]) as arrivals:
            time.sleep(SESSIONS * SESSION_MS / 1000)
        said = [line for line in process.stderr[before:].splitlines() if not PROGRESS.search(line)]
        seen = {name: login_metrics(bench.fleet[name]) for name in ("source", "target")}
        asked = stage.prove_exact(process)
    renewed = {name: metrics["successful-reauthentication-total"] for name, metrics in seen.items()}
    killed = {name: metrics["expired-connections-killed-count"] for name, metrics in seen.items()}
    failed = {name: metrics["failed-reauthentication-total"] for name, metrics in seen.items()}
    named = [line for name in seen for line in killed_connections(bench.fleet[name])]
    measured(f"sessions of 5 s: {arrivals.largest_gap:.2f} s the largest gap, {renewed} re-authentications")
    assert (named, killed, failed, said) == ([], {"source": 0, "target": 0}, {"source": 0, "target": 0}, [])
    assert min(renewed.values()) >= SESSIONS
    assert arrivals.largest_gap < patience(GAP_SECONDS)
    assert asked > 0
