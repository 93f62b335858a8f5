"""Documents of each kind, and keys."""

import subprocess

import pytest

from mmtool.evidence.document import Evidence, Fact, Hash, Moment, PageKind, PageVerdict, Tone
from mmtool.evidence.page import page_bytes
from mmtool.evidence.signature import load_public_key, load_signer

AT = "2026-01-31T12:00:00.000Z"


def compared(number, verdict="identical", topic="orders", **more):
    row = {
        "topic": topic,
        "partition": number,
        "verdict": verdict,
        "records_compared": 1000 + number,
        "first_difference": None,
        "source": "east",
        "target": "west",
        "target_topic": f"east.{topic}",
        "reason": "",
    }
    counts = ("missing", "duplicated", "reordered", "mutated", "foreign", "mapping", "lag_records")
    return row | dict.fromkeys(counts, 0) | more


def evidence_of(rows, **more):
    parts = {
        "kind": PageKind.VERIFY,
        "title": "Comparison of source and target east->west",
        "verdict": PageVerdict("identical", Tone.GOOD, "no difference in 3 partitions"),
        "summary": (Fact("by", "done by", "ann@host-1"), Fact("reason", "reason given", None)),
        "figures": (
            Fact("records_compared", "records compared", 3003),
            Fact("seconds", "duration", 4.5, "s"),
        ),
        "timeline": (Moment(1_000, "ann@host-1", "comparison began"),),
        "environment": (Fact("mmtool", "mmtool", "0.1.0"),),
        "hashes": (Hash("plan", "ab" * 32, "sha256sum plan"),),
    }
    return Evidence(rows=rows, **parts | more)


@pytest.fixture(scope="session")
def document():
    return evidence_of([compared(number) for number in range(3)]).document(AT)


@pytest.fixture(scope="session")
def keys(tmp_path_factory):
    """``ann``, ``eve`` and ``locked`` (password ``changeit``) with their public halves, and an RSA key."""
    folder = tmp_path_factory.mktemp("keys")
    run = openssl_in(folder)
    for name, options in (
        ("ann", ["ed25519"]),
        ("eve", ["ed25519"]),
        ("locked", ["ed25519", "-aes256", "-pass", "pass:changeit"]),
        ("rsa", ["RSA"]),
    ):
        run("genpkey", "-algorithm", *options, "-out", f"{name}.pem")
        run("pkey", "-in", f"{name}.pem", "-passin", "pass:changeit", "-pubout", "-out", f"{name}.pub")
    return folder


def openssl_in(folder):
    def run(*arguments):
        return subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    return run


@pytest.fixture
def openssl(tmp_path):
    return openssl_in(tmp_path)


@pytest.fixture(scope="session")
def ann(keys):
    return load_signer(keys / "ann.pem")


@pytest.fixture(scope="session")
def ann_public(keys):
    return load_public_key(keys / "ann.pub")


@pytest.fixture(scope="session")
def signed(document, ann):
    return page_bytes(document, ann)
