"""The console blocks of the documentation that need real brokers or Spark, typed into bash as the page has them.

A page that has fallen behind is mended by ``pytest tests/integration/test_documented.py --update-docs``.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kit.consoles import Shell, type_block
from kit.consumers import consume
from kit.doc_blocks import cases, difference, files_of
from kit.load import Load, Transactions, produce
from kit.processes import run_mmtool
from kit.segments import edit_log
from mmtool.lab.artifacts import classpath
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import PortReservation
from mmtool.lab.process import java_command
from mmtool.lab.topics import create_topic, read_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
RECORDS = 1_500
AT = 150
"""The offset of the record that is damaged."""
TOOLS = {
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}
QUIET = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=error",)
NOWHERE = "127.0.0.1:1"


def lab(name):
    """The cases of one lab."""
    return pytest.mark.parametrize("case", cases(ROOT, "lab", name=name), ids=lambda case: case.name)


@pytest.fixture
def typed(request):
    """Types blocks; what is wrong with them ends the test."""
    update = request.config.getoption("--update-docs")

    def run(console, blocks):
        wrong = [found for block in blocks for found in type_block(block, console, update=update)]
        if wrong:
            pytest.fail("\n\n".join(wrong), pytrace=False)

    return run


@pytest.fixture
def folder(tmp_path):
    """As a clone looks: its virtual environment, and Kafka's tools on the path."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "bin").mkdir()
    for name, main_class in TOOLS.items():
        tool = java_command(classpath("tools"), main_class, jvm=QUIET)
        script = tmp_path / "bin" / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(tool)} "$@"\n')
        script.chmod(0o755)
    return tmp_path


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Clusters east and west, of which east's ``orders`` is mirrored, with two groups that have read it."""
    clusters = Fleet.of(tmp_path_factory.mktemp("shop"), "east", "west")
    with clusters:
        east = clusters["east"].bootstrap
        create_topic(east, "orders", 3)
        produce(east, Load("orders", RECORDS, 3, 100, keys="sequence"))
        for group in ("billing", "shipping"):
            assert consume(east, group, ["orders"])
        config = tmp_path_factory.mktemp("config") / "mm2.properties"
        config.write_text(properties(clusters))
        runs = tmp_path_factory.mktemp("runs")
        ended = run_mmtool(runs, "replicate", "-c", str(config), "--until-caught-up")
        assert ended.code == 0, ended.stderr
        yield clusters
    clusters.remove_data()


def properties(clusters, **extra):
    wanted = {"east->west.topics": "orders", "emit.heartbeats.enabled": "false", **extra}
    return clusters.properties([("east", "west")], **wanted)


@pytest.fixture
def shell(folder, shop):
    """``shell(**lines)``: bash beside a properties file with these lines."""
    ports = PortReservation()
    names = {f"{cluster.name}-1:9092": cluster.bootstrap for cluster in shop}
    names |= {"~/.local/state": os.environ["XDG_STATE_HOME"], "9464": str(ports.take())}
    path = f"{folder / 'bin'}:{sys.prefix}/bin:{os.environ['PATH']}"

    def made(**lines):
        (folder / "mm2.properties").write_text(properties(shop, **lines))
        return Shell(folder, {"PATH": path, "MMTOOL_CONFIG": "mm2.properties", "NO_COLOR": "1"}, names)

    yield made
    ports.release()


@lab("doctor")
def test_doctor_finds_what_the_page_shows(case, shell, shop, typed):
    entrances = f"{NOWHERE},{shop['east'].bootstrap}"
    typed(shell(**{"replication.factor": "3", "east.bootstrap.servers": entrances}), case.blocks)


@lab("source_away")
def test_doctor_skips_what_needs_a_cluster_that_does_not_answer(case, shell, typed):
    typed(shell(**{"east.bootstrap.servers": NOWHERE}), case.blocks)


@lab("shop")
def test_on_a_mirrored_topic_commands_print_what_the_page_shows(case, shell, folder, typed):
    key = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", "ann.pem"]
    subprocess.run(key, cwd=folder, check=True, capture_output=True)
    for name, text in files_of(case.blocks[0].page).items():
        (folder / name).write_text(text)
    typed(shell(), case.blocks)


CUSTOMERS = (
    '{"name": "Al", "age": 31}',
    '{"name": "Bo", "email": "bo@example.com", "big": 12345678901234567890}',
    '{"name": "Cy", "contacts": [{"email": "cy@example.com"}, {"phone": "1"}]}',
)


@lab("masked")
def test_an_e_mail_address_is_masked_before_it_leaves_the_region(case, shell, shop, folder, typed):
    create_topic(shop["east"].bootstrap, "customers")
    producer = Producer({"bootstrap.servers": shop["east"].bootstrap})
    for number, value in enumerate(CUSTOMERS, 1):
        producer.produce("customers", value, str(number))
    assert producer.flush(30) == 0
    lines = re.findall(
        r"(?m)^(mmtool\.transform(?:\.topics|\.paths)?) = (.+)$", case.blocks[0].page.read_text()
    )
    typed(shell(**{"east->west.topics": "customers", **dict(lines[:3])}), case.blocks)
    records = read_topic(shop["west"].bootstrap, "east.customers")
    assert [json.loads(record.value) for record in records] == [
        {"name": "Al", "age": 31},
        {"name": "Bo", "email": "***", "big": 12345678901234567890},
        {"name": "Cy", "contacts": [{"email": "***"}, {"phone": "1"}]},
    ]


