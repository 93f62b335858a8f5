"""Settings become real clients, and private keys are under a path only while OpenSSL reads them."""

import asyncio
import errno
import os
import re
import ssl
import tempfile
from pathlib import Path

import pytest
from aiokafka.client import AIOKafkaClient
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from pydantic import SecretStr

import mmtool
from mmtool import __version__
from mmtool.config.credentials import PasswordLogin, Pem, Security
from mmtool.config.redaction import RawProperties
from mmtool.config.settings import ClusterSettings
from mmtool.errors import ConfigError, UsageError
from mmtool.kafka.clients import librdkafka_config, new_client, pem_path, wire_cluster, wire_options

SASL = PasswordLogin(mechanism="SCRAM-SHA-512", username="u", password=SecretStr("canary"))


@pytest.fixture(scope="module")
def texts(pem):
    """(certificate, encrypted key) as PEM; the password is ``changeit``."""
    return tuple(
        Pem(origin=name, text=SecretStr((pem / name).read_text())) for name in ("cert.pem", "key.pem")
    )


@pytest.fixture
def securities(texts):
    certificate, key = texts
    mutual = {
        "ca": certificate,
        "certificate": certificate,
        "key": key,
        "key_password": SecretStr("changeit"),
    }
    return [
        Security(),
        Security(protocol="SASL_PLAINTEXT", sasl=SASL),
        Security(protocol="SSL"),
        Security(protocol="SSL", **mutual),
        Security(protocol="SASL_SSL", sasl=SASL, ca=certificate, verify_hostname=False),
    ]


def cluster(security=None, **extra):
    security = security or Security()
    return ClusterSettings(alias="A", bootstrap_servers="localhost:1,localhost:2", security=security, **extra)


def test_librdkafka_accepts_every_kind_of_security(securities):
    for security in securities:
        settings = cluster(security)
        Producer(librdkafka_config(settings, role="producer"))
        AdminClient(librdkafka_config(settings, role="admin"))
        Consumer({**librdkafka_config(settings, role="consumer"), "group.id": "g"}).close()


def test_aiokafka_accepts_every_kind_of_security(securities):
    async def construct():
        return [AIOKafkaClient(**wire_options(cluster(security))) for security in securities]

    clients = asyncio.run(construct())
    assert [client._security_protocol for client in clients] == [security.protocol for security in securities]


def test_the_client_id_names_mmtool_and_its_version():
    assert librdkafka_config(cluster(), role="admin")["client.id"] == f"mmtool/{__version__}"
    assert wire_options(cluster(), client_id_suffix="pump")["client_id"] == f"mmtool/{__version__}-pump"


def test_java_properties_about_connecting_become_librdkafkas_and_the_others_are_left_out():
    settings = cluster(
        consumer=RawProperties({"fetch.max.wait.ms": "100", "receive.buffer.bytes": " 5 "}),
        admin=RawProperties({"reconnect.backoff.ms": "50", "retries": "3", "send.buffer.bytes": "134217728"}),
    )
    base = set(librdkafka_config(cluster(), role="admin"))
    seen = {
        role: {k: v for k, v in librdkafka_config(settings, role=role).items() if k not in base}
        for role in ("consumer", "producer", "admin")
    }
    assert seen == {
        "consumer": {"socket.receive.buffer.bytes": "5"},
        "producer": {},
        "admin": {"reconnect.backoff.ms": "50", "socket.send.buffer.bytes": "100000000"},
    }


def test_a_setting_that_librdkafka_refuses_is_a_configuration_error_that_names_the_key():
    config = librdkafka_config(cluster(), role="admin") | {"socket.receive.buffer.bytes": "-5"}
    with pytest.raises(ConfigError, match=r"socket\.receive\.buffer\.bytes") as refused:
        new_client(AdminClient, config, cluster())
    assert (refused.value.exit_code, "A.receive.buffer.bytes" in refused.value.remedy) == (2, True)


def test_a_refused_setting_shows_no_secret():
    with pytest.raises(ConfigError) as refused:
        new_client(
            AdminClient, {"client.dns.lookup": "canary"}, cluster(Security(protocol="SASL_SSL", sasl=SASL))
        )
    assert "canary" not in refused.value.message


