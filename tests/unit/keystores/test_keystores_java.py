"""Stores that Java's keytool made become PEM text with the same certificates and keys."""

import gc
import logging
import shutil
import subprocess

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import load_pem_x509_certificate, load_pem_x509_certificates

from mmtool.config import load_settings
from mmtool.keystores import StoreError, StoreFile, one_jvm, read_identity, read_trusted
from mmtool.keystores.jvm import DamagedStoreError, StoreJvm

pytestmark = pytest.mark.java
CANARY, PASSWORD, KEY_PASSWORD = "canary-5eCr3t", "changeit", "other-pass"
WITHOUT_PASSWORD = (
    "-J-Dkeystore.pkcs12.certProtectionAlgorithm=NONE",
    "-J-Dkeystore.pkcs12.macAlgorithm=NONE",
)


@pytest.fixture(autouse=True, scope="module")
def jvm():
    with one_jvm():
        yield


def trust(path, password=PASSWORD, **more):
    return StoreFile("truststore", str(path), str(path), password=password, scope="A.", **more)


def own(path, password=PASSWORD, key_password=None, **more):
    return StoreFile(
        "keystore", str(path), str(path), password=password, key_password=key_password, scope="A.", **more
    )


def subjects(text):
    return [found.subject.rfc4514_string() for found in load_pem_x509_certificates(text.encode())]


def public_key(text):
    return load_pem_private_key(text.encode(), None).public_key()


@pytest.mark.parametrize("store_type", ["JKS", "PKCS12"])
@pytest.mark.parametrize("said", ["", "JKS", "PKCS12", "pkcs12", "PEM"])
def test_a_trust_store_gives_its_certificates_whatever_type_is_said(store_type, said, keytool, certificate):
    path = keytool.folder / f"trust-{store_type}"
    if not path.exists():
        keytool.trust(path.name, certificate, store_type)
    assert read_trusted(trust(path, store_type=said)) == certificate.read_text().replace("\r\n", "\n")


def test_a_jks_trust_store_needs_no_password_as_in_java(keytool, certificate):
    path = keytool.trust("trust-without.jks", certificate)
    assert subjects(read_trusted(trust(path, password=None))) == ["CN=client.jks"]


def test_a_pkcs12_trust_store_may_have_no_password_at_all(keytool, certificate):
    path = keytool.trust("trust-without.p12", certificate, "PKCS12", *WITHOUT_PASSWORD)
    assert subjects(read_trusted(trust(path, password=None))) == ["CN=client.jks"]


def test_a_jks_key_with_a_password_of_its_own_is_opened(jks_key, certificate):
    found = read_identity(own(jks_key, key_password=KEY_PASSWORD))
    expected = load_pem_x509_certificate(certificate.read_bytes())
    assert (subjects(found.chain), public_key(found.key)) == (["CN=client.jks"], expected.public_key())
    assert not found.is_encrypted


@pytest.mark.parametrize("extra", [(), ("-J-Dkeystore.pkcs12.legacy",)], ids=["today", "java8"])
def test_a_pkcs12_key_is_opened_with_the_stores_password(extra, keytool):
    path = keytool.key(f"client-{len(extra)}.pfx", "PKCS12", *extra)
    found = read_identity(own(path))
    expected = load_pem_x509_certificate(keytool.certificate(path).read_bytes())
    assert public_key(found.key) == expected.public_key()


