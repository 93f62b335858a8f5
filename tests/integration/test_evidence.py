"""Evidence pages of a real comparison and a real failover: signed, checked, and their digests found on the cluster."""

import json
import os
import re
import shlex
import subprocess

import pytest

from kit.consumers import consume
from kit.load import Load, produce
from kit.processes import run_mmtool
from mmtool.lab.artifacts import classpath
from mmtool.lab.process import java_command
from mmtool.lab.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

RECORDS = 300


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    for line in ("genpkey -algorithm ed25519 -out ann.pem", "pkey -in ann.pem -pubout -out ann.pub"):
        subprocess.run(["openssl", *line.split()], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def moved(bench, tmp_path_factory):
    """A topic whose group was moved by a planned failover, the properties, and the row."""
    source = bench.fleet["source"].bootstrap
    create_topic(source, "proof", 2)
    produce(source, Load("proof", RECORDS, 2, 100, keys="sequence"))
    assert len(list(consume(source, "proof-app", ["proof"], 120))) == 120
    properties = bench.properties("proof", **{"emit.heartbeats.enabled": "false"})
    line = [
        "failover",
        "planned",
        "-c",
        str(properties),
        "-g",
        "proof-app",
        "-o",
        "json",
        "--execute",
        "--yes",
    ]
    ended = run_mmtool(tmp_path_factory.mktemp("moved"), *line, "--reason", "proof <1>")
    assert ended.code == 0, ended.stderr
    return properties, ended.rows[0]


def embedded(page):
    return json.loads(re.search(r'id="evidence">([^<]*)</script>', page.read_text())[1])


def checked(page, keys, folder):
    return run_mmtool(folder / "check", "evidence", "verify", str(page), "--key", str(keys / "ann.pub")).code


def test_an_operation_has_a_signed_page_whose_digests_the_cluster_confirms(bench, moved, keys, tmp_path):
    properties, row = moved
    page = tmp_path / "show.html"
    line = ["failover", "show", row["operation_id"], "-c", str(properties), "-o", "json"]
    ended = run_mmtool(tmp_path, *line, "--html", str(page), "--sign", str(keys / "ann.pem"))
    assert (ended.code, checked(page, keys, tmp_path)) == (0, 0), ended.stderr
    document = embedded(page)
    assert (document["kind"], document["verdict"]["word"]) == ("operation", "completed")
    assert document["rows"] == ended.rows
    assert "proof &lt;1&gt;" in page.read_text()
    target = bench.fleet["target"].bootstrap
    for one in document["hashes"][:2]:
        assert recomputed(one["recompute"], target, document["rows"][0]["flow"], tmp_path) == one["sha256"]
    (tmp_path / "RESULT.json").write_text(ended.stdout)
    line = document["hashes"][2]["recompute"].partition(",")[0]
    assert shell(line, tmp_path) == document["hashes"][2]["sha256"]


def recomputed(line, bootstrap, flow, folder):
    """As the page says it, with the cluster's address and Kafka's own tool."""
    alias = flow.partition("->")[2]
    tool = folder / "kafka-console-consumer.sh"
    command = java_command(classpath("tools"), "org.apache.kafka.tools.consumer.ConsoleConsumer")
    tool.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    tool.chmod(0o755)
    return shell(line.replace(f"'HOST:PORT of {alias}'", bootstrap), folder)


def shell(line, folder):
    told = subprocess.run(  # noqa: S602 - as the page says it
        line,
        shell=True,
        check=True,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
    )
    return told.stdout.split()[0]
