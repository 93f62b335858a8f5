"""Passwords and certificates that are replaced while ``mmtool replicate`` runs: the flow goes on, without a restart."""

import shutil
import time

import pytest

from kit.bench import Bench, Stage
from kit.keytool import STORE_PASSWORD, Keytool
from kit.scram import PASSWORD, scram_fleet
from mmtool.lab.cluster import Cluster, Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import PortReservation, patience, wait_until

pytestmark = pytest.mark.kafka

HERE = "127.0.0.1"
SESSION_MS = 5_000
PATIENCE_SECONDS = 60
DELAY_SECONDS = 5.0
AGAIN_SECONDS = 25.0
"""Until workers are given up that could not read that they are to stop, and others have recovered what they left."""
EXPIRES_SECONDS = 150
SECOND_PASSWORD = "second-pa55"  # noqa: S105  of a user that lives as long as a test


class MountedSecret:
    """A secret as Kubernetes mounts it: files are links through ``..data``, which is swapped as a whole."""

    def __init__(self, folder):
        self.folder = folder
        self.versions = 0

    def write(self, **files):
        self.versions += 1
        version = self.folder / f"..version-{self.versions}"
        version.mkdir(parents=True)
        for name, content in files.items():
            (version / name).write_text(content)
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"..data/{name}")
        new = self.folder / "..data_tmp"
        new.symlink_to(version.name)
        new.replace(self.folder / "..data")


@pytest.fixture(scope="module")
def scram(tmp_path_factory):
    with scram_fleet(tmp_path_factory.mktemp("scram"), "source", "target", session_ms=SESSION_MS) as fleet:
        yield fleet


@pytest.mark.parametrize(
    ("late_seconds", "delay_seconds"),
    [
        pytest.param(0.0, DELAY_SECONDS, id="at once"),
        pytest.param(15.0, AGAIN_SECONDS, id="late", marks=pytest.mark.chaos),
    ],
)
def test_a_flow_goes_on_with_a_password_that_was_changed_on_the_brokers_and_in_its_secret(
    scram, tmp_path, measured, late_seconds, delay_seconds
):
    """Sessions end meanwhile, so that a late secret is an outage: everything comes when it is there, once."""
    scram.set_password(PASSWORD)
    secret = MountedSecret(tmp_path / "secret")
    secret.write(password=PASSWORD)
    bench = Bench(scram.fleet, tmp_path, scram.lines(f"${{directory:{secret.folder}:password}}"))
    with Stage(bench, f"rotated-{late_seconds:.0f}", records_per_second=300.0) as stage:
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        before = len(process.stderr)
        with stage.watch() as records:
            scram.set_password(SECOND_PASSWORD)
            time.sleep(late_seconds)
            secret.write(password=SECOND_PASSWORD)
            process.wait_line(
                r"reloaded: changed in source->target: source\.sasl\.\*, target\.sasl\.\*", PATIENCE_SECONDS
            )
            stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
            time.sleep(2 * SESSION_MS / 1000)
        said = process.stderr[before:]
        stage.flow = bench.flow(stage.properties)
        asked = stage.prove_exact(process)
    measured(
        f"a password changed, its secret {late_seconds:g} s later: {records.largest_delay:.1f} s the largest delay"
    )
    assert records.largest_delay < late_seconds + patience(delay_seconds)
    assert (PASSWORD in said, SECOND_PASSWORD in said) == (False, False)
    assert asked > 0


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """Clusters that ask for a client certificate, and the tool that issues one."""
    folder, ports = tmp_path_factory.mktemp("tls"), PortReservation()
    keytool = Keytool(folder)
    root = keytool.key("root", "PKCS12", "-ext", "bc:c")
    keytool.trust("trust.pfx", keytool.certificate(root), "PKCS12")
    keytool.issue(keytool.key("broker.pfx", "PKCS12"), root, "-ext", f"san=ip:{HERE}")
    servers = {name: f"{HERE}:{ports.take()}" for name in ("source", "target")}
    clusters = [Cluster(name, folder / name, tls_shape(folder, servers[name])) for name in servers]
    with Fleet(clusters) as fleet:
        yield fleet, servers, keytool, root
    ports.release()


def tls_shape(folder, server):
    own, clients = f"PLAINTEXT://{HERE}:{{port}}", f"SSL://{server}"
    return Shape(
        properties={
            "listeners": f"{own},CONTROLLER://{HERE}:{{controller_port}},{clients}",
            "advertised.listeners": f"{own},{clients}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.client.auth": "required",
            "ssl.keystore.location": f"{folder}/broker.pfx",
            "ssl.keystore.password": STORE_PASSWORD,
            "ssl.truststore.location": f"{folder}/trust.pfx",
            "ssl.truststore.password": STORE_PASSWORD,
        }
    )


@pytest.mark.chaos  # three minutes of waiting
def test_a_flow_goes_on_with_a_client_certificate_that_replaced_one_that_expires(tls, tmp_path, measured):
    """The old one expires, then all brokers start again: no connection is left that the old one opened."""
    fleet, servers, keytool, root = tls
    store = tmp_path / "client.pfx"
    keytool.issue(keytool.key("old.pfx", "PKCS12"), root, "-startdate", f"-2d+{EXPIRES_SECONDS}S")
    expires = time.monotonic() + EXPIRES_SECONDS
    shutil.copy(keytool.folder / "old.pfx", store)
    lines = {}
    for name, server in servers.items():
        lines |= {
            f"{name}.bootstrap.servers": server,
            f"{name}.security.protocol": "SSL",
            f"{name}.ssl.truststore.location": f"{keytool.folder}/trust.pfx",
            f"{name}.ssl.truststore.password": STORE_PASSWORD,
            f"{name}.ssl.keystore.location": str(store),
            f"{name}.ssl.keystore.password": STORE_PASSWORD,
        }
    bench = Bench(fleet, tmp_path, lines)
    with Stage(bench, "certificate", records_per_second=200.0) as stage:
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        store.write_bytes(store.read_bytes()[:100])
        process.wait_line(r"the old configuration stays in force", PATIENCE_SECONDS)
        keytool.issue(keytool.key("new.pfx", "PKCS12"), root)
        with stage.watch() as records:
            store.write_bytes((keytool.folder / "new.pfx").read_bytes())
            process.wait_line(
                r"reloaded: changed in source->target: source\.ssl\.\*, target\.ssl\.\*", PATIENCE_SECONDS
            )
            stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        time.sleep(max(0.0, expires - time.monotonic()))
        for cluster in fleet:
            cluster.stop_broker(0)
            cluster.start_broker(0)
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        wait_until(lambda: len(stage.members()) == 1, "the lease to be held again", PATIENCE_SECONDS)
        stage.flow = bench.flow(stage.properties)
        asked = stage.prove_exact(process)
    measured(f"a client certificate replaced: {records.largest_delay:.1f} s the largest delay")
    assert records.largest_delay < patience(DELAY_SECONDS)
    assert asked > 0
