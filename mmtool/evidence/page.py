"""Render a document as a self-contained HTML page, without scripts or external resources, and write it."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from mmtool.evidence.document import Kind, canonical
from mmtool.evidence.markup import Html, facts, fold, joined, plain_number, section, table, tag, text
from mmtool.evidence.signature import EVIDENCE, SIGNATURE
from mmtool.output.documents import write_claimed
from mmtool.output.values import iso
from mmtool.plan.records.identity import JOURNAL_TOPIC
from mmtool.plan.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from mmtool.evidence.document import Document, Evidence
    from mmtool.evidence.signature import Signer


_OPEN_ROWS = 60
"""The most rows of unremarkable results that are shown open rather than folded."""
_UNREMARKABLE = frozenset({"", "no_commit"})
_RANK = {"different": 0, "incomplete": 1, "identical": 2}
_TONES = {"identical": "good", "different": "bad", "incomplete": "open", "failed": "bad", "done": "good"}
_SYMBOLS = {"good": "\u2713", "bad": "\u2717", "open": "\u25cb"}


def render(document: Document) -> str:
    """The page as HTML, with empty elements for its JSON and its signature."""
    body = joined(
        [
            _head(document),
            section("Summary", facts((f["name"], _value(f)) for f in document["summary"])),
            section("Figures", tag("div", _fact_table(document["figures"]), class_="figures")),
            *_warnings(document),
            *_content(document),
            _timeline(document),
            section("Environment and versions", _fact_table(document["environment"])),
            _hashes(document),
            _signature(document),
        ]
    )
    title = text(f"{document['verdict']['word']}: {document['title']}")
    return _PAGE.format(
        title=title,
        style=_style(),
        body=body,
        evidence=EVIDENCE.decode(),
        signature=SIGNATURE.decode(),
    )


_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
{body}
{signature}</pre>
{evidence}</script>
</body>
</html>
"""


@cache
def _style() -> str:
    return files("mmtool.evidence").joinpath("page.css").read_text(encoding="utf-8")


def _head(document: Document) -> Html:
    verdict = document["verdict"]
    word = tag("strong", f"{_SYMBOLS[verdict['tone']]} {verdict['word']}")
    return joined(
        [
            tag("h1", document["title"]),
            tag("div", word, tag("span", verdict["sentence"]), class_=f"verdict {verdict['tone']}"),
            tag(
                "p",
                f"Evidence page of mmtool, written {document['generated_at']}. Times are UTC.",
                class_="quiet",
            ),
        ]
    )


def _fact_table(found: Sequence[Mapping[str, Any]]) -> Html:
    return facts((fact["name"], _value(fact)) for fact in found)


def _value(fact: Mapping[str, Any]) -> Html:
    value = fact["value"]
    if value is None:
        return Html("not known" if fact["key"] != "reason" else "none")
    return Html(f"{text(value)} {text(fact['unit'])}") if fact["unit"] else text(value)


def _warnings(document: Document) -> Iterator[Html]:
    if document["warnings"]:
        items = joined([tag("li", sentence) for sentence in document["warnings"]])
        yield section("Warnings", tag("ul", items))


def _content(document: Document) -> Iterator[Html]:
    if document["kind"] == Kind.VERIFY:
        yield from _comparison(document["rows"])
        return
    for row in document["rows"]:
        yield _steps(row)
        yield _groups(row)


def _comparison(rows: Sequence[Mapping[str, Any]]) -> Iterator[Html]:
    ordered = sorted(rows, key=lambda row: _RANK[row["verdict"]])
    wrong = [row for row in ordered if row["verdict"] != "identical"]
    same = ordered[len(wrong) :]
    several = len({_flow(row) for row in rows}) > 1
    parts = [_partitions(wrong, _COUNTS, several=several) if wrong else tag("p", "No partition differs.")]
    if same:
        content = _partitions(same, ("records_compared", "lag_records"), several=several)
        parts.append(
            fold(counted(len(same), "identical partition"), content, is_open=len(same) <= _OPEN_ROWS)
        )
    yield section("Partitions", *parts)
    halves = [half for row in rows for half in row.get("half_mirrored", ())]
    if halves:
        yield section("Transactions that are only partly on the target", _halves(halves))


