"""A page proves what it says to whoever has the signer's key from elsewhere; whatever was changed is found."""

import json
import re
import subprocess
from base64 import b64decode, b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from mmtool.errors import CheckFailedError, UsageError
from mmtool.evidence.document import Fact, PageKind, canonical
from mmtool.evidence.page import page_bytes, write_page
from mmtool.evidence.signature import (
    EncryptedKeyError,
    PageError,
    check,
    load_public_key,
    load_signer,
)
from tests.unit.evidence.conftest import evidence_of

ROOT = Path(__file__).parents[3]
PAYLOAD = re.compile(rb'(<script type="application/json" id="evidence">)(.*?)(</script>)', re.DOTALL)
SIGNATURE = re.compile(rb'(<pre id="signature">)(.*?)(</pre>)')


def payload_of(page):
    return PAYLOAD.search(page)[2]


def with_document(page, change):
    """The page with another JSON in it; everything else stays."""
    document = json.loads(payload_of(page))
    change(document)
    return PAYLOAD.sub(lambda found: found[1] + canonical(document) + found[3], page)


@pytest.mark.parametrize(("key", "signs"), [(None, ""), ("ann.pem", " --sign KEY.pem")])
def test_a_page_that_cannot_be_written_is_written_again_with_the_same_options(keys, tmp_path, key, signs):
    operation = evidence_of([], kind=PageKind.OPERATION, summary=(Fact("operation_id", "operation", "op-1"),))
    with pytest.raises(CheckFailedError) as found:
        write_page(tmp_path, operation, key and load_signer(keys / key), ())
    assert found.value.remedy.endswith(f"`mmtool failover show op-1 -c FILE --html {tmp_path}{signs}`")


def test_a_page_is_valid_for_the_key_of_its_signer(signed, document, ann_public):
    found = check(signed, ann_public)
    assert {key: found[key] for key in document} == document


def test_a_page_without_a_signature_proves_nothing(document, ann_public):
    with pytest.raises(PageError, match="not signed") as found:
        check(page_bytes(document, None), ann_public)
    assert "--sign" in found.value.remedy


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["figures"][0].update(value=1),
        lambda d: d["timeline"][0].update(at_ms=2_000),
        lambda d: d["hashes"][0].update(sha256="00" * 32),
        lambda d: d["verdict"].update(word="different"),
        lambda d: d["rows"].pop(),
        lambda d: d.update(generated_at="2025-01-31T12:00:00.000Z"),
        lambda d: d.update(page_sha256="00" * 32),
    ],
    ids=["figure", "timeline", "hash", "verdict", "row", "time", "page"],
)
def test_a_change_of_the_embedded_json_is_found(signed, ann_public, change):
    with pytest.raises(PageError, match="its evidence was changed after it was signed"):
        check(with_document(signed, change), ann_public)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (b"<td>3,003</td>", b"<td>3,004</td>"),
        (b"1970-01-01 00:00:01.000", b"1970-01-01 00:00:02.000"),
        (b"ab" * 32, b"cd" * 32),
        (b"<h1>Comparison", b"<h1>A comparison"),
        (b"</body>", b'<p style="position:fixed;top:0">completed</p></body>'),
        (b"</style>", b".bad { display: none }</style>"),
        (b"</html>\n", b"</html>"),
        (b"default-src 'none'", b"default-src *"),
    ],
    ids=["figure", "timeline", "hash", "title", "overlay", "style", "end", "policy"],
)
def test_a_change_of_the_visible_page_alone_is_found(signed, ann_public, was, becomes):
    assert was in PAYLOAD.sub(b"", signed)
    around = payload_of(signed)
    forged = signed.replace(was, becomes) if was not in around else replaced_outside(signed, was, becomes)
    with pytest.raises(PageError, match="visible page was changed"):
        check(forged, ann_public)


def replaced_outside(page, was, becomes):
    before, inside, behind = page.partition(payload_of(page))
    return before.replace(was, becomes) + inside + behind.replace(was, becomes)


def test_a_second_json_beside_the_signed_one_is_found(signed, ann_public):
    second = signed.replace(b"</body>", PAYLOAD.search(signed)[0] + b"</body>")
    with pytest.raises(PageError, match="visible page was changed"):
        check(second, ann_public)


