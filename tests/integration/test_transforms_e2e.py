"""Records are masked, hashed and left out on the way, through the command line on real brokers and real Spark."""

import hashlib
import hmac
import json
import time
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer

from kit.lookups import commit
from kit.processes import MmtoolProcess, run_mmtool
from kit.transforms import (
    EMAIL,
    ODD_GO,
    check_commits,
    check_exact,
    document,
    masked,
    module,
    send,
    third_gone,
    topic_of,
)
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, read_topic, topics_of

pytestmark = pytest.mark.kafka

RECORDS, PARTITIONS = 600, 2
MASK = {"mmtool.transform": "mmtool.transforms:mask_json", "mmtool.transform.paths": "email"}
THIRDS = {"mmtool.transform": "masks:change"}
UPPER = """
def upper(batch):
    values = [value.as_py().upper() for value in batch["value"]]
    return batch.set_column(5, batch.schema.field(5), pa.array(values, pa.binary()))
"""
KINDS = pytest.mark.parametrize("offsets", ["translated", "same"])


class Scene:
    """One topic, and a properties file of its own folder."""

    def __init__(self, bench, folder, name, **settings):
        self.bench, self.folder, self.topic = bench, folder, name
        self.ends = tuple(bench.fleet[side].bootstrap for side in ("source", "target"))
        self.configure(**settings)

    def configure(self, **settings):
        self.settings = settings
        self.path = self.folder / "mm2.properties"
        self.path.write_text(self.bench.text(f"{self.topic}.*", **settings))
        self.remote = f"source.{self.topic}"

    def run(self, *words):
        return run_mmtool(self.folder / str(time.monotonic_ns()), *words, "-c", str(self.path), "-o", "json")

    def catch_up(self):
        return self.run("replicate", "--until-caught-up")

    def running(self, *words):
        line = ("replicate", "-c", str(self.path), "--every", "1", *words)
        return MmtoolProcess(self.folder / str(time.monotonic_ns()), *line)


@pytest.fixture
def scene(bench, tmp_path, topic_name):
    def made(count=RECORDS, **settings):
        found = Scene(bench, tmp_path, topic_name("changed"), **settings)
        topic_of(found.ends[0], found.topic, count, PARTITIONS)
        return found

    return made


@KINDS
def test_a_field_is_masked_and_everything_else_stays_and_verify_knows(scene, offsets):
    flow = scene(**MASK, **{"mmtool.offsets": offsets})
    answer = flow.catch_up()
    assert answer.code == 0, answer.stderr
    check_exact(flow.ends, flow.topic, flow.remote, masked, same=offsets == "same")
    assert {row["state"] for row in answer.rows} == {"caught_up"}
    verified = flow.run("verify")
    assert verified.code == 0, (verified.stdout, verified.stderr)
    assert sum(row["records_compared"] for row in verified.rows) == RECORDS


@KINDS
def test_left_out_records_are_holes_and_commits_are_exact_through_them(scene, offsets):
    flow = scene(**THIRDS, **{"mmtool.offsets": offsets})
    module(flow.folder, ODD_GO)
    group = f"{flow.topic}-app"
    commit(flow.ends[0], group, flow.topic, 101, 200)
    answer = flow.catch_up()
    assert answer.code == 0, answer.stderr
    check_exact(flow.ends, flow.topic, flow.remote, third_gone, same=offsets == "same")
    for at in (0, 1, 2, 77, 299, 300):
        commit(flow.ends[0], group, flow.topic, at, at)
        translated = flow.run("translate-offsets", "-g", group)
        assert translated.code == 0, translated.stderr
        check_commits(flow.ends, flow.topic, flow.remote, translated.rows, third_gone, same=offsets == "same")
    assert flow.run("verify").code == 0


def test_a_field_is_hashed_with_a_key_of_a_provider_and_the_key_is_nowhere(scene, tmp_path):
    (tmp_path / "keys").write_text("hash=a-very-secret-key\n")
    flow = scene(
        **{
            "mmtool.transform": "mmtool.transforms:hash_json",
            "mmtool.transform.paths": "email",
            "mmtool.transform.secret": f"${{file:{tmp_path}/keys:hash}}",
            "config.providers": "file",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        }
    )
    answer = flow.catch_up()
    assert answer.code == 0, answer.stderr
    digest = hmac.digest(b"a-very-secret-key", EMAIL.encode(), hashlib.sha256).hex()
    values = {json.loads(record.value)["email"] for record in read_topic(flow.ends[1], flow.remote)}
    assert values == {digest}
    said = (
        answer.stderr
        + answer.stdout
        + flow.run("status", "--debug").stdout
        + flow.run("config", "show").stdout
    )
    assert "a-very-secret-key" not in said


