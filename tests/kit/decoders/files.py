"""Files that people keep, edit and hand on: plans, undo files, reset files, exported records, evidence, points."""

from __future__ import annotations

import json
import os
import re
import tempfile
from base64 import b64encode
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from kit.decoders.state import PLACE, group_plan, sealed_document, some
from kit.decoders.table import Decoder
from mmtool.errors import UsageError
from mmtool.evidence.signature import EVIDENCE, SIGNATURE, PageError, check, load_public_key, load_signer
from mmtool.failover.commits.apply import read_undo
from mmtool.failover.commits.exchange import lines_in
from mmtool.failover.diverged_tail.tail_file import read_export
from mmtool.insight.verify.preparation import points_in
from mmtool.lab.state import BrokerState, LabState, StateDirectory
from mmtool.plan.failover.acl_promotion import read_principal_map
from mmtool.plan.failover.failover_plan import FailoverPlan
from mmtool.plan.failover.risks import Guard, Loss, Risk
from mmtool.plan.failover.steps import Mode
from mmtool.plan.groups.facts import Commit
from mmtool.plan.groups.imports import parse_groups_csv, parse_offset_log, parse_reset_csv
from mmtool.plan.groups.names import parse_group_map
from mmtool.plan.groups.undo import Replaced, Undo
from mmtool.plan.records.documents import UnreadableDocumentError
from mmtool.plan.records.marks import VerifiedRecord
from mmtool.plan.runbook.plan_file import PlanOrigin, SavedPlan, read_plan, write_plan
from mmtool.plan.words import Names
from mmtool.runtime.known_names import names_in
from mmtool.transforms.json_paths import JsonRewriter, NotJsonError, parse_paths
from mmtool.translation.types import UNKNOWN, ClusterId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mmtool.plan.runbook.plan_file import Fingerprint


def rows() -> Iterator[Decoder]:
    groups = "mmtool.plan.groups"
    masking = ("mmtool.transforms.json_paths", "mmtool.transforms.ready_made")
    yield Decoder("value to mask", masking, _json_values, _mask, (NotJsonError,))
    yield Decoder(
        "saved plan",
        (
            "mmtool.plan.runbook.plan_file",
            "mmtool.plan.runbook.plan_file",
            "mmtool.failover.report.plan_file",
        ),
        plans,
        read_saved,
        (UnreadableDocumentError,),
        sealed_document,
    )
    yield Decoder(
        "undo file",
        (f"{groups}.undo", "mmtool.failover.commits.apply"),
        _undos,
        lambda data: read_undo("undo.json", data),
        (UsageError,),
        sealed_document,
    )
    yield _reset_file("of a group", parse_reset_csv, b"topic,partition,offset\norders,3,700\norders,4,1\n")
    yield _reset_file("of groups", parse_groups_csv, b'app,orders,3,700\n\nother,"a""b",4,1\n')
    yield Decoder(
        "Spark's offset log",
        (f"{groups}.imports",),
        _offset_logs,
        lambda data: parse_offset_log(data.decode("utf-8", "replace").splitlines()),
        (ValueError,),
    )
    yield Decoder(
        "exported tail",
        ("mmtool.failover.diverged_tail.tail_file",),
        _tails,
        _read_tail,
        (UsageError,),
        _sealed_tail,
    )
    yield Decoder(
        "evidence page", ("mmtool.evidence.signature",), _pages, _check_page, (PageError,), _sealed_page
    )
    pairs = b'source,target\nbilling,billing-dr\n\n"a,1","b ""x"""\n'
    yield _map_file("groups", parse_group_map, pairs, f"{groups}.names", "mmtool.config.flows")
    principals = b"source_principal,target_principal\nUser:east-app,User:west-app\nUser:old,\n"
    yield _map_file("principals", read_principal_map, principals, "mmtool.plan.failover.acl_promotion")
    signing, public = _keys()
    yield _key_file("signing key", load_signer, signing)
    yield _key_file("public key", load_public_key, public)
    yield Decoder("names for a shell", ("mmtool.runtime.known_names",), _names, names_in)
    yield Decoder(
        "verified points", ("mmtool.insight.verify.preparation",), _points, points_in, (ValueError,)
    )
    yield Decoder("state of a lab", ("mmtool.lab.state",), _labs, _read_lab, (UsageError,))


def _reset_file(of: str, read: Callable[[list[str]], object], sample: bytes) -> Decoder:
    return Decoder(
        f"reset file {of}",
        ("mmtool.plan.groups.imports", "mmtool.failover.commits.exchange"),
        lambda: [sample],
        lambda data: read(lines_in("file", data)),
        (ValueError, UsageError),
    )


def _map_file(of: str, read: Callable[[list[str]], object], sample: bytes, *modules: str) -> Decoder:
    return Decoder(
        f"map of {of}",
        modules,
        lambda: [sample],
        lambda data: read(data.decode("utf-8", "replace").splitlines()),
        (ValueError,),
    )


def _key_file(name: str, load: Callable[[Path], object], sample: bytes) -> Decoder:
    return Decoder(
        name,
        ("mmtool.evidence.signature",),
        lambda: [sample],
        lambda data: load(as_file(data)),
        (UsageError,),
    )


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix=f"decoders-{os.getpid()}-"))