def test_a_pkcs12_key_with_a_password_of_its_own_is_opened(keytool, jks_key, tmp_path):
    """keytool makes no such store, Java's own API does and reads it."""
    source = tmp_path / "Make.java"
    source.write_text("""
        import java.io.*; import java.security.*;
        public class Make {
            public static void main(String[] a) throws Exception {
                KeyStore from = KeyStore.getInstance("JKS"), to = KeyStore.getInstance("PKCS12");
                from.load(new FileInputStream(a[0]), "changeit".toCharArray());
                to.load(null, null);
                Key key = from.getKey("own", "other-pass".toCharArray());
                to.setKeyEntry("own", key, "other-pass".toCharArray(), from.getCertificateChain("own"));
                to.store(new FileOutputStream(a[1]), "changeit".toCharArray());
            }
        }
    """)
    path = tmp_path / "two.p12"
    subprocess.run(["java", str(source), str(jks_key), str(path)], check=True)
    assert subjects(read_identity(own(path, key_password=KEY_PASSWORD)).chain) == ["CN=client.jks"]
    with pytest.raises(StoreError, match=r"wrong password for the private key .* set A\.ssl\.key\.password"):
        read_identity(own(path, key_password=CANARY))


def test_a_key_comes_with_the_chain_of_its_issuers_in_order(keytool):
    root, middle = (keytool.key(name, "JKS", "-ext", "bc:c") for name in ("root", "middle"))
    leaf = keytool.key("leaf", "JKS")
    chain = keytool.issue(middle, root, "-ext", "bc:c")
    keytool.issue(leaf, middle, chain=chain)
    keytool.trust(leaf.name, keytool.certificate(root), "JKS")
    assert subjects(read_identity(own(leaf)).chain) == [f"CN={name}" for name in ("leaf", "middle", "root")]


@pytest.mark.parametrize("store_type", ["JKS", "PKCS12"])
def test_of_a_key_stores_chain_only_the_first_certificate_is_trusted_as_in_java(store_type, keytool):
    root, leaf = (keytool.key(f"{name}-only-{store_type}", store_type, "-ext", "bc:c") for name in ("r", "l"))
    keytool.issue(leaf, root)
    assert subjects(read_identity(own(leaf)).chain) == [f"CN={n}-only-{store_type}" for n in ("l", "r")]
    assert subjects(read_trusted(trust(leaf))) == [f"CN=l-only-{store_type}"]


@pytest.mark.parametrize(
    ("store_type", "password", "sentence"),
    [
        ("JKS", CANARY, "wrong password for JKS store {}; correct A.ssl.keystore.password"),
        ("PKCS12", CANARY, "wrong password for PKCS12 store {}; correct A.ssl.keystore.password"),
        ("JKS", None, "JKS store {} needs a password; set A.ssl.keystore.password"),
        ("PKCS12", None, "PKCS12 store {} needs a password; set A.ssl.keystore.password"),
    ],
)
def test_a_wrong_or_missing_password_is_said_in_one_sentence(store_type, password, sentence, keytool):
    path = keytool.folder / f"locked-{store_type}"
    if not path.exists():
        keytool.key(path.name, store_type)
    with pytest.raises(StoreError) as caught:
        read_identity(own(path, password=password))
    assert str(caught.value) == sentence.format(path)


def test_a_pkcs12_trust_store_without_its_password_says_that_it_needs_one(keytool, certificate):
    path = keytool.trust("trust-locked.p12", certificate, "PKCS12")
    with pytest.raises(StoreError, match=r"needs a password; set A\.ssl\.truststore\.password"):
        read_trusted(trust(path, password=None))


@pytest.mark.parametrize("store_type", ["JKS", "PKCS12"])
def test_a_store_without_the_entry_that_is_needed_is_said(store_type, keytool, certificate):
    path = keytool.trust(f"only-trust-{store_type}", certificate, store_type)
    with pytest.raises(StoreError, match=rf"{store_type} store {path} holds no private key; .*keytool -list"):
        read_identity(own(path))


@pytest.mark.parametrize("store_type", ["JKS", "PKCS12"])
def test_a_trust_store_without_a_certificate_is_said(store_type, keytool, certificate):
    path = keytool.trust(f"emptied-{store_type}", certificate, store_type)
    keytool.run("-delete", "-keystore", path, "-storepass", "changeit", "-alias", "trusted")
    with pytest.raises(StoreError, match=rf"{store_type} store {path} holds no certificate"):
        read_trusted(trust(path))