@pytest.mark.parametrize(("on_error", "left"), [("drop", 1), ("copy", 2)])
def test_values_that_are_no_json_are_left_out_or_copied_and_counted(scene, on_error, left):
    flow = scene(0, **MASK, **{"mmtool.transform.on.error": on_error})
    send(flow.ends[0], flow.topic, [document(0), None, b"no json " + EMAIL.encode()], 1)
    answer = flow.catch_up()
    assert answer.code == 0, answer.stderr
    values = [record.value for record in read_topic(flow.ends[1], flow.remote) if record.value is not None]
    assert len(values) == left
    (row,) = [row for row in flow.run("status").rows if row["partition"] == 0]
    assert "1 value is no JSON (mmtool.transform.on.error)" in row["reason"]


def test_a_value_that_is_no_json_halts_its_partition_alone_and_no_word_of_it_is_said(scene):
    flow = scene(0, **MASK)
    send(flow.ends[0], flow.topic, map(document, range(10)), PARTITIONS)
    send(flow.ends[0], flow.topic, [b"secret-word " + EMAIL.encode()], 1)
    answer = flow.catch_up()
    assert answer.code == 6, answer.stderr
    halted, other = sorted(answer.rows, key=lambda row: row["partition"])
    assert (halted["state"], halted["upstream_position"], other["state"]) == ("halted", 5, "caught_up")
    assert "mmtool.transforms:mask_json found a value that is no JSON" in halted["reason"]
    assert f"{flow.topic}-0 at source offset 5" in halted["reason"]
    assert "secret-word" not in answer.stderr + answer.stdout
    assert len(read_topic(flow.ends[1], flow.remote)) == 10