_COUNTS = (
    "records_compared",
    "missing",
    "duplicated",
    "reordered",
    "mutated",
    "foreign",
    "mapping",
    "lag_records",
)
"""The keys of a partition's row that count differences."""


def _flow(row: Mapping[str, Any]) -> str:
    return f"{row['source']}->{row['target']}"


def _partitions(rows: Sequence[Mapping[str, Any]], counts: Sequence[str], *, several: bool) -> Html:
    flow = [("flow", "word")] if several else []
    place = [("topic", "name"), ("partition", "number"), ("verdict", "word"), ("reason", "prose")]
    numbers = [(key.removesuffix("_records").removeprefix("records_"), "number") for key in counts]
    return table(
        [*flow, *place, *numbers],
        [
            [
                *([_flow(row)] if several else []),
                row["topic"],
                plain_number(row["partition"]),
                _mark(row["verdict"]),
                row["reason"] or Html(""),
                *(row[key] for key in counts),
            ]
            for row in rows
        ],
    )


def _mark(word: str) -> Html:
    tone = _TONES.get(word)
    return text(word) if tone is None else tag("span", f"{_SYMBOLS[tone]} {word}", class_=f"mark {tone}")


def _halves(halves: Sequence[Mapping[str, Any]]) -> Html:
    """A table of half-mirrored transactions, each shown once although every partition's row has it."""
    once = {(half["producer_id"], half["producer_epoch"], str(half["partitions"])): half for half in halves}
    rows = [
        [
            plain_number(half["producer_id"]),
            plain_number(half["producer_epoch"]),
            part["topic"],
            plain_number(part["partition"]),
            f"{part['first_offset']} to {part['last_offset']}",
            part["arrived"],
            half["certain"],
        ]
        for half in once.values()
        for part in half["partitions"]
    ]
    columns = (
        ("producer id", "number"), ("epoch", "number"), ("topic", "name"), ("partition", "number"),
        ("source offsets", "word"), ("on the target", "word"), ("certainly one transaction", "word"),
    )  # fmt: skip
    return table(columns, rows)


def _steps(row: Mapping[str, Any]) -> Html:
    rows = [
        [number, tag("code", step["name"]), _mark(step["state"]), step["sentence"]]
        for number, step in enumerate(row["steps"], 1)
    ]
    return section("Steps of the plan", table(_STEP_COLUMNS, rows))


_STEP_COLUMNS = (("no.", "number"), ("step", "word"), ("state", "word"), ("what it does", "prose"))


def _groups(row: Mapping[str, Any]) -> Html:
    """The section about groups: groups with a problem first; others are folded where there are many partitions."""
    told = [(group, _to_look_at(group)) for group in row["groups"]]
    many = sum(len(group["partitions"]) for group, _ in told) > _OPEN_ROWS
    parts = [
        fold(_about(group), _offsets(group, row), is_open=wrong or not many)
        for group, wrong in sorted(told, key=lambda one: not one[1])
    ]
    note = tag("p", _NOTES.get(row["mode"], _NOTE), class_="quiet")
    return section("Groups: before and after", note, *(parts or [tag("p", "No group.")]))


_NOTE = (
    "Before: the offset that the group had committed, before the operation, on the cluster to which the groups move."
    " After: the offset that the operation has committed there, as its journal records it; consumers may have committed"
    ' other offsets since. A rollback restores the offsets "before". Partitions in which the group had no commit on'
    " the cluster that it leaves are not listed; the embedded JSON has them."
)
_NOTES = {
    "drill": "A drill commits offsets for copies of the groups only, and deletes the copies at its end: the groups"
    " themselves were not changed.",
}


def _to_look_at(group: Mapping[str, Any]) -> bool:
    return any(
        partition["reason"] not in _UNREMARKABLE
        or partition["exactness"] == "bounded"
        or partition["lost_max"] != 0
        or (partition["written"] is None)
        for partition in group["partitions"]
    )


def _about(group: Mapping[str, Any]) -> Html:
    moved = [one for one in group["partitions"] if one["reason"] != "no_commit"]
    refused = sum(bool(one["reason"]) for one in moved)
    exact = sum(one["exactness"] == "exact" for one in moved)
    said = f": {counted(len(moved), 'partition')}, {exact} exact, {refused} refused"
    return Html(tag("strong", group["group"]) + text(said))


