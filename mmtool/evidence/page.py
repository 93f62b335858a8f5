"""Render a document as a self-contained HTML page, without scripts or external resources, and write it."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from mmtool.evidence.document import PageKind, canonical
from mmtool.evidence.signature import EVIDENCE, SIGNATURE
from mmtool.output.documents import page_template, write_claimed
from mmtool.output.values import UNKNOWN_CELL, iso
from mmtool.plain_text import printable
from mmtool.plan.groups.facts import shown_name
from mmtool.plan.records.identity import JOURNAL_TOPIC
from mmtool.plan.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from markupsafe import Markup

    from mmtool.evidence.document import Document, Evidence
    from mmtool.evidence.signature import Signer

    Row = Mapping[str, Any]


_OPEN_ROWS = 60
"""The most rows of unremarkable results that are shown open rather than folded."""
_UNREMARKABLE = frozenset({"", "no_commit"})
_RANK = {"different": 0, "incomplete": 1, "identical": 2}
_TONES = {"identical": "good", "different": "bad", "incomplete": "open", "failed": "bad", "done": "good"}
_SYMBOLS = {"good": "\u2713", "bad": "\u2717", "open": "\u25cb"}
_HASHED = {
    "journal": f"entries of the operation in {JOURNAL_TOPIC}",
    "plan": f"plan of the operation in {JOURNAL_TOPIC}",
    "rows": "rows of the result",
}


class Table(NamedTuple):
    """A table of the page.

    Attributes:
        columns: For each the key of its values, the heading, and the kind of its values: ``number``, ``digits`` (an
            offset or a partition number, without separators, so that it can be copied), ``word`` (not broken),
            ``mark`` (a word with its colour), ``code``, ``name``, or ``prose`` (may be empty).
        rows: The values.
    """

    columns: Sequence[tuple[str, str, str]]
    rows: Sequence[Row]


_LOOKS = {"digits": "number", "mark": "word", "code": "word"}
"""The classes in ``page.css`` of the kinds of values that have no class of their own name."""


def render(document: Document) -> str:
    """The page as HTML, with empty elements for its JSON and its signature."""
    is_comparison = document["kind"] == PageKind.VERIFY
    return page_template("mmtool.evidence", "page.html.j2", shown).render(
        document,
        comparison=_comparison(document["rows"]) if is_comparison else None,
        operations=[] if is_comparison else [_operation(row) for row in document["rows"]],
        timeline=_timeline(document["timeline"]),
        open_rows=_OPEN_ROWS,
        looks=_LOOKS,
        tones=_TONES,
        symbols=_SYMBOLS,
        hashed=_HASHED,
        counted=counted,
        evidence=EVIDENCE.decode(),
        signature=SIGNATURE.decode(),
    )


def shown(value: Any) -> Markup:
    """A value as HTML for people; an unknown one as a dash."""
    from markupsafe import Markup

    match value:
        case Markup():
            return value
        case None | "":
            text = UNKNOWN_CELL
        case bool():
            text = "yes" if value else "no"
        case int() | float():
            text = f"{value:,}"
        case _:
            text = printable(str(value))
    return Markup(escape(text))  # noqa: S704 - escaped on this line


def _comparison(rows: Sequence[Row]) -> dict[str, Table]:
    """The tables of a comparison: partitions that differ, identical ones, and half-mirrored transactions."""
    found = [{**row, "flow": f"{row['source']}->{row['target']}"} for row in rows]
    ordered = sorted(found, key=lambda row: _RANK[row["verdict"]])
    wrong = [row for row in ordered if row["verdict"] != "identical"]
    place = [
        *([("flow", "flow", "word")] if len({row["flow"] for row in found}) > 1 else []),
        ("topic", "topic", "name"),
        ("partition", "partition", "digits"),
        ("verdict", "verdict", "mark"),
        ("reason", "reason", "prose"),
    ]
    compared, lag = ("records_compared", "compared", "number"), ("lag_records", "lag", "number")
    counts = [(key, key, "number") for key in _DIFFERENCES]
    return {
        "wrong": Table([*place, compared, *counts, lag], wrong),
        "same": Table([*place, compared, lag], ordered[len(wrong) :]),
        "halves": Table(_HALF_COLUMNS, _halves(rows)),
    }


_DIFFERENCES = ("missing", "duplicated", "reordered", "mutated", "foreign", "mapping")
"""The keys of a partition's row that count differences."""
_HALF_COLUMNS = (
    ("producer_id", "producer id", "digits"),
    ("producer_epoch", "epoch", "digits"),
    ("topic", "topic", "name"),
    ("partition", "partition", "digits"),
    ("offsets", "source offsets", "word"),
    ("arrived", "on the target", "word"),
    ("certain", "certainly one transaction", "word"),
)


def _halves(rows: Sequence[Row]) -> list[Row]:
    """The parts of half-mirrored transactions, each once although every partition's row has it."""
    halves = [half for row in rows for half in row.get("half_mirrored", ())]
    once = {(half["producer_id"], half["producer_epoch"], str(half["partitions"])): half for half in halves}
    return [
        {**half, **part, "offsets": f"{part['first_offset']} to {part['last_offset']}"}
        for half in once.values()
        for part in half["partitions"]
    ]


