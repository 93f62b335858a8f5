"""What operators write: properties files and what their values hold, and the stores that they name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

from kit.decoders.files import as_file
from kit.decoders.table import Decoder
from mmtool.config import load_settings
from mmtool.config.javaregex import PatternRefusedError, compile_java
from mmtool.config.placeholders import Resolver, UnresolvedError
from mmtool.config.properties import read_properties
from mmtool.config.sasl import parse_jaas
from mmtool.config.security import pem_document
from mmtool.errors import ConfigError, UsageError
from mmtool.importers.service import imported_json, imported_yaml
from mmtool.keystores.certificates import (
    Format,
    certificates_in,
    der_certificate,
    detect_format,
    first_expiry,
    iterations,
    leaf_subject,
    opens,
)
from mmtool.keystores.store import StoreError, StoreFile, load_pkcs12_store, read_identity, read_trusted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate

    from mmtool.importers.service import ImportedFile

_PASSWORD = "changeit"  # noqa: S105  of stores that this module makes
_FILE = rb"""# two clusters
clusters = A, B
A.bootstrap.servers = a:9092, [::1]:9093
B.bootstrap.servers = b:9092
A->B.enabled = true
A->B.topics = orders.*, \\Qpay\\E[a-wyz]+
A->B.groups : app-\u0041.*
A.security.protocol=SASL_SSL
A.sasl.mechanism = SCRAM-SHA-512
A.sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required \
    username="u" password="${env:SECRET}";
replication.factor = 3
emit.checkpoints.interval.seconds = 10
sync.group.offsets.enabled = true
B.producer.compression.type = zstd
"""
_STRIMZI = rb"""apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {name: dr, namespace: kafka}
spec:
  replicas: 1
  connectCluster: west
  clusters:
  - &east
    alias: east
    bootstrapServers: "east:9093"
    tls: {trustedCertificates: [{secretName: ca, certificate: ca.crt}]}
    authentication: {type: scram-sha-512, username: u, passwordSecret: {secretName: user, password: pw}}
  - <<: *east
    alias: west
    config: {ssl.key.password: "${secrets:kafka/user:pw}"}
  mirrors:
  - sourceCluster: east
    targetCluster: west
    sourceConnector: {config: {replication.factor: -1, sync.topic.acls.enabled: no}}
    topicsPattern: 'orders|pay.*'
