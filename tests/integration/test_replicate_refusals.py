"""What ``mmtool replicate`` cannot do is said in one line with its remedy and the contract's exit code."""

from __future__ import annotations

import os
import shutil
import time
from itertools import count

import pytest
from confluent_kafka.admin import AdminClient

from mmtool.lab.topics import create_topic, end_offsets

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


def test_a_cluster_that_does_not_answer_is_named_with_its_address(bench, topic, unchanged):
    properties = bench.properties(topic, **{"target.bootstrap.servers": "127.0.0.1:1"})
    assert says(bench.catch_up(properties), 9, "target", "127.0.0.1:1", "target.bootstrap.servers") is True


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


def test_a_filter_that_is_no_regular_expression_is_refused(bench, unchanged):
    assert says(bench.catch_up(bench.properties("orders[")), 2, "source->target.topics", "orders[") is True


def test_missing_java_is_said_with_how_to_get_it(bench, topic, tmp_path, unchanged):
    (tmp_path / "bin").mkdir()
    for tool in ("python", "env", "sh"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    environ = {"PATH": str(tmp_path / "bin"), "JAVA_HOME": ""}
    answer = bench.catch_up(bench.properties(topic), environ=environ)
    assert says(answer, 2, "java", "install Java 17") is True


def test_java_that_is_too_old_is_said_with_its_version(bench, topic, tmp_path, unchanged):
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    answer = bench.catch_up(bench.properties(topic), environ={"JAVA_HOME": str(tmp_path)})
    assert says(answer, 2, "Java 8", "17") is True


def test_a_missing_file_is_named(bench, tmp_path, unchanged):
    missing = tmp_path / "nowhere.properties"
    assert says(bench.catch_up(missing), 2, str(missing)) is True


def test_nothing_was_written_for_refused_topics(fleet):
    """The source is read only: what was created for these tests holds nothing."""
    bootstrap = fleet["source"].bootstrap
    names = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2}).list_topics(timeout=20).topics
    written = [
        name
        for name in names
        if name.startswith(f"refused-{os.getpid()}") and any(end_offsets(bootstrap, name).values())
    ]
    assert written == []