_STEP_COLUMNS = (
    ("number", "no.", "number"),
    ("name", "step", "code"),
    ("state", "state", "mark"),
    ("sentence", "what it does", "prose"),
)


def _operation(row: Row) -> dict[str, Any]:
    """The steps and groups of an operation: groups with a problem first; others are folded where there are many."""
    groups = [_group(group, row) for group in row["groups"]]
    return {
        "mode": row["mode"],
        "steps": Table(_STEP_COLUMNS, [{**step, "number": n} for n, step in enumerate(row["steps"], 1)]),
        "groups": sorted(groups, key=lambda group: bool(group["is_calm"])),
        "is_short": sum(len(group["partitions"]) for group in row["groups"]) <= _OPEN_ROWS,
    }


def _group(group: Row, row: Row) -> dict[str, Any]:
    """One group; it is calm if each partition has its exact offset, and lost nothing."""
    moved = [one for one in group["partitions"] if one["reason"] != "no_commit"]
    exact = sum(one["exactness"] == "exact" for one in moved)
    refused = sum(bool(one["reason"]) for one in moved)
    there = group.get("target_group", group["group"])  # an older mmtool wrote none
    return {
        "name": shown_name(group["group"], None if there == group["group"] else there),
        "summary": f"{counted(len(moved), 'partition')}, {exact} exact, {refused} refused",
        "offsets": _offsets(moved, row),
        "is_calm": all(
            partition["reason"] in _UNREMARKABLE
            and partition["exactness"] != "bounded"
            and partition["lost_max"] == 0
            and partition["written"] is not None
            for partition in group["partitions"]
        ),
    }


def _offsets(moved: Sequence[Row], row: Row) -> Table:
    source, _, target = row["flow"].partition("->")
    left, reached = ("upstream_offset", source), ("downstream_offset", target)
    (committed, here), (new, there) = (reached, left) if row["mode"] == "failback" else (left, reached)
    columns = (
        ("topic", "topic", "name"),
        ("partition", "partition", "digits"),
        (committed, f"committed on {here}", "digits"),
        ("target_topic", f"topic on {target}", "name"),
        ("target_offset_before", f"before on {there}", "digits"),
        ("after", f"after on {there}", "digits"),
        ("exactness", "how", "word"),
        ("reread_max", "read again, at most", "number"),
        ("lost", "lost, at most", "number"),
        ("why", "reason", "prose"),
    )
    after = {None: None, True: new, False: "target_offset_before"}
    rows = [
        {
            **one,
            "after": "not known" if (key := after[one["written"]]) is None else one[key],
            "lost": "unknown" if one["lost_max"] is None else one["lost_max"],
            "why": one["detail"] or one["reason"],
        }
        for one in moved
    ]
    return Table(columns, rows)


def _timeline(moments: Sequence[Row]) -> Table:
    began = moments[0]["at_ms"] if moments else 0
    columns = [
        ("time", "time", "word"),
        ("since", "since the start", "number"),
        ("what", "event", "prose"),
        *([("state", "state", "mark")] if any(moment["state"] for moment in moments) else []),
        ("by", "by", "name"),
    ]
    rows = [
        {
            **moment,
            "time": _clock(moment["at_ms"]),
            "since": f"{(moment['at_ms'] - began) / 1000:+.3f} s",
            "what": ": ".join(filter(None, (moment["event"], moment["detail"]))),
        }
        for moment in moments
    ]
    return Table(columns, rows)


def _clock(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at_ms % 1000:03d}"


def page_bytes(document: Document, signer: Signer | None) -> bytes:
    """The whole page: rendered, with the JSON of its evidence, and that JSON's signature.

    Args:
        document: The result of `Evidence.document`.
        signer: None for a page without a signature.
    """
    whole = {**document, "signed_with": None if signer is None else signer.fingerprint}
    page = render(whole).encode()
    payload = canonical({**whole, "page_sha256": sha256(page).hexdigest()})
    signature = b"" if signer is None else signer.sign(payload)
    page = page.replace(EVIDENCE, EVIDENCE + payload, 1)
    return page.replace(SIGNATURE, SIGNATURE + signature, 1)


def write_page(path: Path, evidence: Evidence, signer: Signer | None, replaced: Mapping[str, str]) -> None:
    """Write an evidence page to a file, signed where a signer is given.

    Raises:
        CheckFailedError: The file cannot be written; the operation or comparison itself has ended.
    """
    page = page_bytes(evidence.document(iso(datetime.now(UTC)), replaced), signer)
    write_claimed(
        path, page, "the evidence page", over=_OVER[evidence.kind], remedy=_remedy(path, evidence, signer)
    )


_OVER = {
    PageKind.VERIFY: "the comparison itself",
    PageKind.OPERATION: "the operation itself",
    PageKind.DRILL: "the drill itself",
}


def _remedy(path: Path, evidence: Evidence, signer: Signer | None) -> str:
    writable = f"check that {path} can be written and that its disk has free space, then"
    if evidence.kind is PageKind.VERIFY:
        return f"{writable} run `mmtool verify` again"
    found = next(fact.value for fact in evidence.summary if fact.key == "operation_id")
    sign = "" if signer is None else " --sign KEY.pem"
    return f"{writable} write the page again: `mmtool failover show {found} -c FILE --html {path}{sign}`"