def test_the_function_of_the_page_about_changed_records_leaves_out_what_it_says(shell, shop, folder):
    page = ROOT / "docs" / "how-to" / "change-records-on-the-way.md"
    for name, text in files_of(page).items():
        (folder / name).write_text(text)
    create_topic(shop["east"].bootstrap, "regions")
    producer = Producer({"bootstrap.servers": shop["east"].bootstrap})
    for key in ("eu-1", "us-1", "eu-2"):
        producer.produce("regions", b"1", key)
    assert producer.flush(30) == 0
    shell(**{"east->west.topics": "regions", "mmtool.transform": "masks:only_europe"})
    ended = run_mmtool(folder / "run", "replicate", "-c", str(folder / "mm2.properties"), "--until-caught-up")
    assert ended.code == 0, ended.stderr
    assert [record.key for record in read_topic(shop["west"].bootstrap, "east.regions")] == [b"eu-1", b"eu-2"]


def test_the_python_of_the_page_about_spark_is_a_job_that_runs(shell, folder):
    page = (ROOT / "docs" / "how-to" / "translate-offsets-in-spark.md").read_text()
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```$", page)
    asked = [
        "write(positions, 0)",
        'print(spark.table("positions_on_west").where("west.exactness = \'exact\'").count(), answer)',
    ]
    (folder / "job.py").write_text("\n".join([*blocks, *asked]))
    console = shell()
    console.run("python job.py 2> spark.log")
    assert (console.code, console.printed.splitlines()[-1]) == (0, "3 Exact(offset=120)"), console.printed


@lab("different")
def test_verify_names_the_record_that_differs(case, shell, shop, typed):
    west = shop["west"]
    west.stop()
    edit_log(west, "east.orders", 1, broken)
    west.start()
    typed(shell(), case.blocks)


@lab("checkpoint")
def test_a_spark_query_goes_on_from_its_checkpoint_on_the_other_cluster(case, shell, folder, shop, typed):
    page = case.blocks[0].page
    (settings,) = re.findall(r"(?ms)^```properties\n(.*?)^```$", page.read_text())
    lines = dict(line.split(" = ") for line in settings.splitlines())
    console = shell(**lines, **{"east->west.topics": "payments"})
    console.environ["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    for name, text in files_of(page).items():
        (folder / name).write_text(text)
    east, how = shop["east"].bootstrap, Transactions("payments-writer", 20, 3)
    create_topic(east, "payments", 2)
    for first, block in enumerate(case.blocks):
        produce(east, Load("payments", 600, 2, 100, transactions=how, first_sequence=600 * first))
        typed(console, [block])
    seen = [json.loads(line) for part in (folder / "seen").glob("*.json") for line in part.open()]
    wanted = [(record.partition, record.offset) for record in read_topic(east, "payments")]
    assert sorted((one["partition"], one["offset"]) for one in seen) == wanted


def broken(records):
    """With one bit of one value turned."""
    at = next(number for number, record in enumerate(records) if record.offset == AT)
    value = records[at].value
    damaged = replace(records[at], value=bytes((value[0] ^ 1,)) + value[1:])
    return [*records[:at], damaged, *records[at + 1 :]]


def test_the_tutorial_and_the_table_of_the_readme_are_those_of_the_demo(folder, typed):
    readme, tutorial = cases(ROOT, "lab", name="demo")
    environ = {"NO_COLOR": "1", "MMTOOL_CONFIG": ""}
    console = Shell(folder, environ, {"~/.local/state": os.environ["XDG_STATE_HOME"]})
    first, *others = tutorial.blocks
    try:
        typed(console, [first])
        (block,) = readme.blocks
        (table,) = block.typed
        assert difference(table, console.printed, counts=True) == ""
        typed(console, others)
    finally:
        console.run(".venv/bin/mmtool lab down --state-dir ~/.local/state/mmtool/demo")


@pytest.mark.chaos
@lab("archive")
def test_the_class_archive_is_made_as_the_page_says(case, folder, typed):
    typed(Shell(folder, {}), case.blocks)


@lab("secured")
def test_a_secured_lab_works_as_the_page_says(case, folder, typed):
    path = f"{folder / 'bin'}:{sys.prefix}/bin:{os.environ['PATH']}"
    console = Shell(folder, {"PATH": path, "NO_COLOR": "1"})
    try:
        typed(console, case.blocks)
    finally:
        console.run("mmtool lab down --state-dir lab")


@pytest.mark.chaos
@lab("chaos")
def test_a_seed_is_run_alone_as_the_page_says(case, folder, typed):
    typed(Shell(folder, {}), case.blocks)