def _offsets(group: Mapping[str, Any], row: Mapping[str, Any]) -> Html:
    source, _, target = row["flow"].partition("->")
    home = row["mode"] == "failback"
    here, there = (target, source) if home else (source, target)
    moved = [one for one in group["partitions"] if one["reason"] != "no_commit"]
    columns = (
        ("topic", "name"), ("partition", "number"), (f"committed on {here}", "number"),
        (f"topic on {target}", "name"), (f"before on {there}", "number"), (f"after on {there}", "number"),
        ("how", "word"), ("read again, at most", "number"), ("lost, at most", "number"), ("reason", "prose"),
    )  # fmt: skip
    return table(columns, (_offset(one, home=home) for one in moved))


def _offset(one: Mapping[str, Any], *, home: bool) -> list[Any]:
    up, down = plain_number(one["upstream_offset"]), plain_number(one["downstream_offset"])
    here, there = (down, up) if home else (up, down)
    before = plain_number(one["target_offset_before"])
    after = Html("not known") if one["written"] is None else there if one["written"] else before
    place = [one["topic"], plain_number(one["partition"]), here, one["target_topic"]]
    costs = [one["reread_max"], "unknown" if one["lost_max"] is None else one["lost_max"]]
    return [*place, before, after, one["exactness"], *costs, one["detail"] or one["reason"] or Html("")]


def _timeline(document: Document) -> Html:
    moments = document["timeline"]
    began = moments[0]["at_ms"] if moments else 0
    states = [("state", "word")] if any(moment["state"] for moment in moments) else []
    rows = [
        [
            _clock(moment["at_ms"]),
            f"{(moment['at_ms'] - began) / 1000:+.3f} s",
            ": ".join(filter(None, (moment["event"], moment["detail"]))),
            *(_mark(moment["state"]) for _ in states),
            moment["by"],
        ]
        for moment in moments
    ]
    columns = [("time", "word"), ("since the start", "number"), ("event", "prose"), *states, ("by", "name")]
    content = table(columns, rows)
    if len(rows) > _OPEN_ROWS:
        content = fold(counted(len(rows), "event"), content, is_open=False)
    return section("Timeline", content)


def _clock(at_ms: int) -> Html:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return Html(at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at_ms % 1000:03d}")


_HASHED = {
    "journal": f"entries of the operation in {JOURNAL_TOPIC}",
    "plan": f"plan of the operation in {JOURNAL_TOPIC}",
    "rows": "rows of the result",
}


def _hashes(document: Document) -> Html:
    parts = [
        Html(
            tag("h3", f"SHA-256 of the {_HASHED.get(one['of'], one['of'])}")
            + tag("pre", one["sha256"])
            + _again(one["recompute"])
        )
        for one in document["hashes"]
    ]
    return section("Hashes", *parts)


def _again(command: str) -> Html:
    return tag("p", Html("To compute it again: "), tag("code", command), class_="quiet")


def _signature(document: Document) -> Html:
    if document["signed_with"] is None:
        return section(
            "Signature",
            tag(
                "p",
                "This page is not signed: it proves neither who wrote it nor that it is unchanged. --sign KEY.pem"
                " writes a signed page.",
            ),
        )
    told = (
        "This page is signed with an Ed25519 key. The signature covers the JSON that the page embeds, and through it"
        " every other byte of this file. Check it with the signer's public key, which you get from the signer and not"
        " from this page:"
    )
    return section(
        "Signature",
        tag("p", told),
        tag("pre", "mmtool evidence verify THIS-FILE.html --key PUB.pem"),
        facts([("SHA-256 of the signer's public key (DER)", tag("code", document["signed_with"]))]),
        tag("p", "The signature, in base64:", class_="quiet"),
    )


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
    Kind.VERIFY: "the comparison itself",
    Kind.OPERATION: "the operation itself",
    Kind.DRILL: "the drill itself",
}


def _remedy(path: Path, evidence: Evidence, signer: Signer | None) -> str:
    writable = f"check that {path} can be written and that its disk has free space, then"
    if evidence.kind is Kind.VERIFY:
        return f"{writable} run `mmtool verify` again"
    found = next(fact.value for fact in evidence.summary if fact.key == "operation_id")
    sign = "" if signer is None else " --sign KEY.pem"
    return f"{writable} write the page again: `mmtool failover show {found} -c FILE --html {path}{sign}`"