"""
_CONNECTORS = rb"""[{"name": "src", "config": {
"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
"source.cluster.alias": "east", "target.cluster.alias": "west", "topics": "a\\.b", "tasks.max": 2,
"source.cluster.bootstrap.servers": "e:1", "target.cluster.bootstrap.servers": "w:1", "x": [true, null],
"source.cluster.sasl.jaas.config": "a.B required username=\"u\" password=\"p\";"}}]
"""
_ENVIRON = {"SECRET": "s3cret"}


def rows() -> Iterator[Decoder]:
    config = "mmtool.config"
    yield Decoder(
        "properties file", (f"{config}.properties",), lambda: [_FILE], _read_properties, (ConfigError,)
    )
    yield Decoder(
        "settings",
        (f"{config}.load", f"{config}.security"),
        lambda: [_FILE],
        _load,
        (ConfigError,),
        is_slow=True,
    )
    yield Decoder("placeholders", (f"{config}.placeholders",), _placeholders, _resolve, (UnresolvedError,))
    yield Decoder(
        "login modules", (f"{config}.sasl",), _logins, lambda data: parse_jaas(_text(data)), (ValueError,)
    )
    yield Decoder(
        "Java patterns",
        (f"{config}.javaregex",),
        _patterns,
        lambda data: compile_java.__wrapped__(_text(data)),
        (PatternRefusedError,),
        is_slow=True,
        seconds_per_byte=2e-3,  # `re` compiles each class
    )
    yield Decoder(
        "PEM in a value",
        (f"{config}.security",),
        _pems,
        lambda data: pem_document(_text(data)),
        (ValueError,),
    )
    yield Decoder("certificates", ("mmtool.keystores.certificates",), _pems, _read_certificates, is_slow=True)
    yield Decoder("formats of stores", ("mmtool.keystores.certificates",), _stores, detect_format)
    yield Decoder("stores", ("mmtool.keystores.store",), _pems, _read_store, (StoreError,), is_slow=True)
    yield Decoder(
        "PKCS12 stores",
        ("mmtool.keystores.store",),
        _pkcs12,
        lambda data: load_pkcs12_store(data, _PASSWORD),
        (ValueError,),
        is_slow=True,
    )
    yield Decoder("iterations of stores", ("mmtool.keystores.certificates",), _pkcs12, iterations)
    yield _deployment("resources of Strimzi", "yaml_documents", imported_yaml, _STRIMZI)
    yield _deployment("connectors in JSON", "connect", imported_json, _CONNECTORS)


def _deployment(name: str, module: str, read: Callable[..., ImportedFile], sample: bytes) -> Decoder:
    return Decoder(
        name,
        ("mmtool.importers.service", f"mmtool.importers.core.{module}"),
        lambda: [sample],
        lambda data: read([("file", data)], "/etc/mmtool/secrets", keep_secrets=False).text.encode(),
        (UsageError,),
        is_slow=True,
        seconds_per_byte=1e-3,  # a parser of YAML in Python
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _read_properties(data: bytes) -> None:
    for entry in read_properties(as_file(data)).entries.values():
        (entry.key + entry.value).encode()  # whatever is done with it


def _load(data: bytes) -> None:
    load_settings(as_file(data, "mm2.properties"), _ENVIRON)


def _placeholders() -> Iterator[bytes]:
    here = as_file(b"key = value", "secrets.properties")
    yield f"a ${{env:SECRET}} b ${{file:{here}:key}} c ${{directory:{here.parent}:{here.name}}}".encode()


def _resolve(data: bytes) -> None:
    Resolver.declared_in({}, _ENVIRON).resolve(_text(data))


def _logins() -> Iterator[bytes]:
    yield b"org.apache.kafka.common.security.plain.PlainLoginModule required username=\"u\" password='p\\'q' x=1;"


def _patterns() -> Iterator[bytes]:
    yield rb"orders\.(?:[^a-z\w-]|[A-Z]\d+)*(?<name>a|b){2,3}\Q.*\E(?=x)(?<!y)\u0041\x41$"
    yield rb"(a)|(?i)b.*?c+|^(?is:.)[\w\-\]]{1,}$\b"


@cache
def _identity() -> tuple[EllipticCurvePrivateKey, Certificate]:
    key = generate_private_key(SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mm")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    return key, made.not_valid_before(now).not_valid_after(now + timedelta(days=9)).sign(key, SHA256())


@cache
def _pems() -> list[bytes]:
    key, certificate = _identity()
    encrypted = BestAvailableEncryption(_PASSWORD.encode())
    chain = certificate.public_bytes(Encoding.PEM)
    return [
        chain + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encrypted),
        chain + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        + b"text\n"
        + chain * 3,
    ]


@cache
def _pkcs12() -> list[bytes]:
    key, certificate = _identity()
    locked = PrivateFormat.PKCS12.encryption_builder().kdf_rounds(10).build(_PASSWORD.encode())
    return [
        pkcs12.serialize_key_and_certificates(b"me", key, certificate, [certificate], locked),
    ]


def _stores() -> list[bytes]:
    return [*_pems(), *_pkcs12(), b"\xfe\xed\xfe\xed\0\0\0\2\0\0\0\1", b""]


def _read_certificates(data: bytes) -> None:
    text = _text(data)
    for certificate in certificates_in(text):
        assert certificate
    leaf_subject(text)
    opens(text, _PASSWORD)
    der_certificate(data)
    first_expiry(text)


def _read_store(data: bytes) -> None:
    """As a PEM store: others go on to PKCS12, which is a row of its own, or to a JVM."""
    if detect_format(data) in {Format.PKCS12, Format.JKS}:
        return
    store = StoreFile("keystore", str(as_file(data, "store")), "store", password=_PASSWORD)
    try:
        read_trusted(store)
    finally:
        read_identity(store)
