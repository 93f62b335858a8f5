"""A store or key that would be derived for hours is refused before a password is hashed."""

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from hypothesis import given
from hypothesis import strategies as st

from mmtool.keystores import certificates
from mmtool.keystores.certificates import Format, asks_too_much, iterations
from mmtool.keystores.store import Fault, StoreFile, identity_in

PASSWORD = b"changeit"
COUNT = 70_000
ENDLESS = 0x7FFFFF
"""Iteration counts of three bytes, the second above Java's limit."""


def key():
    return ec.generate_private_key(ec.SECP256R1())


def store():
    how = PrivateFormat.PKCS12.encryption_builder().kdf_rounds(COUNT)
    how = how.key_cert_algorithm(pkcs12.PBES.PBESv2SHA256AndAES256CBC).build(PASSWORD)
    return pkcs12.serialize_key_and_certificates(b"app", key(), None, None, how)


def pem():
    return key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(PASSWORD)).decode()


def with_count(der, before, count):
    """The same bytes with another iteration count of as many bytes as the old one has."""
    width = before.bit_length() // 8 + 1
    assert count.bit_length() // 8 + 1 == width
    old, new = (bytes([2, width]) + number.to_bytes(width, "big") for number in (before, count))
    assert old in der
    return der.replace(old, new)


def der_of(text):
    return base64.b64decode("".join(text.splitlines()[1:-1]))


def pem_of(der):
    body = base64.encodebytes(der).decode()
    return f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{body}-----END ENCRYPTED PRIVATE KEY-----\n"


def indefinite(der):
    """The outermost element with the end that BER allows."""
    header = 2 + (der[1] - 0x80 if der[1] > 0x80 else 0)
    return der[:1] + b"\x80" + der[header:] + b"\0\0"


def test_the_count_of_a_store_is_read_without_its_password():
    assert iterations(store()) == COUNT


def test_the_count_of_a_store_of_unknown_length_is_read_too():
    assert iterations(indefinite(store())) == COUNT


def test_the_count_of_a_key_is_read_without_its_password():
    der = der_of(pem())
    count = iterations(der)
    assert count >= 1_000
    assert iterations(with_count(der, count, 32_767)) == 32_767


def test_a_store_that_asks_for_more_than_java_allows_is_refused_at_once():
    file = StoreFile("keystore", "", "", password=PASSWORD.decode())
    assert identity_in(file, with_count(STORE, COUNT, ENDLESS), Format.PKCS12) is Fault.ITERATIONS
    assert identity_in(file, STORE, Format.PKCS12) is Fault.NO_CERTIFICATE


def test_a_key_that_asks_for_more_than_the_limit_is_known(monkeypatch):
    monkeypatch.setattr(certificates, "MOST_ITERATIONS", 10_000)  # a key's count has two bytes
    der = der_of(pem())
    assert not asks_too_much(pem_of(der))
    assert asks_too_much(pem_of(with_count(der, iterations(der), 10_001)))


def test_a_key_with_a_usual_count_is_no_fault():
    text = pem()
    assert not asks_too_much(text)
    load_pem_private_key(text.encode(), PASSWORD)


@pytest.mark.parametrize(
    "text", ["", "no key", pem_of(b"\x30\x80"), "-----BEGIN PRIVATE KEY-----\n*\n-----END PRIVATE KEY-----"]
)
def test_what_is_no_key_asks_for_nothing(text):
    assert not asks_too_much(text)


@given(st.binary(max_size=300))
def test_any_bytes_have_a_count(content):
    assert isinstance(iterations(content), int)


@given(st.data())
def test_a_damaged_store_has_a_count(data):
    der = bytearray(STORE)
    for at in data.draw(st.lists(st.integers(0, len(der) - 1), max_size=5)):
        der[at] = data.draw(st.integers(0, 255))
    assert isinstance(iterations(bytes(der)), int)


STORE = store()
