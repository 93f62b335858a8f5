"""The diverged records that a failback's groups skip: where they are, and how the groups can read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.failover.diverged_tail.tail_file import default_name
from mmtool.failover.report.rows import offset_of
from mmtool.plain_text import shell_line, shell_word
from mmtool.plan.failover.choices import REPLAYED, ToTopic
from mmtool.plan.groups.imports import ResetLine, write_reset_csv
from mmtool.plan.words import counted, few

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mmtool.failover.diverged_tail.tails import FoundTails
    from mmtool.failover.modes.cutover import Ended
    from mmtool.plan.groups.offsets import GroupPlan

_MOST_LINES = 20
"""How many partitions of groups a command to paste sets back."""


def skipped_from(plans: Iterable[GroupPlan], tails: FoundTails) -> Iterator[ResetLine]:
    """The offset on the source of the first diverged record that a group skips, by group and partition."""
    for plan in plans:
        for verdict in plan.verdicts:
            found = None if verdict.source is None else tails.of(verdict.source)
            offset = offset_of(verdict)
            if found is None or offset is None or not found.tail.records_below(offset):
                continue
            read = 0 if verdict.before is None else verdict.before.offset
            first = max(found.tail.parts[0].start, read)
            if first < offset:
                yield ResetLine(plan.group, found.place, first)


def place_of_skipped(ended: Ended) -> str:
    """Where the diverged records are that the groups skip; empty if they skip none, or read replayed ones."""
    plan = ended.rehearsal.plan
    if not ended.cutover.figures.diverged_records or plan.diverged == REPLAYED:
        return ""
    if isinstance(plan.diverged, ToTopic):
        return f"topic {plan.diverged.topic} of {ended.rehearsal.names.source}"
    return str(ended.folder / default_name(plan.operation_id))


def way_to_read_skipped(ended: Ended, bootstrap: str) -> tuple[str, tuple[str, ...]]:
    """How the groups can read the diverged records that they skip: a sentence, and commands that set them back.

    Args:
        ended: A failback whose groups skip records.
        bootstrap: The bootstrap servers of the flow's source.
    """
    source, number = ended.rehearsal.names.source, ended.cutover.figures.diverged_records or 0
    groups = sorted({line.group for line in ended.skipped if line.group is not None})
    said = (
        f"{few(groups or ended.cutover.groups)} will skip {counted(number, 'record')} on {source}, which are in"
        f" {place_of_skipped(ended)}: before the consumers start, let their application process these records from"
        f" there, or set the groups back"
    )
    if ended.rehearsal.settings.keeps_names:
        said += " (they then also read again what was mirrored behind these records)"
    if not 0 < len(ended.skipped) <= _MOST_LINES:
        return f"{said} with `kafka-consumer-groups --reset-offsets`", ()
    lines = [line._replace(group=None) for line in ended.skipped] if len(groups) == 1 else ended.skipped
    file = f"mmtool-diverged-{ended.rehearsal.plan.operation_id}.csv"
    named = [word for group in groups for word in ("--group", group)]
    tool = ["kafka-consumer-groups", "--bootstrap-server", bootstrap, *named, "--reset-offsets"]
    written = shell_line(["printf", r"%s\n", *write_reset_csv(lines).splitlines()])
    reset = shell_line([*tool, "--from-file", file, "--execute"])
    return f"{said}:", (f"{written} > {shell_word(file)}", reset)
