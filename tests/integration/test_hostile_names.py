"""Groups named with line breaks, escape sequences and shell code go through the whole failover, on real brokers."""

import re
import subprocess
import time
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer

from kit.load import Load, produce
from kit.lookups import commit, committed
from kit.names import sent
from kit.processes import run_mmtool
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic
from mmtool.plain_text import printable

pytestmark = pytest.mark.kafka

EVIL = "a\nrm -rf x\x1b[31m"
OTHERS = ("$(reboot)'; rm -rf y; '`\u202e", "cut\0off")
GROUPS = (EVIL, *OTHERS)
OFFSETS = {("source.parcels", 0): 30, ("source.parcels", 1): 50}


def words_of(line):
    """The words that a command gets when its line is pasted into bash."""
    ran = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], check=True, capture_output=True)
    return ran.stdout.decode().split("\0")[:-1]


@pytest.fixture(scope="module")
def flow(own_bench, tmp_path_factory):
    """A mirrored topic that the groups have read in part, and a function that runs commands on it."""
    folder = tmp_path_factory.mktemp("hostile")
    source = own_bench.fleet["source"].bootstrap
    create_topic(source, "parcels", 2)
    produce(source, Load("parcels", 1_000, 2, 100))
    for group in GROUPS:
        commit(source, group, "parcels", *OFFSETS.values())
    path = own_bench.properties("parcels", **{"source->target.groups": "(?s).*"})
    mirrored = own_bench.catch_up(path)
    assert mirrored.code == 0, mirrored.stderr

    def run(*words, code=0):
        answer = run_mmtool(folder / str(time.monotonic_ns()), *words, "-c", str(path))
        assert answer.code == code, answer.stderr
        lines = (answer.stdout + answer.stderr).splitlines()
        assert sent(answer.stdout + answer.stderr) == []
        assert not [line for line in lines if line.strip().startswith("rm ")]
        return answer

    return SimpleNamespace(run=run, folder=folder, bench=own_bench, path=path)


@pytest.mark.parametrize("command", [("status", "--groups"), ("groups", "audit"), ("translate-offsets",)])
def test_reading_commands_show_each_name_in_one_line(flow, command):
    answer = flow.run(*command)
    assert [group for group in map(printable, GROUPS) if group not in answer.stdout] == []


def test_an_export_keeps_the_names_for_the_import(flow):
    exported = run_mmtool(flow.folder / "export", "groups", "export", "-c", str(flow.path))
    assert all(group.replace('"', '""') in exported.stdout for group in GROUPS)


def test_a_group_with_members_of_any_name_is_refused_in_one_line(flow):
    source = flow.bench.fleet["source"].bootstrap
    client = {
        "bootstrap.servers": source,
        "group.id": "busy\x1b[2J",
        "client.id": "c\x1b[31m\u202e",
        "auto.offset.reset": "earliest",
    }
    with Consumer(client) as consumer:
        consumer.subscribe(["parcels"])
        wait_until(lambda: consumer.poll(0.5) is not None, "a record", 60)
        consumer.commit(asynchronous=False)
        answer = flow.run("failover", "planned", "-g", "busy\x1b[2J", code=3)
    assert "busy\\x1b[2J" in answer.stderr


def test_a_planned_failover_shows_the_names_wherever_it_speaks_of_them(flow):
    chosen = ("--groups", r"(?s)(a|\$|cut).*")
    files = [flow.folder / name for name in ("plan.json", "page.md")]
    plan, page = map(str, files)
    rehearsed = flow.run("failover", "planned", *chosen, "--out", plan, "--runbook", page)
    assert f"commit the offsets of {', '.join(map(printable, sorted(GROUPS)))} on target" in rehearsed.stderr
    assert sent(files[1].read_text()) == []
    flow.run("failover", "planned", *chosen, "--runbook", page)
    (line,) = re.findall(r"^mmtool failover planned .*--execute.*$", files[1].read_text(), re.MULTILINE)
    words = words_of(line)
    assert [words[n + 1] for n, word in enumerate(words) if word == "-g"] == sorted({EVIL, OTHERS[0]})
    assert words[words.index("--groups") + 1] == r"cut\x00off"
    done = flow.run("failover", "planned", "--plan", plan, "--execute", "--yes", "-v")
    target = flow.bench.fleet["target"].bootstrap
    assert {group: committed(target, group) for group in GROUPS} == dict.fromkeys(GROUPS, OFFSETS)
    (watch,) = [line for line in done.said if "kafka-consumer-groups" in line and line.startswith("   ")]
    words = words_of(watch)
    assert {EVIL, OTHERS[0]} <= {words[n + 1] for n, word in enumerate(words) if word == "--group"}


def test_the_journal_is_shown_with_the_names_and_keeps_them(flow):
    (found,) = flow.run("failover", "list", "-o", "json").rows
    flow.run("failover", "list")
    evidence = flow.folder / "page.html"
    shown = flow.run("failover", "show", found["operation_id"], "--html", str(evidence))
    assert printable(EVIL) in shown.stdout + shown.stderr
    assert (sent(evidence.read_text()), printable(EVIL) in evidence.read_text()) == ([], True)
    (row,) = flow.run("failover", "show", found["operation_id"], "-o", "json").rows
    assert {group["group"] for group in row["groups"]} == set(GROUPS)