def test_a_page_signed_anew_by_a_forger_is_of_another_key(signed, keys, ann_public):
    eve = load_signer(keys / "eve.pem")
    document = json.loads(payload_of(signed))
    del document["page_sha256"], document["signed_with"]
    with pytest.raises(PageError, match="signed with another key"):
        check(page_bytes(document, eve), ann_public)


def test_every_flipped_bit_of_the_signature_is_found(signed, ann_public):
    signature = SIGNATURE.search(signed)[2]
    raw = b64decode(signature)
    for at in range(len(raw)):
        broken = b64encode(bytes(byte ^ (number == at) for number, byte in enumerate(raw)))
        with pytest.raises(PageError):
            check(signed.replace(signature, broken), ann_public)


@pytest.mark.parametrize("ending", [b"=", b"A", b"!", b"\n"])
def test_a_signature_in_another_spelling_is_refused(signed, ann_public, ending):
    signature = SIGNATURE.search(signed)[2]
    with pytest.raises(PageError):
        check(signed.replace(signature, signature + ending), ann_public)
    last = signature[:-3] + bytes([signature[-3] + 1]) + b"=="  # the same bytes, in base64 that nobody writes
    with pytest.raises(PageError):
        check(signed.replace(signature, last), ann_public)


def test_every_truncated_page_is_invalid(signed, ann_public):
    for length in range(0, len(signed), 997):
        with pytest.raises(PageError):
            check(signed[:length], ann_public)


@pytest.mark.parametrize("content", [b"", b"hello", bytes(range(256)), b'<pre id="signature">AAAA</pre>'])
def test_a_file_that_is_no_page_is_invalid(ann_public, content):
    with pytest.raises(PageError, match="not an evidence page of mmtool"):
        check(content, ann_public)


def test_the_signature_can_be_checked_with_openssl_alone_as_the_documentation_says(signed, keys, tmp_path):
    (tmp_path / "failover.html").write_bytes(signed)
    (tmp_path / "ann.pub").write_bytes((keys / "ann.pub").read_bytes())
    documented = (ROOT / "docs/how-to/evidence-for-auditors.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\$ ((?:grep|openssl pkeyutl) .*)$", documented, re.MULTILINE)
    assert len(lines) == 3
    told = subprocess.run(  # noqa: S602 - as the page says it
        " && ".join(lines), shell=True, check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert told.stdout == "Signature Verified Successfully\n"


def test_the_page_names_its_key_by_the_digest_that_openssl_computes(keys, ann, openssl, tmp_path):
    openssl("pkey", "-pubin", "-in", str(keys / "ann.pub"), "-outform", "DER", "-out", "ann.der")
    assert ann.fingerprint == sha256((tmp_path / "ann.der").read_bytes()).hexdigest()


def test_an_encrypted_key_needs_its_password(keys):
    with pytest.raises(EncryptedKeyError):
        load_signer(keys / "locked.pem")
    with pytest.raises(UsageError, match="wrong password for the private key"):
        load_signer(keys / "locked.pem", "wrong")
    assert load_signer(keys / "locked.pem", "changeit").fingerprint


def test_a_password_that_an_open_key_does_not_need_is_passed_over(keys):
    assert load_signer(keys / "ann.pem", "changeit").fingerprint


@pytest.mark.parametrize(
    ("name", "why"),
    [("rsa.pem", "not an Ed25519 key"), ("ann.pub", "no private key in PEM"), ("none.pem", "No such file")],
)
def test_a_file_without_a_usable_private_key_is_one_line(keys, name, why):
    with pytest.raises(UsageError, match=why) as told:
        load_signer(keys / name)
    assert "\n" not in told.value.message + told.value.remedy


@pytest.mark.parametrize(
    ("name", "why"),
    [("rsa.pub", "not an Ed25519 key"), ("ann.pem", "no public key in PEM"), ("none.pub", "No such file")],
)
def test_a_file_without_a_usable_public_key_is_one_line(keys, name, why):
    with pytest.raises(UsageError, match=why):
        load_public_key(keys / name)
