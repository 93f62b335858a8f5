"""PEM in one line, as properties files hold it, reaches both clients in lines that OpenSSL reads."""

import subprocess

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from mmtool.config.security import pem_document
from mmtool.errors import ConfigError
from mmtool.kafka.clients import librdkafka_config, new_client, wire_options

HEAD = "clusters = A, B\nA.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:1\nA->B.enabled = true\n"


def one_line(text):
    return " ".join(text.split("\n"))


def glued(text):
    """As continuation lines without a blank leave it: Java joins them to one word."""
    return "".join(text.split("\n"))


def continued(text):
    return "\\\n    ".join(text.split("\n"))


def escaped(text):
    return text.replace("\n", "\\n")


def doubly_escaped(text):
    return text.replace("\n", "\\\\n")


FORMS = [one_line, glued, continued, escaped, doubly_escaped]


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A second certificate with an unencrypted key, and one in the old encrypted form, which has headers."""
    directory = tmp_path_factory.mktemp("other")

    for made in (
        "req -x509 -newkey rsa:2048 -nodes -subj /CN=other -keyout k.pem -out c.pem",
        "rsa -in k.pem -traditional -aes128 -passout pass:changeit -out old.pem",
    ):
        subprocess.run(["openssl", *made.split()], cwd=directory, check=True, capture_output=True)
    return directory


def read(path):
    return path.read_text().strip()


def clients_of(cluster):
    context = wire_options(cluster)["ssl_context"]
    new_client(AdminClient, librdkafka_config(cluster, role="admin"), cluster)
    new_client(Consumer, librdkafka_config(cluster, role="consumer") | {"group.id": "g"}, cluster).close()
    return context


@pytest.mark.parametrize("form", FORMS)
def test_several_trusted_certificates_in_one_value_are_all_trusted(form, pem, other, load):
    text = read(pem / "cert.pem") + "\n" + read(other / "c.pem")
    lines = f"A.security.protocol = SSL\nA.ssl.truststore.type = PEM\nA.ssl.truststore.certificates = {form(text)}\n"
    context = clients_of(load(lines, head=HEAD).clusters["A"])
    names = [dict(pair[0] for pair in found["subject"])["commonName"] for found in context.get_ca_certs()]
    assert sorted(names) == ["broker", "other"]


@pytest.mark.parametrize("form", FORMS)
def test_an_encrypted_key_and_its_chain_in_one_line_work(form, pem, load):
    clients_of(
        load(
            "A.security.protocol = SSL\nA.ssl.keystore.type = PEM\nA.ssl.key.password = changeit\n"
            f"A.ssl.keystore.certificate.chain = {form(read(pem / 'cert.pem'))}\n"
            f"A.ssl.keystore.key = {form(read(pem / 'key.pem'))}\n",
            head=HEAD,
        ).clusters["A"]
    )


@pytest.mark.parametrize("form", [one_line, escaped, doubly_escaped])
def test_a_key_with_headers_keeps_them(form, other, load):
    clients_of(
        load(
            "A.security.protocol = SSL\nA.ssl.key.password = changeit\n"
            f"A.ssl.keystore.certificate.chain = {form(read(other / 'c.pem'))}\n"
            f"A.ssl.keystore.key = {form(read(other / 'old.pem'))}\n",
            head=HEAD,
        ).clusters["A"]
    )


def test_a_file_in_one_line_works_as_well(pem, tmp_path, load):
    (tmp_path / "ca.pem").write_text(one_line(read(pem / "cert.pem")))
    lines = f"A.security.protocol = SSL\nA.ssl.truststore.type = PEM\nA.ssl.truststore.location = {tmp_path}/ca.pem\n"
    assert len(clients_of(load(lines, head=HEAD).clusters["A"]).get_ca_certs()) == 1


def test_a_value_from_the_environment_in_one_line_works_as_well(pem, load):
    lines = "A.security.protocol = SSL\nA.ssl.truststore.certificates = ${env:CA}\n"
    environ = {"CA": one_line(read(pem / "cert.pem"))}
    assert len(clients_of(load(lines, head=HEAD, environ=environ).clusters["A"]).get_ca_certs()) == 1


def test_a_good_document_stays_as_it_is(pem, other):
    for path in (pem / "cert.pem", pem / "key.pem", other / "c.pem", other / "old.pem"):
        assert pem_document(path.read_text()) == path.read_text()


def test_what_is_no_pem_is_refused_without_being_quoted(load):
    with pytest.raises(ConfigError, match=r"A\.ssl\.keystore\.key: expected PEM") as refused:
        load("A.security.protocol = SSL\nA.ssl.keystore.key = canary\n", head=HEAD)
    assert "canary" not in refused.value.message
