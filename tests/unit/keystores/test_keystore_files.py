"""What a file is, and what is said of one that cannot be used. Needs no Java."""

import pytest

from mmtool.keystores import StoreError, StoreFile, read_identity, read_trusted
from mmtool.keystores.certificates import Format, detect_format

CANARY = "canary-5eCr3t"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (bytes.fromhex("feedfeed00000002"), Format.JKS),
        (bytes.fromhex("cececece00000002"), Format.JCEKS),
        (bytes.fromhex("0000000200000014") + b"salt", Format.BKS),
        (bytes.fromhex("308209a5020103"), Format.PKCS12),
        (bytes.fromhex("3080020103"), Format.PKCS12),
        (bytes.fromhex("30820404308202ec"), Format.DER),
        (b"Bag Attributes\n-----BEGIN CERTIFICATE-----\n", Format.PEM),
        (b" \n", Format.EMPTY),
        (b"", Format.EMPTY),
        (b"0", Format.UNKNOWN),
        (CANARY.encode(), Format.UNKNOWN),
    ],
)
def test_a_format_is_told_by_the_content(content, expected):
    assert detect_format(content) is expected


@pytest.mark.parametrize(
    ("content", "store_type", "sentence"),
    [
        (b"", "", "{} is empty; expected a JKS, PKCS12 or PEM store"),
        (CANARY.encode(), "JKS", "{} is not a JKS, PKCS12 or PEM store; check the path"),
        (bytes.fromhex("0000000200000014"), "", "{} is a BKS store, which mmtool does not read; convert"),
        (CANARY.encode(), "BCFKS", "{} is of type BCFKS, which mmtool does not read; convert it: "),
        (bytes.fromhex("30820404308202ec"), "", "{} is a DER file, not a store; for a certificate"),
        (b"-----BEGIN CERTIFICATE-----\n\xff", "PEM", "{} is a PEM file with bytes that are not UTF-8; "),
    ],
)
def test_a_file_that_is_no_store_is_refused_without_quoting_it(content, store_type, sentence, tmp_path):
    path = tmp_path / "store"
    path.write_bytes(content)
    with pytest.raises(StoreError) as caught:
        read_identity(StoreFile("keystore", str(path), str(path), store_type, CANARY))
    assert str(caught.value).startswith(sentence.format(path))
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("location", "reason"),
    [("{}/none.jks", "No such file or directory"), ("{}", "Is a directory"), ("{}/a\0b", "not a path")],
)
def test_a_file_that_cannot_be_read_is_named(location, reason, tmp_path):
    path = location.format(tmp_path)
    with pytest.raises(StoreError) as caught:
        read_trusted(StoreFile("truststore", path, path))
    assert str(caught.value).startswith(f"cannot read {path} ({reason}); check the path")


def test_a_jks_store_without_java_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    path = tmp_path / "store.jks"
    path.write_bytes(bytes.fromhex("feedfeed00000002"))
    with pytest.raises(StoreError) as caught:
        read_trusted(StoreFile("truststore", str(path), str(path)))
    assert f"JAVA_HOME={tmp_path} has no executable bin/java" in str(caught.value)
    assert "install Java 17" in str(caught.value)
