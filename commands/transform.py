"""``mmtool transform``: try a flow's transforms on records of a topic."""

from __future__ import annotations

from typing import Annotated

import typer

from mmtool.commands import _options as options
from mmtool.output import Column, OutputFormat, Result, finish

app = typer.Typer(no_args_is_help=True)

_COLUMNS = (
    Column("topic", essential=False, elide=True),
    Column("partition"),
    Column("offset"),
    Column("action"),
    Column("before", note=True),
    Column("after", note=True),
)

Topic = Annotated[
    str, typer.Option("--topic", metavar="TOPIC", help="Source topic whose newest records are tried.")
]
Records = Annotated[
    int, typer.Option("--records", metavar="N", min=1, max=10_000, help="How many records, the newest ones.")
]
ShowValues = Annotated[
    bool,
    typer.Option(
        "--show-values", help="Show keys, values and headers; without it only their sizes in bytes."
    ),
]


@app.callback()
def main() -> None:
    """Try a flow's transforms on records of a topic."""


@app.command("try")
def try_(
    *,
    where: options.ChosenFlow,
    topic: Topic,
    records: Records = 20,
    show_values: ShowValues = False,
    output: options.Output = OutputFormat.TABLE,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Show what the flow's transforms make of the newest records of a topic. Writes nothing.

    Exit code 0: every record was kept, changed or dropped. 2: no transform applies to the topic, or it failed; the
    records before are shown.
    """
    from mmtool.commands._connections import one_flow
    from mmtool.insight.transform_trial import try_transform

    found = try_transform(one_flow(where), topic, records, timeout, show_values=show_values)
    errors = () if found.failed is None else (found.failed,)
    result = Result(
        "transform try", found.rows, _COLUMNS, errors=errors, summary=found.summary, warnings=found.warnings
    )
    finish(result, output, found.failed)
