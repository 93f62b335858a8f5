"""``mmtool lab up --secure``: files that work as they stand, kept over a restart, and no secret where it shows."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kit.kafka_tools import list_topics
from kit.secure_pairs import logins
from mmtool.keystores import StoreFile, read_trusted
from mmtool.lab.security.kinds import ADMIN, GUEST, SecurityKind
from mmtool.lab.state import StateDirectory

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka


class SecuredLab:
    """``mmtool lab`` and other commands on a state directory of the test's own."""

    def __init__(self, folder: Path, kind: SecurityKind) -> None:
        self.folder = folder
        self.kind = kind

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mmtool", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    def lab(self, verb: str, *options: str) -> subprocess.CompletedProcess[str]:
        return self.run("lab", verb, "--state-dir", str(self.folder), *options)

    @property
    def config(self) -> str:
        return str(self.folder / "mmtool.properties")

    def create_topic(self, name: str) -> None:
        """As a broker, which may do everything."""
        broker = StateDirectory(self.folder).read().brokers[0]
        files = {"ssl.certificate.location": broker.tls.identity, "ssl.key.location": broker.tls.identity}
        admin = AdminClient(
            {
                "bootstrap.servers": f"127.0.0.1:{broker.probe_port}",
                "security.protocol": "SSL",
                "ssl.ca.location": broker.tls.trusted,
                **files,
            }
        )
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(20)

    def topics_of(self, user: str) -> list[str]:
        """What ``kafka-topics`` lists with the file that the lab has written for a user."""
        file = self.folder / "security" / f"{user}.properties"
        options = [line.split("=", 1)[1] for line in file.read_text().splitlines() if "KAFKA_OPTS" in line]
        return list_topics(StateDirectory(self.folder).read().brokers[0].bootstrap, file, options)


def rows(answer) -> list[dict]:
    assert answer.stdout, answer.stderr
    return json.loads(answer.stdout)["data"]


@pytest.fixture(scope="module", params=logins(SecurityKind.SCRAM))
def lab(request, tmp_path_factory):
    """A running lab that holds one topic."""
    started = SecuredLab(tmp_path_factory.mktemp(request.param), request.param)
    answer = started.lab("up", "--secure", request.param, "-o", "json")
    try:
        assert answer.returncode == 0, answer.stderr
        started.create_topic("parcels")
        yield started
    finally:
        started.lab("down")


def test_the_properties_file_works_as_it_stands(lab):
    answer = lab.run("doctor", "-c", lab.config, "-o", "json")
    wrong = [
        row for row in rows(answer) if row["check"] in {"authentication", "right"} and row["severity"] != "ok"
    ]
    assert (answer.returncode, wrong) == (0, []), answer.stderr


def test_kafka_tools_work_with_the_client_properties_of_each_user(lab):
    assert ("parcels" in lab.topics_of(ADMIN), lab.topics_of(GUEST)) == (True, [])


def test_each_format_of_a_store_holds_the_same_certificate(lab):
    folder = lab.folder / "security"
    password = json.loads((folder / "credentials.json").read_text())["store_password"]
    stores = [
        StoreFile("truststore", str(folder / f"truststore.{ending}"), "trust", password=password)
        for ending in ("p12", "jks")
    ]
    assert {read_trusted(store) for store in stores} == {(folder / "truststore.pem").read_text()}


def test_no_password_is_in_another_file_or_on_a_command_line(lab):
    document = json.loads((lab.folder / "security" / "credentials.json").read_text())
    canaries = [*document["passwords"].values(), document["store_password"]]
    brokers = [psutil.Process(row["pid"]) for row in rows(lab.lab("status", "-o", "json"))]
    files = [path for path in lab.folder.rglob("*") if path.is_file() and path.parent.name != "security"]
    shown = [path.read_text(errors="replace") for path in files]
    shown += [" ".join(broker.cmdline()) for broker in brokers]
    assert [canary for canary in canaries for text in shown if canary in text] == []


def test_kept_data_is_there_after_a_restart_with_the_same_users(lab):
    before = rows(lab.lab("status", "-o", "json"))
    users = (lab.folder / "security" / "admin.properties").read_text()
    assert lab.lab("down", "--keep-data").returncode == 0
    other = lab.lab("up", "--secure", "none")
    after = lab.lab("up", "-o", "json")
    assert (other.returncode, f"--secure {lab.kind}" in other.stderr) == (2, True), other.stderr
    assert [row["cluster_id"] for row in rows(after)] == [row["cluster_id"] for row in before]
    assert (lab.folder / "security" / "admin.properties").read_text() == users
    assert "parcels" in lab.topics_of(ADMIN)
    assert lab.run("status", "-c", lab.config).returncode == 0


def test_down_deletes_users_and_data_also_after_a_start_that_was_refused(lab):
    lab.lab("down", "--keep-data")
    refused = lab.lab("up", "--brokers", "2")
    lab.lab("down")
    left = {path.name for path in lab.folder.iterdir()}
    assert (refused.returncode, left) == (2, {"supervisor.lock", "supervisor.log"})
