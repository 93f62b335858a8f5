"""A canary in every secret of the configuration: no command, file, topic or process shows it, on secured brokers."""

import base64
import json
import os
import pickle
import time
import urllib.parse
import urllib.request
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from kit.acls import Acls, rule
from kit.load import Load, produce
from kit.lookups import commit
from kit.processes import MmtoolProcess, run_mmtool
from kit.secure_pairs import logins, secure_pair
from mmtool.config import load_settings
from mmtool.lab.cluster import properties_text
from mmtool.lab.ports import PortReservation
from mmtool.lab.security.kinds import MMTOOL, SecurityKind
from mmtool.lab.topics import create_topic, read_topic
from mmtool.runtime.files import state_root

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPIC = "parcels"
KEY_PASSWORD, SPARK_SECRET, WRONG = "canary-key-password", "canary-spark-secret", "canary-wrong-password"
FROM_ENV = "MMTOOL_TEST_SECRET"


UNUSED = {"source.admin.ssl.key.password": f"${{env:{FROM_ENV}}}", "target.ssl.key.password": KEY_PASSWORD}
"""Secrets of private keys, which only mTLS has."""


def found_in(text, canaries):
    """The canaries that a text holds as they are, or encoded as HTTP and JSON do."""
    body = text if isinstance(text, bytes) else text.encode(errors="replace")
    forms = {
        canary: {canary, urllib.parse.quote(canary), base64.b64encode(canary.encode()).decode().rstrip("=")}
        for canary in canaries
    }
    return [canary for canary, written in forms.items() if any(form.encode() in body for form in written)]


@pytest.fixture(scope="module", params=logins(SecurityKind.SCRAM))
def flow(request, tmp_path_factory):
    """A flow between secured clusters, a group that has read a part of its topic, and commands that run on it."""
    folder = tmp_path_factory.mktemp(request.param)
    environ = {FROM_ENV: "canary-of-environment"}
    with pytest.MonkeyPatch.context() as patch, secure_pair(request.param, folder / "pair") as pair:
        patch.setenv(FROM_ENV, environ[FROM_ENV])
        bootstrap = pair.bench.fleet["source"].bootstrap
        create_topic(bootstrap, TOPIC, 2)
        produce(bootstrap, Load(TOPIC, 1_000, 2, 100))
        commit(bootstrap, "app", TOPIC, 20, 20)
        credentials = pair.security.credentials
        ports = PortReservation()
        ui = ports.take()
        ports.release()
        (folder / "events").mkdir()
        path = pair.properties(TOPIC)
        # a failover also reads the journal of the cluster that groups leave
        Acls(bootstrap).make(rule("mmtool-journal.internal", MMTOOL, "READ"))
        more = {
            **(UNUSED if request.param is not SecurityKind.MTLS else {}),
            "mmtool.spark.conf.spark.hadoop.fs.s3a.secret.key": SPARK_SECRET,
            "mmtool.spark.conf.spark.eventLog.enabled": "true",
            "mmtool.spark.conf.spark.eventLog.dir": (folder / "events").as_uri(),
            "mmtool.spark.conf.spark.ui.enabled": "true",
            "mmtool.spark.conf.spark.ui.port": str(ui),
        }
        path.write_text(path.read_text() + "\n" + properties_text(more))
        canaries = [credentials.passwords[MMTOOL], credentials.store_password, KEY_PASSWORD, SPARK_SECRET]
        canaries = [*canaries, WRONG, "canary-of-environment"]

        def run(*words, code=0, config=path):
            answer = run_mmtool(folder / str(time.monotonic_ns()), *words, "-c", str(config), environ=environ)
            assert found_in(answer.stdout + answer.stderr, canaries) == [], words
            assert answer.code == code, (words, answer.stderr)
            return answer

        yield SimpleNamespace(
            kind=request.param, pair=pair, path=path, folder=folder, run=run, canaries=canaries, ui=ui,
            environ=environ,
        )  # fmt: skip


@pytest.fixture(scope="module")
def mirrored(flow):
    """The flow after a replicate that was looked at from all sides while it ran."""
    flow.seen = {}
    options = ("-v", "--debug", "--log-format", "json", "--metrics-port", "0")
    arguments = ("replicate", "-c", str(flow.path), *options)
    with MmtoolProcess(flow.folder / "replicate", *arguments, environ=flow.environ) as process:
        process.wait_line('"event": "worker_started"', 90)
        flow.seen |= parts_of(psutil.Process(process.pid))
        flow.seen["Spark's UI"] = ui_of(flow)
        answer = process.stop()
    assert answer.code == 143, answer.stderr
    flow.seen["log"] = answer.stdout + answer.stderr
    flow.run("replicate", "--until-caught-up", "--debug")
    flow.seen["event log"] = files_below(flow.folder / "events")
    return flow


