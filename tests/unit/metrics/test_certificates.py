"""When client certificates expire, by the configuration alone."""

import subprocess

import pytest

from mmtool.config import load_settings
from mmtool.keystores.certificates import certificates_in, first_expiry
from mmtool.metrics.collector import KafkaProbes
from mmtool.metrics.families import Level

PROPERTIES = """\
clusters = a, b
a.bootstrap.servers = a-1:9092
b.bootstrap.servers = b-1:9092
a->b.enabled = true
"""
MUTUAL = """\
b.security.protocol = SSL
b.ssl.keystore.type = PEM
b.ssl.keystore.location = {store}
b.ssl.key.password = changeit
"""


@pytest.fixture
def flow(tmp_path, pem):
    store = tmp_path / "both.pem"
    store.write_text((pem / "cert.pem").read_text() + (pem / "key.pem").read_text())
    path = tmp_path / "mm2.properties"
    path.write_text(PROPERTIES + MUTUAL.format(store=store))
    return load_settings(path, {}).flows[0]


def test_a_client_certificate_tells_when_it_expires_and_no_certificate_tells_nothing(flow, pem):
    probes = KafkaProbes(Level.GROUP, 1.0)
    (sample,) = probes.certificates(flow.target)
    (certificate,) = certificates_in((pem / "cert.pem").read_text())
    assert sample.labels == {"cluster": "b"}
    assert sample.value == certificate.not_valid_after_utc.timestamp()
    assert probes.certificates(flow.source) == []


def test_of_a_chain_the_first_expiry_counts(pem, tmp_path):
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-subj", "/CN=ca", "-days", "1", "-nodes"]
    subprocess.run(
        [*make, "-keyout", "ca.key", "-out", "ca.pem"], cwd=tmp_path, check=True, capture_output=True
    )
    shorter = (tmp_path / "ca.pem").read_text()
    chain = (pem / "cert.pem").read_text() + shorter
    assert first_expiry(chain) == first_expiry(shorter)
    assert first_expiry("no certificate") is None
