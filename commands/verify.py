"""``mmtool verify``: compare both sides of a flow."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from mmtool.commands import _options as options
from mmtool.commands import evidence
from mmtool.errors import UsageError
from mmtool.output import Column, OutputFormat, Result, finish, talk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmtool.errors import MmtoolError
    from mmtool.evidence.document import Evidence
    from mmtool.insight.flow_now import FlowClusters
    from mmtool.insight.verify.preparation import Since
    from mmtool.insight.verify.verification import Options, Verification

Sample = Annotated[
    str | None,
    typer.Option("--sample", metavar="P", help="Compare only a random part of the records: 5% or 0.05."),
]

Transactions = Annotated[
    bool,
    typer.Option("--transactions", help="List source transactions that are only partly on the target."),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="last|TIME",
        help="Compare only the records after this point. last: the end of the range that earlier runs found identical;"
        " or a time with its zone, for example 2026-01-31T12:00:00Z.",
    ),
]


def _exact(number: object) -> str:
    return f"{number:,}" if isinstance(number, int) else ""


_FOUND = ("missing", "duplicated", "reordered", "mutated", "foreign", "mapping")
_COLUMNS = (
    Column("source", essential=False),
    Column("target", essential=False),
    Column("topic", elide=True),
    Column("partition"),
    Column("verdict"),
    *(Column(key, essential=False, human=_exact) for key in ("records_compared", *_FOUND, "lag_records")),
    Column("reason"),
)


def verify(
    *,
    where: options.ChosenFlows,
    topic: options.Topic = None,
    sample: Sample = None,
    since: SinceOption = None,
    transactions: Transactions = False,
    html: evidence.HtmlFile = None,
    sign: evidence.Sign = None,
    output: options.Output = OutputFormat.TABLE,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Compare source and target record by record, on Spark: count, order, content, timestamp, offset mapping.

    Changes no topic, record or group of yours. Without --sample, verify stores how far it compared, for a later run
    with --since last: in mmtool's control topic on the target, or in a file on this host if it may not write there.

    Exit code 0: all partitions are identical. 8: one is different, or could not be compared in full.
    """
    from mmtool.commands._connections import connected_flows
    from mmtool.insight.verify.verdicts import gate
    from mmtool.insight.verify.verification import Options, verify

    asked = Options(tuple(topic or ()), _fraction(sample), _since(since), transactions)
    page = evidence.asked_for(html, sign)
    flows = connected_flows(where, timeout)
    clock = _Clock()
    if page is not None:
        page.claim()
    found = verify(flows, asked, clock.say)
    unwritten = None if page is None else page.write(clock.evidence(found, asked, flows))
    differences = gate(found.rows)
    errors = () if unwritten is None else (unwritten,)
    finish(_result(found, errors), output, differences or unwritten)


class _Clock:
    """When a comparison began, and when it said what."""

    def __init__(self) -> None:
        self._began_ms = _now_ms()
        self._said: list[tuple[int, str]] = []

    def say(self, sentence: str) -> None:
        self._said.append((_now_ms(), sentence))
        talk(sentence)

    def evidence(self, found: Verification, asked: Options, flows: Sequence[FlowClusters]) -> Evidence:
        from mmtool.evidence.comparison import ComparisonRun, comparison_evidence
        from mmtool.evidence.document import environment
        from mmtool.runtime.process import operator

        run = ComparisonRun(operator(), self._began_ms, _now_ms(), self._said)
        return comparison_evidence(found, asked, run, environment(flow.settings for flow in flows))


def _now_ms() -> int:
    return int(time.time() * 1000)


def _result(found: Verification, errors: tuple[MmtoolError, ...]) -> Result:
    from mmtool.insight.verify.verdicts import severity

    documents = found.documents()
    table = sorted(documents, key=severity)
    return Result(
        "verify",
        table,
        _COLUMNS,
        warnings=tuple(found.warnings),
        errors=errors,
        data=documents,
        summary=found.summary,
    )


def _fraction(text: str | None) -> float:
    """``5%`` or ``0.05`` as 0.05.

    Raises:
        UsageError: It is neither, or not between 0 and 1.
    """
    if text is None:
        return 1.0
    try:
        part = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        part = 0.0
    if not 0 < part <= 1:
        raise UsageError(
            f"--sample {text}: expected more than 0% and at most 100% of the records",
            remedy="write --sample 5% or --sample 0.05",
        )
    return part


def _since(text: str | None) -> Since | None:
    """``last``, or a time with its zone.

    Raises:
        UsageError: It is neither.
    """
    from mmtool.config.values import parse_instant

    if text is None or text == "last":
        return text  # type: ignore[return-value]  # the literal
    try:
        return parse_instant(text)
    except ValueError as error:
        raise UsageError(
            f"--since {text}: neither last nor {error}",
            remedy="write --since last or --since 2026-01-31T12:00:00Z",
        ) from None
