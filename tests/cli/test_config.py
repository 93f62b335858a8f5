"""``mmtool config`` says what holds, what is wrong, and nothing secret."""

import json

import pytest

CANARY = "canary-5eCr3t"
GOOD = f"""\
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9093
B.security.protocol = SASL_PLAINTEXT
B.sasl.mechanism = PLAIN
B.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required \\
    username="u" password="{CANARY}-1";
A->B.enabled = true
A->B.topics = orders.*
B.producer.sasl.username = v
B.producer.sasl.password = ${{env:CANARY}}
mmtool.spark.conf.spark.hadoop.fs.s3a.secret.key = {CANARY}-2
mmtool.spark.conf.spark.executor.memory = 2g
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write a properties file; returns its path."""
    monkeypatch.setenv("CANARY", f"{CANARY}-3")

    def write(text):
        path = tmp_path / "mm2.properties"
        path.write_text(text)
        return path

    return write


def rows_of(ended):
    return {row["key"]: row for row in json.loads(ended.stdout)["data"]}


def test_check_of_a_good_file_ends_with_0(mmtool, written):
    path = written(GOOD)
    ended = mmtool("config", "check", "-c", path)
    assert (ended.code, ended.stdout) == (0, "")
    assert f"{path} can be used; flows: A->B" in ended.stderr


RING = """\
clusters = a, b, c
a.bootstrap.servers = a:1
b.bootstrap.servers = b:1
c.bootstrap.servers = c:1
a->b.enabled = true
b->c.enabled = true
c->a.enabled = true
topics = orders
replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
"""


def test_check_refuses_what_replicate_would_refuse(mmtool, written):
    ended = mmtool("config", "check", "-c", written(RING))
    assert (ended.code, "would reach a a second time" in ended.stderr) == (2, True), ended.stderr


def test_check_warns_and_still_ends_with_0(mmtool, written):
    ended = mmtool("config", "check", "-c", written(GOOD + "A->B.topic = x\n"), "-o", "json")
    document = json.loads(ended.stdout)
    assert (ended.code, document["command"], document["errors"]) == (0, "config check", [])
    assert [row["key"] for row in document["data"]] == ["A->B.topic"]
    assert "did you mean A->B.topics?" in document["warnings"][0]


def test_check_lists_every_problem_and_ends_with_2(mmtool, written):
    ended = mmtool(
        "config", "check", "-c", written(GOOD + "mmtool.shards = 0\noffset.lag.max = x\n"), "-o", "json"
    )
    document = json.loads(ended.stdout)
    assert ended.code == 2
    assert [row["line"] for row in document["data"]] == [14, 15]
    assert [error["code"] for error in document["errors"]] == ["config", "config"]
    assert "mmtool.shards = 0: expected a whole number from 1 to 1024" in document["errors"][0]["message"]


@pytest.mark.parametrize("verb", ["check", "show"])
def test_a_missing_file_ends_with_2(verb, mmtool, tmp_path):
    ended = mmtool("config", verb, "-c", tmp_path / "nowhere", "-o", "json")
    assert (ended.code, json.loads(ended.stdout)["errors"][0]["code"]) == (2, "config")


def test_show_names_the_deciding_key_or_the_default(mmtool, written):
    rows = rows_of(mmtool("config", "show", "-c", written(GOOD), "-o", "json"))
    topics, groups = rows["topics"], rows["refresh.groups.interval.seconds"]
    assert (topics["value"], topics["origin"], topics["line"]) == ("orders.*", "A->B.topics", 9)
    assert (groups["value"], groups["origin"], groups["line"], groups["mm2_default"]) == (
        "10",
        "default",
        None,
        "600",
    )
    assert rows["consumer.isolation.level"]["value"] == "read_committed"
    assert rows["mmtool.spark.conf.spark.executor.memory"]["value"] == "2g"


def test_show_hides_what_is_not_known_to_be_harmless(mmtool, written):
    rows = rows_of(mmtool("config", "show", "-c", written(GOOD), "-o", "json"))
    hidden = sorted(key for key, row in rows.items() if row["value"] == "[hidden]")
    assert hidden == [
        "mmtool.spark.conf.spark.hadoop.fs.s3a.secret.key",
        "target.producer.sasl.password",
        "target.producer.sasl.username",
        "target.sasl.jaas.config",
    ]


def test_show_of_a_named_pair_that_is_not_enabled(mmtool, written):
    rows = rows_of(mmtool("config", "show", "-c", written(GOOD), "-s", "B", "-t", "A", "-o", "json"))
    assert (rows["enabled"]["flow"], rows["enabled"]["value"]) == ("B->A", "false")


@pytest.mark.parametrize("output", ["table", "json", "csv"])
@pytest.mark.parametrize("verb", ["check", "show"])
@pytest.mark.parametrize(
    "more", ["", f"A.sasl.pasword = {CANARY}-4\n", "replication.factor = ${env:CANARY}\n"]
)
def test_a_secret_shows_in_no_output(output, verb, more, mmtool, written):
    ended = mmtool("config", verb, "-c", written(GOOD + more), "-o", output, "--debug", "-vv")
    assert CANARY not in ended.stdout + ended.stderr
