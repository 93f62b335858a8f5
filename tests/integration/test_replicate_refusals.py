"""What ``mmtool replicate`` cannot do is said in one line with its remedy and the contract's exit code."""

import os
import time
from itertools import count

import pytest
from confluent_kafka.admin import AdminClient

from mmtool.lab.topics import create_topic

pytestmark = pytest.mark.kafka

_numbers = count(1)


@pytest.fixture
def topic(fleet):
    """A source topic of three partitions with no counterpart yet."""
    name = f"refused-{os.getpid()}-{next(_numbers)}"
    create_topic(fleet["source"].bootstrap, name, 3)
    return name


@pytest.fixture
def unchanged(fleet):
    """The target's topics, before and after."""

    def topics():
        return set(
            AdminClient({"bootstrap.servers": fleet["target"].bootstrap, "log_level": 2})
            .list_topics(timeout=20)
            .topics
        )

    before = topics()
    yield
    own = {name for name in topics() - before if name.startswith(("mmtool-", "mm2-", "__"))}
    assert topics() - before - own == set()


def refusal(answer):
    """Exit code and the one error line with the remedy behind it; no traceback."""
    errors = [line for line in answer.said if line.startswith("error:")]
    assert "Traceback" not in answer.stderr
    assert len(errors) == 1, answer.stderr
    return answer.code, answer.stderr[answer.stderr.index(errors[0]) :]


def says(answer, code, *words):
    """The whole promise in one look: what comes back is empty when it is kept."""
    found, text = refusal(answer)
    return (found == code or found, [word for word in words if word not in text], text) == (
        True,
        [],
        text,
    ) or text


def test_no_topic_matches_and_there_is_a_goal_to_reach(bench, unchanged):
    answer = bench.catch_up(bench.properties("no-such-topic-.*"))
    assert says(answer, 2, "matches no topic", "source->target.topics") is True


def test_two_aliases_of_one_cluster_are_refused(bench, fleet, topic, unchanged):
    properties = bench.properties(topic, **{"target.bootstrap.servers": fleet["source"].bootstrap})
    assert says(bench.catch_up(properties), 2, "same cluster", fleet["source"].cluster_id) is True


def test_a_cluster_other_than_the_expected_one_is_refused(bench, fleet, topic, unchanged, measured):
    properties = bench.properties(topic, **{"target.mmtool.cluster.id": "AAAAAAAAAAAAAAAAAAAAAA"})
    wanted = ("AAAAAAAAAAAAAAAAAAAAAA", fleet["target"].cluster_id, "target.bootstrap.servers")
    began = time.monotonic()
    assert says(bench.catch_up(properties), 3, *wanted) is True
    measured(f"another cluster at an address: refused after {time.monotonic() - began:.1f} s")


def test_another_alias_for_a_known_pair_of_clusters_is_refused(bench, fleet, topic):
    """The mirrored topics' names hang on the alias: a second one would mirror everything again."""
    assert bench.catch_up(bench.properties(topic)).code == 0
    path = bench.directory / "other-alias.properties"
    path.write_text(bench.properties(topic).read_text().replace("source", "europe"))
    assert says(bench.catch_up(path), 2, "europe", "source") is True
