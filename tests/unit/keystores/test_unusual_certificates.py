"""Certificates that OpenSSL takes and ``cryptography`` does not read in full."""

from base64 import encodebytes
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from mmtool.keystores.certificates import certificates_in, chain_of, is_self_issued, out_of_date

NAME, SERIAL = "Zertifizier_stelle", 4711
NOW = datetime.now(UTC)
V3, V4 = bytes.fromhex("a003020102"), bytes.fromhex("a003020103")


@pytest.fixture(scope="module")
def plain():
    """An expired root, as DER."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(SERIAL)
    builder = builder.public_key(key.public_key()).not_valid_before(NOW - timedelta(days=9))
    return builder.not_valid_after(NOW - timedelta(days=1)).sign(key, SHA256()).public_bytes(Encoding.DER)


@pytest.fixture
def latin1(plain):
    """The same with a name of type T61String in Latin-1, as PEM."""
    utf8 = b"\x0c" + bytes([len(NAME)]) + NAME.encode()
    return pem(plain.replace(utf8, b"\x14" + utf8[1:].replace(b"_", b"\xe9")))


def pem(der):
    return f"-----BEGIN CERTIFICATE-----\n{encodebytes(der).decode()}-----END CERTIFICATE-----\n"


def test_a_certificate_whose_name_is_not_decoded_is_called_by_its_number(latin1):
    (certificate,) = certificates_in(latin1)
    assert out_of_date(certificate).startswith(f"certificate number {SERIAL} expired on ")


def test_a_certificate_whose_name_is_not_decoded_may_be_a_root(latin1):
    assert is_self_issued(*certificates_in(latin1))


def test_a_chain_with_a_name_that_is_not_decoded_is_sent_whole(latin1, plain):
    leaf, other = certificates_in(latin1 + pem(plain))
    assert chain_of(leaf, [other]) == [leaf, other]


def test_a_certificate_of_an_unknown_version_leaves_the_others_of_its_file_readable(plain):
    (found,) = certificates_in(pem(plain.replace(V3, V4)) + pem(plain))
    assert found.serial_number == SERIAL