@pytest.mark.parametrize("store_type", ["JKS", "PKCS12"])
def test_a_damaged_store_is_no_wrong_password(store_type, keytool, certificate):
    whole = keytool.trust(f"whole-{store_type}", certificate, store_type).read_bytes()
    path = keytool.folder / f"cut-{store_type}"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreError, match="is damaged"):
        read_trusted(trust(path))


def test_a_store_that_the_jvm_has_no_memory_for_is_refused_and_the_next_one_is_read(
    keytool, certificate, capfd, tmp_path
):
    large, good = tmp_path / "large.jks", keytool.trust("after-large.jks", certificate)
    large.write_bytes(bytes.fromhex("feedfeed0000000200000001") + bytes(60 << 20))
    with one_jvm():
        with pytest.raises(StoreError, match=rf"JKS store {large} is damaged"):
            read_trusted(trust(large))
        assert subjects(read_trusted(trust(good))) == ["CN=client.jks"]
    assert "Traceback" not in capfd.readouterr().err


def test_a_java_object_that_outlives_its_jvm_dials_nobody(caplog):
    jvm = StoreJvm()
    with pytest.raises(DamagedStoreError) as raised:
        jvm.trusted(b"damaged", "PKCS12", None)
    jvm.close()
    del raised  # it holds Java's exception
    gc.collect()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_jceks_store_is_refused_with_the_command_that_converts_it(keytool):
    path = keytool.key("client.jceks", "JCEKS")
    with pytest.raises(
        StoreError, match=r"is a JCEKS store, .*; convert it: `keytool -importkeystore"
    ) as caught:
        read_identity(own(path))
    command = str(caught.value).partition("convert it: `keytool ")[2].partition("`, then set ")[0].split()
    keytool.run(*command, "-srcstorepass", "changeit", "-deststorepass", "changeit")
    assert subjects(read_identity(own(keytool.folder / "keystore.p12")).chain) == ["CN=client.jceks"]


def test_a_jks_password_beyond_ascii_is_given_to_java_as_it_is(keytool, tmp_path):
    password, path = "geheim-\N{LATIN SMALL LETTER A WITH DIAERESIS}", tmp_path / "store.jks"
    file = tmp_path / "password"
    file.write_text(password, encoding="utf-8")
    keytool.run(
        *("-J-Dfile.encoding=UTF-8", "-genkeypair", "-keystore", path, "-storetype", "JKS"),
        *("-storepass:file", file, "-alias", "client", "-dname", "CN=x", "-keyalg", "EC"),
    )
    assert subjects(read_identity(own(path, password=password)).chain) == ["CN=x"]


def test_one_jvm_reads_all_stores_of_a_file_and_ends_with_it(keytool, monkeypatch, tmp_path):
    """The log of a wrapper around ``java`` tells how often it was started."""
    first, second = keytool.key("one.jks"), keytool.key("two.jks")
    home, log = tmp_path / "home", tmp_path / "log"
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f'#!/bin/sh\necho "$$ $*" >> {log}\nexec {shutil.which("java")} "$@"\n')
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    text = "clusters = A, B\nA->B.enabled = true\n"
    for alias, path in (("A", first), ("B", second)):
        text += (
            f"{alias}.bootstrap.servers = {alias}:1\n{alias}.security.protocol = SSL\n"
            f"{alias}.ssl.keystore.location = {path}\n{alias}.ssl.keystore.password = changeit\n"
            f"{alias}.ssl.truststore.location = {path}\n{alias}.ssl.truststore.password = changeit\n"
        )
    file = tmp_path / "mm2.properties"
    file.write_text(text)
    settings = load_settings(file, {})
    assert subjects(settings.clusters["B"].security.ca.text.get_secret_value()) == ["CN=two.jks"]
    runs = [line for line in log.read_text().splitlines() if "GatewayServer" in line]
    assert (len(runs), "changeit" in log.read_text()) == (1, False)
    assert (
        subprocess.run(["kill", "-0", runs[0].split()[0]], check=False, capture_output=True).returncode != 0
    )
