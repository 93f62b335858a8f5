"""The whole story of a failover on secured clusters, by a user who has the listed rights and no others."""

import re

import pytest

from kit.load import Load, produce
from kit.lookups import commit, committed
from kit.processes import run_mmtool
from kit.secure_pairs import logins, secure_pair
from mmtool.kafka.tokens.source import ClientTokens
from mmtool.lab.ports import patience, wait_until
from mmtool.lab.topics import create_topic, end_offsets, topics_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPIC, GROUP, RECORDS = "parcels", "app", 1_000
INTERVALS = {
    f"{name}.interval.seconds": "2" for name in ("emit.checkpoints", "refresh.groups", "sync.group.offsets")
}
DENIED = re.compile("denies [A-Z_]+ on |is denied|AUTHORIZATION|refuses the credentials")
CHANGES = ("--execute", "--yes")
STORY = [
    ("status", "--groups"),
    ("translate-offsets", "-g", GROUP),
    ("smoke", "--timeout", "60s"),
    ("failover", "drill", "-g", GROUP, *CHANGES),
    ("failover", "planned", "-g", GROUP, "--fence", "acl", *CHANGES),
    ("failover", "failback", "-g", GROUP, *CHANGES),
    ("failover", "emergency", "-g", GROUP, "--accept-data-loss", *CHANGES),
]


@pytest.fixture(params=logins())
def pair(request, tmp_path):
    with secure_pair(request.param, tmp_path) as started:
        bootstrap = started.bench.fleet["source"].bootstrap
        create_topic(bootstrap, TOPIC, 2)
        produce(bootstrap, Load(TOPIC, RECORDS, 2, 100))
        commit(bootstrap, GROUP, TOPIC, 20, 20)
        yield started


def mirrored(pair):
    bootstrap, name = pair.bench.fleet["target"].bootstrap, f"source.{TOPIC}"
    return sum(end_offsets(bootstrap, name).values()) if name in topics_of(bootstrap) else 0


@pytest.fixture
def token_clients(monkeypatch):
    """The clients of librdkafka that began here with a token: each sleeps a second for it."""
    begun, answer = set(), ClientTokens.__call__

    def call(self, config):
        begun.add(self)
        return answer(self, config)

    monkeypatch.setattr(ClientTokens, "__call__", call)
    return begun


def test_every_command_of_a_failover_runs_as_the_least_privileged_user(pair, mmtool, token_clients):
    properties = pair.properties(TOPIC, **INTERVALS)
    with pair.bench.start(properties) as replicate:
        wait_until(lambda: mirrored(pair) == RECORDS, "all records on the target", patience(60))
        said = {words: mmtool(*words, "-c", properties) for words in STORY}
        said["verify",] = run_mmtool(pair.bench.directory / "verify", "verify", "-c", str(properties))
        ended = replicate.stop()
    failed = [f"{' '.join(words)}: {one.code}\n{one.stderr}" for words, one in said.items() if one.code]
    assert not failed, "\n".join(failed)
    assert committed(pair.bench.fleet["target"].bootstrap, GROUP) == {
        (f"source.{TOPIC}", number): 20 for number in (0, 1)
    }
    refused = [line for answer in (*said.values(), ended) for line in answer.said if DENIED.search(line)]
    assert (ended.code, refused) == (143, [])
    assert len(token_clients) <= 3 * len(STORY)
