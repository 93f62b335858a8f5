"""OAUTHBEARER on real brokers: one token for both client libraries, and an endpoint that is away, late or strict."""

import re
import time
from dataclasses import replace
from http import HTTPStatus

import pytest

from kit.load import Load, produce
from kit.lookups import commit
from kit.processes import run_mmtool
from mmtool.lab.ports import wait_until
from mmtool.lab.security.kinds import SecurityKind
from mmtool.lab.topics import create_topic, end_offsets

pytestmark = pytest.mark.kafka

TOPIC, GROUP = "crates", "crates-app"


@pytest.fixture(scope="module")
def pair(secured):
    """Two clusters with OAUTHBEARER; a topic with records and a group that has read a part of it."""
    started = secured(SecurityKind.OAUTH)
    bootstrap = started.bench.fleet["source"].bootstrap
    create_topic(bootstrap, TOPIC, 2)
    produce(bootstrap, Load(TOPIC, 1_000, 2, 100))
    commit(bootstrap, GROUP, TOPIC, 20, 20)
    return started


@pytest.fixture(scope="module")
def path(pair):
    return pair.properties(TOPIC)


@pytest.fixture
def endpoint(pair):
    """The token endpoint, as it was again after the test."""
    endpoint = pair.security.endpoint
    policy = endpoint.policy
    endpoint.answers.clear()
    yield endpoint
    endpoint.policy, endpoint.failure = policy, None


@pytest.fixture
def ask(path, tmp_path):
    return lambda *words: run_mmtool(tmp_path / "run", *words, "-c", str(path))


def test_every_command_logs_in_with_few_tokens(pair, path, endpoint, ask):
    checked = ask("config", "check")
    mirrored = pair.bench.catch_up(path)
    after_round = len(endpoint.answers)
    status = ask("status", "-o", "json")
    of_status = len(endpoint.answers) - after_round
    moved = ask("translate-offsets", "-g", GROUP, "--execute", "--yes", "-o", "json")
    codes = [answer.code for answer in (checked, mirrored, status, moved)]
    assert codes == [0, 0, 0, 0], [a.stderr for a in (checked, mirrored, status, moved)]
    assert {row["written"] for row in moved.rows} == {True}
    # each process: one token for each cluster; the driver of a round has one worker here
    assert (after_round <= 4, of_status) == (True, 2)


@pytest.mark.parametrize(
    "command", [("status",), ("replicate", "--until-caught-up")], ids=lambda words: words[0]
)
def test_an_endpoint_that_is_away_at_the_start_is_one_sentence(endpoint, ask, command):
    endpoint.failure = HTTPStatus.SERVICE_UNAVAILABLE
    answer = ask(*command)
    errors = [line for line in answer.said if line.startswith("error")]
    assert answer.code == 9, answer.stderr
    assert len(errors) == 1, answer.stderr
    assert re.search(r"cluster \w+: the token endpoint http://\S+/token answers HTTP 503", errors[0])
    assert len(endpoint.answers) < 25


def test_a_token_that_the_brokers_do_not_accept_is_told(endpoint, ask):
    endpoint.policy = replace(endpoint.policy, audience="elsewhere")
    answer = ask("status")
    assert answer.code == 9, answer.stderr
    assert "invalid_token" in answer.stderr


@pytest.mark.chaos
def test_a_flow_goes_on_while_the_endpoint_is_away_at_a_refresh(pair, path, endpoint):
    endpoint.policy = replace(endpoint.policy, lifetime_seconds=30)
    bootstrap = pair.bench.fleet["source"].bootstrap
    with pair.bench.start(path) as running:
        running.wait_line(r"2 caught_up")
        endpoint.failure = HTTPStatus.SERVICE_UNAVAILABLE
        running.wait_line(
            r"warning: cluster target: the token endpoint .* HTTP 503; the last token is valid until"
        )
        running.wait_line(r"warning: cluster source: the token endpoint ")
        produce(bootstrap, Load(TOPIC, 100, 2, 100))
        wait_until(lambda: mirrored(pair) >= 1_100, "the records are mirrored with the last token", 15)
        endpoint.failure = None
        refused = sum(status != HTTPStatus.OK for status in endpoint.answers)
        time.sleep(25)  # the first tokens and their sessions end
        produce(bootstrap, Load(TOPIC, 100, 2, 100))
        wait_until(lambda: mirrored(pair) >= 1_200, "the records are mirrored with new tokens", 20)
        ended = running.stop()
    warnings = [line for line in ended.said if line.startswith("warning")]
    assert (ended.code, len(warnings), refused < 20) == (143, 2, True), ended.stderr


def mirrored(pair):
    """How many records of the topic the target holds."""
    ends = end_offsets(pair.bench.fleet["target"].bootstrap, f"source.{TOPIC}")
    return sum(ends.values())
