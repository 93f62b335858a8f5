"""``translate-offsets``: show translated offsets as rows, write Kafka's reset file, or commit them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError, RefusedError
from mmtool.failover.commits.apply import apply
from mmtool.failover.report.rows import Row, TranslationRow, reset_lines, translation_rows
from mmtool.plan.groups.imports import write_reset_csv
from mmtool.plan.words import counted, few, tally
from mmtool.runtime.files import write_named

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from mmtool.insight.translation import Translation
    from mmtool.plan.groups.offsets import GroupPlan
    from mmtool.translation.answers import Reason


@dataclass(frozen=True, slots=True)
class Moved:
    """The rows after the command, its error, if any, and the file with the replaced commits."""

    rows: Sequence[Row]
    error: MmtoolError | None
    undo: Path | None = None


def rehearsed(found: Translation) -> list[TranslationRow]:
    """The rows of a translation of which nothing is committed."""
    return translation_rows(found.plans)


def moved(found: Translation, *, synced: bool) -> Moved:
    """Commit the translated offsets, and return the rows afterwards; ``synced`` and errors as for `apply`."""
    applied = apply(found.flow.written_at(found.rules.direction), found.plans, synced=synced)
    return Moved(translation_rows(found.plans, applied.written), applied.error, applied.undo)


def refusal(found: Translation) -> RefusedError | None:
    """The error of a whole translation: for partitions that block their group, else the translation's own error."""
    return refusal_of(found.plans) or found.error


def refusal_of(plans: Iterable[GroupPlan]) -> RefusedError | None:
    """One error for every blocking verdict of some plans: how many for each reason, and its meaning; None without."""
    refused = [(plan, verdict) for plan in plans for verdict in plan.blocking]
    blocking = [verdict for _, verdict in refused]
    reasons = [verdict.refusal for verdict in blocking if verdict.refusal is not None]
    if not reasons:
        return None
    groups = sorted({verdict.group for verdict in blocking})
    said = sorted({f"{verdict.refusal}: {plan.why(verdict)}" for plan, verdict in refused})
    return refused_for(reasons, groups_of(groups), "; ".join(said))


def refused_for(reasons: Collection[Reason], whom: str, remedy: str) -> RefusedError:
    """The error for refused partitions, counted by reason; its code is the reason if there is only one."""
    code = next(iter(reasons)) if len(set(reasons)) == 1 else "refused"
    return RefusedError(f"offsets refused: {tally(reasons)} ({whom})", remedy=remedy, code=code)


def question(found: Translation) -> str:
    """What ``--execute`` would commit for a translation, as one sentence."""
    return question_of(found.plans, found.flow.written_at(found.rules.direction).alias)


def question_of(plans: Collection[GroupPlan], where: str) -> str:
    """What ``--execute`` would commit for plans on the cluster ``where``, as one sentence."""
    writing = [plan for plan in plans if plan.to_write()]
    partitions = sum(len(plan.to_write()) for plan in writing)
    blocked = sum(plan.blocked for plan in plans)
    left = f" ({counted(blocked, 'refused group')} unchanged)" if blocked else ""
    names = groups_of([plan.group for plan in writing])
    return f"commit {counted(partitions, 'offset')} of {names} on {where}{left}"


def summary(rows: Iterable[Row]) -> str:
    """How many rows are exact, bounded, refused and written, in one line; empty without rows."""
    found = list(rows)
    counts = Counter(str(row["exactness"]) for row in found)
    written = sum(bool(row["written"]) for row in found)
    said = [f"{counts[word]} {word}" for word in ("exact", "bounded", "refused") if counts[word]]
    return ", ".join([*said, f"{written} written"] if written else said)


def write_csv(path: Path, found: Translation, *, with_group: bool) -> str:
    """Write Kafka's reset file, and return a sentence about the refused rows that it leaves out; empty without any.

    Raises:
        UsageError: The file cannot be written.
    """
    write_named("--csv", path, write_reset_csv(reset_lines(found.plans, with_group=with_group)).encode())
    return left_out(str(path), found)


def left_out(what: str, found: Translation) -> str:
    """A sentence about the refused rows that Kafka's reset file leaves out; empty without any."""
    verdicts = [verdict for plan in found.plans for verdict in plan.verdicts]
    reasons = [verdict.refusal for verdict in verdicts if verdict.refusal is not None]
    return (
        f"{what} has no line for {counted(len(reasons), 'refused row')}: {tally(reasons)}" if reasons else ""
    )


def groups_of(names: list[str]) -> str:
    return f"{'groups' if len(names) > 1 else 'group'} {few(names)}"