FAULTS = {
    "no module": (None, "no_such:change", "is in no module that mmtool finds"),
    "no function": ("", "masks:change", "is missing: module masks has no change"),
    "does not import": ("import no_such_module", "masks:change", "raised ModuleNotFoundError"),
    "an exception": (
        "def change(batches):\n    for one in batches:\n        raise KeyError(one['value'][0].as_py())\n    yield\n",
        "masks:change",
        "raised KeyError at masks.py:4 in change",
    ),
    "more rows": (
        "def change(batches):\n    for one in batches:\n        yield one\n        yield one\n",
        "masks:change",
        "rows may only be left out",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_function_that_cannot_be_used_halts_its_partitions_and_config_check_says_so(
    scene, fault, topic_name
):
    text, function, why = FAULTS[fault]
    flow = scene(20, **{"mmtool.transform": function})
    other = topic_of(flow.ends[0], f"{flow.topic}-whole", 20)
    flow.configure(**flow.settings, **{"mmtool.transform.topics": flow.topic})
    if text is not None:
        module(flow.folder, text)
    answer = flow.catch_up()
    assert answer.code == 6, answer.stderr
    by_topic = {(row["topic"], row["state"]) for row in answer.rows}
    assert by_topic == {(flow.topic, "halted"), (other, "caught_up")}
    reason = next(row["reason"] for row in answer.rows if row["topic"] == flow.topic)
    assert why in reason
    assert function in reason
    assert EMAIL not in answer.stdout + answer.stderr
    if fault in ("no module", "no function", "does not import"):
        checked = flow.run("config", "check")
        assert (checked.code, why in checked.stdout) == (2, True), checked.stdout


def test_a_changed_function_takes_effect_in_the_running_flow_and_verify_says_which_records_it_cannot_make(
    scene,
):
    flow = scene(100, **THIRDS)
    module(flow.folder, ODD_GO)
    with flow.running() as owner:
        wait_until(lambda: count(flow) == 67, "the records of the first function", 60)
        module(flow.folder, ODD_GO.replace("% 3 != 1", "% 2 == 0"))
        flow.configure(**THIRDS, **{"mmtool.round.seconds": "299"})
        wait_until(lambda: is_changed(flow), "the second function in every partition", 60, poll=1.0)
        since = datetime.now(UTC).isoformat(timespec="milliseconds")
        send(flow.ends[0], flow.topic, map(document, range(100)), PARTITIONS)
        wait_until(lambda: count(flow) == 67 + 50, "the records of the second function", 60)
        assert owner.stop().code == 143
    verified = flow.run("verify")
    assert verified.code == 8
    assert {row["verdict"] for row in verified.rows} == {"incomplete"}
    assert "the records were mirrored by masks:change@" in verified.rows[0]["reason"]
    assert "--since TIME" in verified.stderr
    later = flow.run("verify", "--since", since)
    assert (later.code, sum(row["records_compared"] for row in later.rows) >= 50) == (0, True), later.stdout
    module(flow.folder, ODD_GO)
    earlier = flow.run("verify")
    assert {row["verdict"] for row in earlier.rows} == {"incomplete"}
    assert sum(row["records_compared"] for row in earlier.rows) == 67
    module(flow.folder, ODD_GO.replace("% 3", "% 7"))
    neither = flow.run("verify", "--topic", flow.topic)
    assert (neither.code, {row["verdict"] for row in neither.rows}) == (8, {"incomplete"}), neither.stderr


PROBE = b"probe"


def is_changed(flow):
    """Whether each partition has a record that only the second function keeps; one more is sent to each."""
    producer = Producer({"bootstrap.servers": flow.ends[0]})
    for partition in range(PARTITIONS):
        producer.produce(flow.topic, PROBE, b"4", partition=partition)
    assert producer.flush(30) == 0
    return (
        len({one.partition for one in read_topic(flow.ends[1], flow.remote) if one.value == PROBE})
        == PARTITIONS
    )


def count(flow):
    """The records on the target, without those of `is_changed`."""
    if flow.remote not in topics_of(flow.ends[1]):
        return 0
    return sum(one.value != PROBE for one in read_topic(flow.ends[1], flow.remote))


def test_try_shows_what_becomes_of_records_and_hides_their_values(scene):
    flow = scene(10, **THIRDS)
    module(flow.folder, ODD_GO)
    answer = flow.run("transform", "try", "--topic", flow.topic, "--records", "6")
    assert answer.code == 0, answer.stderr
    assert [row["action"] for row in answer.rows].count("dropped") == 2
    assert EMAIL not in answer.stdout
    shown = flow.run("transform", "try", "--topic", flow.topic, "--records", "6", "--show-values")
    assert shown.stdout.count(EMAIL) == 6 + 4
    assert flow.run("transform", "try", "--topic", "no-such-topic").code == 2
    assert "changed none" not in answer.stderr
    whole = Scene(flow.bench, flow.folder, flow.topic)
    assert whole.run("transform", "try", "--topic", flow.topic).code == 2
    assert "has no topic no-such-topic" in whole.run("transform", "try", "--topic", "no-such-topic").stderr


def test_a_path_and_a_topic_that_are_not_there_are_said(scene, topic_name):
    flow = scene(10, **MASK | {"mmtool.transform.paths": "mail"})
    tried = flow.run("transform", "try", "--topic", flow.topic)
    assert (tried.code, "mask_json changed none of these records" in tried.stderr) == (0, True), tried.stderr
    other = topic_of(flow.ends[0], topic_name("elsewhere"), 10)
    elsewhere = flow.run("transform", "try", "--topic", other)
    assert f"does not mirror topic {other}: topics: not matched by {flow.topic}.*" in elsewhere.stderr
    flow.configure(**MASK, **{"mmtool.transform.topics": f"{flow.topic}, source.{flow.topic}"})
    answer = flow.catch_up()
    assert answer.code == 0
    said = f"mmtool.transform.topics: source.{flow.topic} selects none of 1 mirrored topic"
    assert answer.stderr.count(said) == 1


AT_20 = """
def change(batches):
    for batch in batches:
        if b"20" in batch["key"].to_pylist():
            raise ValueError
        yield batch
"""


def test_what_came_before_the_record_that_a_function_refuses_is_compared_recovered_and_continued(scene):
    """In the middle of a batch, and the owner is killed as soon as the first half is there."""
    flow = scene(0, **THIRDS)
    module(flow.folder, AT_20)
    topic_of(flow.ends[0], flow.topic + "-b", 40)
    flow.remote += "-b"
    with flow.running() as owner:
        wait_until(lambda: count(flow) == 20, "the records before", 60, poll=0.02)
        owner.kill_all()
        owner.wait_until_gone()
    for answer in (flow.catch_up(), flow.catch_up()):
        (row,) = [row for row in answer.rows if row["topic"] == flow.topic + "-b"]
        assert (answer.code, row["state"]) == (6, "halted")
        assert row["reason"].startswith("masks:change raised ValueError")
        assert "source offset 20" in row["reason"]
    verified = flow.run("verify", "--topic", flow.topic + "-b")
    (row,) = verified.rows
    assert (verified.code, row["verdict"], row["records_compared"]) == (8, "incomplete", 20), verified.stdout
    assert "masks:change raised ValueError" in row["reason"]
    module(flow.folder, AT_20.replace("raise ValueError", "pass"))
    assert flow.catch_up().code == 0
    assert [one.key for one in read_topic(flow.ends[1], flow.remote)] == [b"%d" % n for n in range(40)]


def test_a_function_that_hangs_is_named_long_before_it_is_ended(scene):
    flow = scene(20, **THIRDS)
    module(
        flow.folder,
        "import time\ndef change(batches):\n    for one in batches:\n"
        "        time.sleep(600 if b'0' in one['key'].to_pylist() else 0)\n        yield one\n",
    )

    def row_of(partition):
        return next((r for r in flow.run("status").rows if r["partition"] == partition), {"reason": ""})

    with flow.running():
        wait_until(
            lambda: "waiting for masks:change" in row_of(0)["reason"], "the function's name", 45, poll=1.0
        )
        hangs, goes_on = row_of(0), row_of(1)
    assert (hangs["state"], hangs["lag_records"]) == ("running", 10)
    assert "from source offset 0 on; mmtool ends a call after 60 s" in hangs["reason"]
    assert (goes_on["state"], goes_on["lag_records"]) == ("caught_up", 0)


def test_verify_is_identical_after_a_halt_that_on_error_ended_and_names_a_function_that_is_not_the_same_twice(
    scene,
):
    flow = scene(20, **MASK)
    send(flow.ends[0], flow.topic, [b"no JSON"])
    assert flow.catch_up().code == 6
    flow.configure(**MASK, **{"mmtool.transform.on.error": "drop"})
    assert flow.catch_up().code == 0
    same = flow.run("verify")
    assert same.code == 0, same.stdout
    random = (
        UPPER.replace(".upper()", " + os.urandom(4)")
        + "import os\ndef change(batches):\n    yield from map(upper, batches)\n"
    )
    other = scene(20, **THIRDS)
    module(other.folder, random)
    assert other.catch_up().code == 0
    differs = other.run("verify")
    assert {row["verdict"] for row in differs.rows} == {"different"}
    assert "check that masks:change always makes the same of a record" in differs.stderr


def test_a_null_key_for_a_compacted_topic_halts_with_the_offset(scene):
    flow = scene(0, **THIRDS)
    keyless = "yield batch.set_column(4, 'key', pa.array([None] * len(stays), pa.binary()))"
    module(flow.folder, ODD_GO.replace("yield batch.filter(pa.array(stays, pa.bool_()))", keyless))
    compacted = f"{flow.topic}-compacted"
    create_topic(flow.ends[0], compacted, 1, **{"cleanup.policy": "compact"})
    send(flow.ends[0], compacted, map(document, range(3)))
    answer = flow.catch_up()
    (row,) = [row for row in answer.rows if row["topic"] == compacted]
    assert (answer.code, row["state"]) == (6, "halted")
    assert "masks:change" in row["reason"]
    assert "source offset 0" in row["reason"]


@KINDS
def test_a_group_moves_in_every_mode_through_masked_records_and_holes(scene, offsets):
    flow = scene(**THIRDS, **{"mmtool.offsets": offsets})
    module(
        flow.folder,
        ODD_GO.replace("yield batch.filter", "batch = upper(batch)\n        yield batch.filter") + UPPER,
    )
    group = f"{flow.topic}-app"
    commit(flow.ends[0], group, flow.topic, 101, 200)
    assert flow.catch_up().code == 0
    drilled = flow.run("failover", "drill", "-g", group)
    assert drilled.code == 0, drilled.stderr
    with flow.running():
        moved = flow.run("failover", "planned", "-g", group, "--execute", "--yes")
    assert moved.code == 0, moved.stderr
    (row,) = json.loads(moved.stdout)["data"]
    assert (row["state"], row["rpo_records"], row["reread_records"]) == ("completed", 0, 0)
    places = row["groups"][0]["partitions"]
    check_commits(flow.ends, flow.topic, flow.remote, places, third_gone, same=offsets == "same")
    undone = flow.run("failover", "rollback", row["operation_id"], "--execute", "--yes")
    assert undone.code == 0, undone.stderr
    away = {"source.bootstrap.servers": "127.0.0.1:1"}
    flow.configure(**THIRDS, **{"mmtool.offsets": offsets}, **away)
    lost = flow.run("failover", "emergency", "-g", group, "--execute", "--yes", "--accept-data-loss")
    assert lost.code == 0, lost.stderr
    places = json.loads(lost.stdout)["data"][0]["groups"][0]["partitions"]
    check_commits(flow.ends, flow.topic, flow.remote, places, third_gone, same=offsets == "same")
    flow.configure(**THIRDS, **{"mmtool.offsets": offsets, "target->source.topics": "none"})
    home = flow.run("failover", "failback", "-g", group)
    assert home.code == 0, home.stderr
    assert "the failback undoes nothing of that" in home.stderr
