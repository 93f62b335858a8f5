"""A real Prometheus scrapes a running flow: every expression that is shipped has a value there."""

import json
import os
import re
import socket
import subprocess
import urllib.parse
import urllib.request
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kit.consumers import WorkingGroup
from kit.debian import has_apt, program
from kit.processes import MmtoolProcess, run_mmtool
from kit.writers import RunningWriter
from mmtool.errors import GateError
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not has_apt(), reason="Prometheus comes from Debian's package"),
]

DEPLOY = Path(__file__).parents[2] / "deploy"
PATIENCE_SECONDS = 90
DASHBOARD = json.loads((DEPLOY / "grafana" / "mmtool-dashboard.json").read_text(encoding="utf-8"))


def unused_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Prometheus:
    """A server of its own, with the rules that are shipped."""

    def __init__(self, folder, targets):
        self.port = unused_port()
        config = (DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")
        config = config.replace("15s", "1s").replace('["127.0.0.1:9464"]', json.dumps(targets))
        (folder / "prometheus.yml").write_text(config, encoding="utf-8")
        rules = (DEPLOY / "prometheus" / "mmtool.rules.yml").read_text(encoding="utf-8")
        (folder / "mmtool.rules.yml").write_text(rules, encoding="utf-8")
        self.process = subprocess.Popen(
            [
                program("prometheus", "usr/bin/prometheus"),
                "--config.file=prometheus.yml",
                "--storage.tsdb.path=data",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=(folder / "prometheus.log").open("w"),
        )

    def get(self, path, **parameters):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]["result"]

    def values(self, expression):
        """What it says now; nothing while it is not up yet."""
        with suppress(OSError):
            return [float(sample["value"][1]) for sample in self.get("query", query=expression)]
        return []

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def expressions():
    """Each expression, by where it stands: a condition as 0 or 1, and a state that is not there as any state."""
    rules = (DEPLOY / "prometheus" / "mmtool.rules.yml").read_text(encoding="utf-8")
    found = {}
    for name, text in re.findall(
        r"(?:record|alert): (\S+)\s+expr: (>-\s+(?:.+\n\s{10}.+\n?)+?|.+)(?=\n)", rules
    ):
        found[f"rule {name}"] = " ".join(text.removeprefix(">-").split())
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            found[f"panel {panel['title']} {target['refId']}"] = target["expr"]
    return {where: evaluated(expression) for where, expression in found.items()}


def evaluated(expression):
    text = re.sub(r" (>|<|==) (?=\d)", r" \1 bool ", expression)
    text = re.sub(r'state="(failed|running|halted)"', 'state=~".+"', text)
    text = re.sub(r'=~"\$\w+"', '=~".*"', text)
    return text.replace("$__rate_interval", "1m")


def test_every_expression_that_is_shipped_is_found():
    found = expressions()
    rules = (DEPLOY / "prometheus" / "mmtool.rules.yml").read_text(encoding="utf-8")
    assert sum(where.startswith("rule ") for where in found) == rules.count("expr:")
    assert sum(where.startswith("panel ") for where in found) > 15


def certificate(folder):
    """A key and a certificate of 90 days, in one PEM file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mmtool")])
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=90))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "client.pem"
    file.write_bytes(private + built.public_bytes(serialization.Encoding.PEM))
    return file


@contextmanager
def exporter(folder, properties, *options):
    process = MmtoolProcess(folder, "metrics", "-c", str(properties), "--port", "0", *options)
    try:
        process.wait_line("metrics on http", PATIENCE_SECONDS)
        yield address_of(process)
    finally:
        process.kill_all()


def address_of(process):
    return re.search(r"metrics on http://([^/]+)/", process.stderr)[1]


def test_every_expression_of_rules_and_dashboard_has_a_value_on_a_running_flow(bench, tmp_path, measured):
    source = bench.fleet["source"].bootstrap
    topic, group = f"scraped-{os.getpid()}", f"scraped-app-{os.getpid()}"
    create_topic(source, topic, 2, 1)
    properties = bench.properties(topic)
    with ExitStack() as running:
        running.enter_context(RunningWriter(source, topic, 2, 200.0))
        running.enter_context(WorkingGroup(source, group, [topic], 100.0))
        flow = running.enter_context(bench.start(properties, "--metrics-port", "0"))
        flow.wait_line("metrics on http", PATIENCE_SECONDS)
        flow.wait_line("running", PATIENCE_SECONDS)
        drill = run_mmtool(
            tmp_path / "drill", "failover", "drill", "-c", str(properties), "-g", group, "--execute", "--yes"
        )
        assert drill.code == 0, drill.stderr
        secured = tmp_path / "secured.properties"
        pem = certificate(tmp_path)
        secured.write_text(
            properties.read_text(encoding="utf-8")
            + "\ntarget.security.protocol = SSL\ntarget.ssl.keystore.type = PEM\n"
            + f"target.ssl.keystore.location = {pem}\n",
            encoding="utf-8",
        )
        other = running.enter_context(exporter(tmp_path / "secured", secured, "--metrics-level", "flow"))
        server = Prometheus(tmp_path, [address_of(flow), other])
        running.callback(server.stop)
        wanted = expressions()

        def silent():
            return sorted(where for where, expression in wanted.items() if not server.values(expression))

        with suppress(GateError):
            wait_until(lambda: not silent(), "a value of each expression", PATIENCE_SECONDS, poll=1.0)
        assert silent() == []
    measured(f"Prometheus has a value for each of {len(wanted)} expressions")
