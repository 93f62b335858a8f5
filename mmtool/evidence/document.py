"""The JSON that an evidence page embeds, with the host and the versions that it was made with."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass, field, fields
from enum import StrEnum
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypedDict

from mmtool import __version__
from mmtool.output.redaction import NOTHING, redacted
from mmtool.runtime.process import operator

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mmtool.config import FlowSettings


FORMAT: Literal["mmtool-evidence"] = "mmtool-evidence"
SCHEMA_VERSION = 1

Document: TypeAlias = "dict[str, Any]"

_FREE_TEXT = frozenset({"detail", "event", "problem", "reason", "sentence", "warnings"})
_MARKUP = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


class PageKind(StrEnum):
    """The kinds of pages."""

    VERIFY = "verify"
    OPERATION = "operation"
    DRILL = "drill"


class Tone(StrEnum):
    """How a verdict is shown."""

    GOOD = "good"
    BAD = "bad"
    OPEN = "open"


class PageVerdict(NamedTuple):
    """The overall result of a page.

    Attributes:
        word: One word for scripts: ``identical``, ``completed`` and so on.
        tone: How it is shown.
        sentence: What the word means.
    """

    word: str
    tone: Tone
    sentence: str


class Fact(NamedTuple):
    """One line of a table with two columns.

    Attributes:
        key: A stable name for scripts.
        name: Its name on the page.
        value: A JSON value; None where it is not known.
        unit: Of a number; empty where it counts things.
    """

    key: str
    name: str
    value: Any
    unit: str = ""


class Moment(NamedTuple):
    """One line of the timeline.

    Attributes:
        at_ms: Since 1970, by the clock of the host that wrote it.
        by: ``user@host``.
        event: What happened.
        detail: More about it; may be empty.
        state: The operation's state afterwards; empty in a comparison.
    """

    at_ms: int
    by: str
    event: str
    detail: str = ""
    state: str = ""


class Hash(NamedTuple):
    """A SHA-256, and how to compute it again.

    Attributes:
        of: What it was computed of.
        sha256: In hexadecimal digits.
        recompute: How to compute it again from that source.
    """

    of: str
    sha256: str
    recompute: str


class EvidenceDocument(TypedDict):
    """The JSON that an evidence page embeds.

    Attributes:
        format: Always the same.
        schema_version: Of this document.
        kind: The subject.
        generated_at: When the page was written.
        title: One line.
        verdict: The overall result.
        summary: What was done, by which operator, when.
        figures: What was measured.
        timeline: What happened, in order of time.
        rows: The rows that the command prints with `-o json`.
        warnings: Sentences.
        environment: Host and versions.
        hashes: SHA-256 of the evidence's sources, and how to compute them again.
    """

    format: Literal["mmtool-evidence"]
    schema_version: int
    kind: PageKind
    generated_at: str
    title: str
    verdict: PageVerdict
    summary: list[Fact]
    figures: list[Fact]
    timeline: list[Moment]
    rows: list[dict[str, Any]]
    warnings: list[str]
    environment: list[Fact]
    hashes: list[Hash]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The content of a page: those keys of an `EvidenceDocument` that its writer knows.

    Attributes:
        hashes: Of the evidence's sources; that of the rows is added.
    """

    kind: PageKind
    title: str
    verdict: PageVerdict
    summary: Sequence[Fact]
    figures: Sequence[Fact]
    timeline: Sequence[Moment]
    rows: Sequence[Mapping[str, Any]]
    warnings: Sequence[str] = ()
    environment: Sequence[Fact] = ()
    hashes: Sequence[Hash] = field(default_factory=tuple)

    def document(self, generated_at: str, replaced: Mapping[str, str] = NOTHING) -> Document:
        """The evidence as JSON values, with secrets hidden in all free text.

        Args:
            generated_at: The time of writing, in ISO-8601.
            replaced: What texts show in place of a word.
        """
        rows = [_redacted(dict(row), replaced) for row in self.rows]
        document = {one.name: getattr(self, one.name) for one in fields(self)} | {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "generated_at": generated_at,
            "rows": rows,
            "hashes": [*self.hashes, rows_hash(rows)],
        }
        return {key: _redacted(value, replaced, key) for key, value in document.items()}


def _redacted(value: Any, replaced: Mapping[str, str], key: str = "") -> Any:
    """The value as JSON values, with secrets hidden in free text, which people and libraries wrote; names stay."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        of = value.get("key", "")
        return {
            name: _redacted(each, replaced, of if name == "value" else name) for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redacted(each, replaced, key) for each in value]
    if isinstance(value, str):
        return redacted(value, replaced) if key in _FREE_TEXT else str(value)
    return value


def canonical(document: Mapping[str, Any]) -> bytes:
    """The document as the JSON bytes that a page embeds and that are signed."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    for character, escape in _MARKUP.items():
        text = text.replace(character, escape)
    return text.encode("ascii")


def rows_hash(rows: Iterable[Mapping[str, Any]]) -> Hash:
    """The hash of the rows as ``-o json`` prints them."""
    text = json.dumps(list(rows), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    digest = sha256(f"{text}\n".encode(errors="surrogatepass")).hexdigest()
    return Hash(
        "rows",
        digest,
        "jq -cS .data RESULT.json | sha256sum, where RESULT.json is what the command that wrote this page printed with"
        " -o json",
    )


_LIBRARIES = (("confluent_kafka", "confluent-kafka"), ("aiokafka", "aiokafka"), ("pyspark", "pyspark"))


def environment(flows: Iterable[FlowSettings]) -> tuple[Fact, ...]:
    """Facts about this process and host, and the clusters' bootstrap servers as configured."""
    clusters = {cluster.alias: cluster for flow in flows for cluster in (flow.source, flow.target)}
    return (
        Fact("written_by", "page written by", operator()),
        Fact("mmtool", "mmtool", __version__),
        Fact("python", "Python", platform.python_version()),
        *(Fact(key, name, _version(name)) for key, name in _LIBRARIES),
        Fact("platform", "operating system", platform.platform()),
        *(
            Fact(f"bootstrap_servers_{alias}", f"bootstrap.servers of {alias}", cluster.bootstrap_servers)
            for alias, cluster in clusters.items()
        ),
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