def parts_of(driver):
    """What others on the host can look at of a process and all that it started."""
    lines, environments = [], []
    for part in (driver, *driver.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            lines.append(" ".join(part.cmdline()))
            environments += [f"{name}={value}" for name, value in part.environ().items() if name != FROM_ENV]
    return {"command lines": "\n".join(lines), "environments": "\n".join(environments)}


def ui_of(flow):
    base = f"http://127.0.0.1:{flow.ui}/api/v1/applications"
    with urllib.request.urlopen(base) as page:
        (application,) = json.load(page)
    with urllib.request.urlopen(f"{base}/{application['id']}/environment") as page:  # noqa: S310 - a loopback address
        return page.read().decode()


def files_below(folder):
    return b"".join(path.read_bytes() for path in Path(folder).rglob("*") if path.is_file())


@pytest.mark.parametrize("place", ["command lines", "environments", "Spark's UI", "event log", "log"])
def test_no_secret_is_where_others_can_look_at_a_running_replicate(mirrored, place):
    seen = mirrored.seen[place]
    assert len(seen) > 100
    assert found_in(seen, mirrored.canaries) == []


@pytest.mark.parametrize(
    "command", ["config show", "config check", "status --groups", "doctor", "groups audit"]
)
def test_no_secret_is_in_what_a_reading_command_says(mirrored, command):
    codes = {"doctor": (0, 4), "groups audit": (0,)}
    answer = run_mmtool(
        mirrored.folder / str(time.monotonic_ns()),
        *command.split(), "-c", str(mirrored.path), "-v", "--debug", environ=mirrored.environ,
    )  # fmt: skip
    assert answer.code in codes.get(command, (0,)), answer.stderr
    assert found_in(answer.stdout + answer.stderr, mirrored.canaries) == []


def test_no_secret_is_in_anything_that_a_failover_writes(mirrored):
    files = {name: mirrored.folder / name for name in ("plan.json", "page.md", "page.html", "junit.xml")}
    plan, page, evidence, junit = (str(path) for path in files.values())
    mirrored.run("verify", "--debug", "--html", str(mirrored.folder / "verify.html"))
    mirrored.run("translate-offsets", "-g", "app", "--execute", "--yes", "--debug")
    mirrored.run("failover", "planned", "-g", "app", "--out", plan, "--runbook", page, "--debug")
    done = ("--execute", "--yes", "--debug", "--log-format", "json")
    (row,) = mirrored.run("failover", "planned", "--plan", plan, *done, "-o", "json").rows
    mirrored.run("failover", "list", "--debug")
    mirrored.run("failover", "show", row["operation_id"], "--debug", "--html", evidence)
    mirrored.run("failover", "rollback", row["operation_id"], "--execute", "--yes", "--debug")
    mirrored.run("smoke", "--read-only", "--junit", junit, "--debug", code=4)
    written = {name: path.read_bytes() for name, path in files.items()}
    written["verify.html"] = (mirrored.folder / "verify.html").read_bytes()
    written["state"] = files_below(state_root())
    assert [name for name, body in written.items() if not body] == []
    assert {name: found_in(body, mirrored.canaries) for name, body in written.items()} == {
        name: [] for name in written
    }


def test_no_secret_is_in_a_topic_that_mmtool_writes(mirrored):
    bootstrap = mirrored.pair.bench.fleet["target"].bootstrap
    names = ["mmtool-journal.internal", "mmtool-control.source.internal", "mmtool-producers.internal"]
    records = [record for name in names for record in read_topic(bootstrap, name)]
    body = b"".join((record.key or b"") + (record.value or b"") for record in records)
    assert (bool(body), found_in(body, mirrored.canaries)) == (True, [])


def test_a_wrong_password_is_not_repeated(mirrored):
    if mirrored.kind is SecurityKind.MTLS:
        key, value = "ssl.truststore.password", WRONG
    else:
        key = "sasl.jaas.config"
        login = mirrored.pair.login(MMTOOL)[key]
        value = login.replace(mirrored.pair.security.credentials.passwords[MMTOOL], WRONG)
    path = mirrored.folder / "wrong.properties"
    path.write_text(f"{mirrored.path.read_text()}\nsource.{key} = {value}\n")
    code = 2 if mirrored.kind is SecurityKind.MTLS else 9
    for switches in ((), ("-v", "--debug"), ("--debug", "--log-format", "json"), ("-o", "json")):
        mirrored.run("status", *switches, code=code, config=path)


def test_no_secret_is_in_a_name_that_python_shows_of_what_holds_them(mirrored):
    settings = load_settings(mirrored.path, os.environ)
    shown = f"{settings!r} {settings} {settings.flows!r} {settings.clusters!r}"
    again = pickle.loads(pickle.dumps(settings.flows))  # noqa: S301 - our own
    assert found_in(shown + repr(again), mirrored.canaries) == []
    assert mirrored.canaries[0] in settings.secrets() or mirrored.kind is SecurityKind.MTLS
