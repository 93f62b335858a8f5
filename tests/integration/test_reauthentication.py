"""Sessions of five seconds (``connections.max.reauth.ms``): what a running flow and the brokers notice of their end."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace

import pytest

from kit.bench import Bench, Stage
from kit.processes import untimed
from kit.scram import killed_connections, login_metrics, scram_fleet
from kit.secure_pairs import secure_pair
from mmtool.lab.ports import patience
from mmtool.lab.security.kinds import SecurityKind

pytestmark = pytest.mark.kafka

SESSION_MS = 5_000
TOKEN_SECONDS = 20.0
SESSIONS, TOKENS = 8, 5
DELAY_SECONDS = 1.0
PATIENCE_SECONDS = 60
PROGRESS = re.compile(r"^source->target  records ")


@dataclass(frozen=True)
class Seen:
    """What a running flow and the brokers noticed of sessions that end.

    Attributes:
        killed: The lines in which brokers name requests that came after their session.
        counts: The brokers' counts about logins, by cluster.
        said: What the flow said, progress aside.
        delay: The longest time that a record was on its way, in seconds.
    """

    killed: list[str]
    counts: dict[str, dict[str, float]]
    said: list[str]
    delay: float

    def count(self, name):
        return {cluster: counts[name] for cluster, counts in self.counts.items()}


def watched(stage, seconds):
    """A flow that runs for so long, and whose records are all there once afterwards."""
    fleet = stage.bench.fleet
    process = stage.start()
    stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
    before = len(process.stderr)
    with stage.watch() as records:
        time.sleep(seconds)
    said = [line for line in untimed(process.stderr[before:]).splitlines() if not PROGRESS.search(line)]
    counts = {name: login_metrics(fleet[name]) for name in ("source", "target")}
    killed = [line for name in counts for line in killed_connections(fleet[name])]
    assert stage.prove_exact(process) > 0
    return Seen(killed, counts, said, records.largest_delay)


NONE = {"source": 0, "target": 0}


def assert_nothing_noticed(seen, sessions):
    """No connection was killed, no login failed, no record waited, and nothing was said."""
    assert (seen.killed, seen.said) == ([], [])
    assert seen.count("expired-connections-killed-count") == NONE
    assert seen.count("failed-reauthentication-total") == NONE
    assert min(seen.count("successful-reauthentication-total").values()) >= sessions
    assert seen.delay < patience(DELAY_SECONDS)


@pytest.mark.chaos  # a minute and a half of load
def test_a_flow_notices_nothing_of_sessions_that_end_under_load(tmp_path, measured):
    """Neither do its leases and admin clients: no connection is killed, no arrival waits, nothing comes twice."""
    with (
        scram_fleet(tmp_path, "source", "target", session_ms=SESSION_MS) as scram,
        Stage(Bench(scram.fleet, tmp_path, scram.lines()), "sessions", records_per_second=600.0) as stage,
    ):
        seen = watched(stage, SESSIONS * SESSION_MS / 1000)
    again = seen.count("successful-reauthentication-total")
    measured(f"sessions of 5 s, SCRAM: {seen.delay:.2f} s the largest delay, {again} re-authentications")
    assert_nothing_noticed(seen, SESSIONS)


@pytest.mark.chaos  # three minutes of waiting
def test_a_flow_notices_nothing_of_tokens_that_expire_under_load(tmp_path, measured):
    """A session ends with its token, so that each re-authentication needs a new one."""
    with secure_pair(SecurityKind.OAUTH, tmp_path) as pair:
        endpoint = pair.security.endpoint
        endpoint.policy = replace(endpoint.policy, lifetime_seconds=TOKEN_SECONDS)
        with Stage(pair.bench, "tokens", records_per_second=300.0) as stage:
            pair.bench.fleet.grant_rights(stage.properties)
            seen = watched(stage, TOKENS * TOKEN_SECONDS)
    again, tokens = seen.count("successful-reauthentication-total"), len(endpoint.answers)
    counted = f"{again} re-authentications, {tokens} tokens"
    measured(f"tokens of {TOKEN_SECONDS:g} s: {seen.delay:.2f} s the largest delay, {counted}")
    assert_nothing_noticed(seen, TOKENS)