def test_a_roles_own_security_and_servers_are_used():
    settings = cluster(
        role_security={"consumer": Security(protocol="SASL_PLAINTEXT", sasl=SASL)},
        role_bootstrap_servers={"consumer": "other:1"},
    )
    config = librdkafka_config(settings, role="consumer")
    options = wire_options(settings, role="consumer")
    assert (config["bootstrap.servers"], config["security.protocol"]) == ("other:1", "SASL_PLAINTEXT")
    assert (options["bootstrap_servers"], options["security_protocol"]) == (["other:1"], "SASL_PLAINTEXT")
    assert wire_options(settings)["security_protocol"] == "PLAINTEXT"


def test_a_given_ca_is_the_only_one_trusted(texts):
    trusted = wire_options(cluster(Security(protocol="SSL", ca=texts[0])))["ssl_context"]
    assert [dict(pair[0] for pair in cert["subject"]) for cert in trusted.get_ca_certs()] == [
        {"commonName": "broker"}
    ]
    assert (trusted.check_hostname, trusted.verify_mode) == (True, ssl.CERT_REQUIRED)


def test_host_names_are_not_checked_when_that_is_turned_off():
    context = wire_options(cluster(Security(protocol="SSL", verify_hostname=False)))["ssl_context"]
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_REQUIRED)


@pytest.mark.parametrize("password", [None, SecretStr("wrong-canary")])
def test_a_key_that_cannot_be_opened_is_named_and_nobody_is_asked(password, texts):
    security = Security(protocol="SSL", certificate=texts[0], key=texts[1], key_password=password)
    with pytest.raises(ConfigError) as caught:
        wire_options(cluster(security))
    assert "cluster A: OpenSSL refuses cert.pem, key.pem" in caught.value.message
    assert "canary" not in caught.value.message


def test_a_ca_with_a_character_beyond_ascii_is_refused_like_other_text_that_is_no_pem(texts):
    text = texts[0].text.get_secret_value().replace("MII", "MII\N{ZERO WIDTH SPACE}", 1)
    ca = Pem(origin="A.ssl.truststore.certificates", text=SecretStr(text))
    with pytest.raises(ConfigError, match=r"refuses A\.ssl\.truststore\.certificates: not valid PEM"):
        wire_options(cluster(Security(protocol="SSL", ca=ca)))


def test_the_wire_to_a_cluster_knows_its_alias():
    assert wire_cluster(cluster(), "pump").alias == "A"


def test_a_host_whose_disk_is_full_still_shows_its_certificate(securities, monkeypatch):
    """A pump connects anew each round: its flow would end with the disk."""

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("TemporaryDirectory", "NamedTemporaryFile", "mkdtemp", "mkstemp"):
        monkeypatch.setattr(tempfile, name, full)
    context = wire_options(cluster(securities[3]))["ssl_context"]
    assert context.cert_store_stats()["x509_ca"] == 1


def test_no_librdkafka_client_of_a_users_settings_is_built_outside_the_error_mapping():
    package = Path(mmtool.__file__).parent
    files = [
        path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in {"lab", "testing"}
    ]
    built = re.compile(r"\b(?:AdminClient|Consumer|Producer)\(")
    found = [str(path) for path in files if built.search(path.read_text())]
    assert len(files) > 100
    assert found == []


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A folder for temporary files, on a system without files in memory."""

    def none(*_):
        raise OSError

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(os, "memfd_create", none)
    return tmp_path


def test_on_linux_no_file_is_written():
    with pem_path("secret") as path:
        assert Path(path).read_text() == "secret"
        assert str(Path(path).readlink()).startswith("/memfd:")


def test_elsewhere_a_key_file_has_no_name_so_that_a_killed_process_leaves_none(temporary):
    with pem_path("secret") as path:
        file = Path(path)
        assert (file.read_text(), file.stat().st_mode & 0o777, file.stat().st_nlink) == ("secret", 0o600, 0)
        assert list(temporary.rglob("*")) == []
    assert not file.exists()


def test_a_system_without_a_folder_for_temporary_files_is_told_what_to_set(temporary, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/proc/none")
    with pytest.raises(UsageError, match="cannot be written") as failed, pem_path("secret"):
        pass
    assert "TMPDIR" in failed.value.remedy
