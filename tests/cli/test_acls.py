"""``mmtool acls`` prints rights without asking a cluster."""

import pytest

FILE = """\
clusters = west, east
west.bootstrap.servers = w:9092
east.bootstrap.servers = e:9092
west->east.enabled = true
west->east.topics = orders
"""
KEYS = ["cluster", "resource_type", "name", "pattern", "operation", "optional", "why"]


@pytest.fixture
def acls(mmtool, tmp_path):
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    return lambda *words: mmtool("acls", "-c", path, *words)


@pytest.mark.parametrize("words", [("--format", "json"), ("-o", "json")])
def test_the_document_has_the_contracts_keys(acls, words):
    answer = acls("--for", "read", *words)
    assert (answer.code, list(answer.rows[0])) == (0, KEYS)
    assert {row["optional"] for row in answer.rows} == {True, False}


def test_several_purposes_are_listed_together(acls):
    both = acls("--for", "read", "--for", "smoke", "-o", "json").rows
    assert {"mmtool-canary", "orders"} <= {row["name"] for row in both}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--format", "kafka-acls"), "--format kafka-acls needs a principal"),
        (("--format", "strimzi", "--principal", "mm"), "--principal mm has no type"),
        (("--format", "strimzi", "--principal", "User:"), "--principal User: has no name"),
        (("--format", "kafka-acls", "-o", "json"), "--format kafka-acls and -o json exclude each other"),
        (("--format", "kafka-topics"), "--format kafka-topics has no meaning without --topics"),
        (("--topics", "--format", "kafka-acls"), "--format kafka-acls has no meaning with --topics"),
        (("--topics", "--format", "strimzi", "-o", "csv"), "--format strimzi and -o csv exclude each other"),
        (("--topics", "--principal", "User:mm"), "--topics and --principal exclude each other"),
    ],
)
def test_bad_input_is_one_line_with_a_remedy(acls, words, said):
    answer = acls("--for", "read", *words)
    assert (answer.code, f"error: {said}" in answer.stderr, "remedy: " in answer.stderr) == (2, True, True)


def test_commands_are_printed_for_both_clusters(acls):
    lines = acls("--for", "verify", "--format", "kafka-acls", "--principal", "User:mm").stdout.splitlines()
    servers = {line.split()[2] for line in lines if not line.startswith("#")}
    assert servers == {"w:9092", "e:9092"}


def test_without_a_purpose_only_topics_are_printed(acls):
    answer = acls()
    assert (answer.code, answer.stderr.splitlines()) == (
        2,
        ["error: --for is missing", "remedy: add --for replicate|read|failover|verify|smoke, or --topics"],
    )


def test_topics_are_read_from_both_clusters(acls):
    answer = acls("--topics", "--timeout", "1s")
    assert (answer.code, "error: " in answer.stderr, answer.stdout) == (9, True, "")