def as_file(data: bytes, name: str = "file") -> Path:
    """A file with this content, the same one at every call."""
    path = _folder() / name
    path.write_bytes(data)
    return path


def plans() -> list[bytes]:
    """A saved plan with something in each of its parts."""
    names, group = Names("east", "west"), group_plan()
    risks = {("app", PLACE): Risk(Loss(UNKNOWN, 3, 7), 4, 1.5, 2)}
    guards = (Guard("code", "why"),)
    plan = FailoverPlan("op-1", Mode.EMERGENCY, names, (group,), (), guards, risks, ("orders",)).with_steps()
    commits = [(*PLACE, 7, "m")]
    seen: Fingerprint = {
        "here": {"cluster_id": "e-id", "topics": {"orders": ("t-id", 4)}},
        "there": {"cluster_id": None, "topics": {}},
        "groups": {
            "app": {"commits": commits, "before": commits, "members_here": [("c", "/h")], "members_there": []}
        },
    }
    saved = SavedPlan(
        plan, seen, PlanOrigin("ann@host", 1_780_000_000_000, "1.0"), {"unknown": "leave"}, ("careful",)
    )
    return [write_plan(saved)]


def read_saved(data: bytes) -> None:
    """A plan, and what is said of it."""
    saved = read_plan(data)
    assert saved.stale(saved.plan, saved.seen) == []


def _undos() -> list[bytes]:
    replaced = (Replaced("app", PLACE, Commit(3), Commit(7, "m")), Replaced("app", PLACE, None, Commit(1)))
    return [Undo(ClusterId("w-id"), replaced).encode()]


def _offset_logs() -> Iterator[bytes]:
    yield b'v1\n{"batchWatermarkMs":0}\n{"orders":{"0":5,"1":7}}\n-\n'
    yield b'v2\n{"batchWatermarkMs":0}\n0:{"orders":{"0":5,"1":7}}\n1:-\n'


def _tails() -> list[bytes]:
    head = {
        "mmtool_diverged": 1,
        "operation_id": "op-1",
        "source_cluster_id": "e-id",
        "isolation": "read_committed",
    }
    record = {
        "topic": "orders", "partition": 3, "offset": 7, "timestamp": 5, "timestamp_type": "CreateTime", "key": "k",
        "value": {"base64": "/w=="}, "headers": [["h", None]],
    }  # fmt: skip
    line = json.dumps(record).encode() + b"\n"
    whole = {
        "topic": "orders", "partition": 3, "kind": "written", "start": 7, "end": 8, "found": 1, "records": 1,
        "sha256": sha256(line).hexdigest(),
    }  # fmt: skip
    return [
        b"\n".join((json.dumps(head).encode(), line[:-1], json.dumps({"partitions": [whole]}).encode(), b""))
    ]


def _sealed_tail(damaged: bytes) -> bytes:
    """The digest in the last line fits the only record."""
    lines = damaged.split(b"\n")
    if len(lines) != 4:
        return damaged
    fitting = sha256(lines[1] + b"\n").hexdigest().encode()
    return b"\n".join((*lines[:2], re.sub(rb"[0-9a-f]{64}", fitting, lines[2]), lines[3]))


def _read_tail(data: bytes) -> None:
    read_export(as_file(data))


@cache
def _signing_key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def _pages() -> list[bytes]:
    around = b"<html>" + EVIDENCE + b"</script>" + SIGNATURE + b"</pre></html>"
    payload = json.dumps({"page_sha256": sha256(around).hexdigest(), "kind": "verify"}).encode()
    return [_sealed_page(around.replace(EVIDENCE, EVIDENCE + payload))]


def _sealed_page(damaged: bytes) -> bytes:
    found = re.search(re.escape(EVIDENCE) + rb"([^<]*)</script>", damaged)
    if found is None:
        return damaged
    signature = b64encode(_signing_key().sign(found[1]))
    return re.sub(
        re.escape(SIGNATURE) + rb"[^<]*</pre>", lambda _: SIGNATURE + signature + b"</pre>", damaged, count=1
    )


def _check_page(data: bytes) -> None:
    check(data, _signing_key().public_key())


def _keys() -> Iterator[bytes]:
    key = _signing_key()
    yield key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    yield key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _names() -> list[bytes]:
    return [json.dumps({"groups": ["app", "billing"], "topics": []}).encode()]


def _json_values() -> list[bytes]:
    return [b'{"email": "a@b", "items": [{"card": 1.5e3, "n": null}, {}], "deep": {"a": "\\u00e9"}}']


def _mask(data: bytes) -> None:
    rewriter = JsonRewriter(parse_paths(["email", "items[*].card", "deep.a"]), lambda value: f"[{value}]")
    rewriter.rewrite(data)


def _points() -> list[bytes]:
    return [json.dumps([asdict(some(VerifiedRecord))]).encode()]


def _labs() -> list[bytes]:

    broker = some(BrokerState)
    return [json.dumps({**asdict(some(LabState)), "brokers": [asdict(broker)]}).encode()]


def _read_lab(data: bytes) -> None:
    StateDirectory(as_file(data, "lab.json").parent).read()
