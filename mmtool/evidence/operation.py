"""The evidence page of an operation: its row, and its journal as a timeline."""

from __future__ import annotations

from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, Any

from mmtool.evidence.document import Evidence, Fact, Hash, Moment, PageKind, PageVerdict, Tone
from mmtool.failover.operation.states import OperationState
from mmtool.output.values import plain_row
from mmtool.plan.failover.drill import drill_figures, shadowed
from mmtool.plan.failover.steps import Mode
from mmtool.plan.records.identity import JOURNAL_TOPIC
from mmtool.plan.records.journal import EntryKind
from mmtool.plan.words import counted, few, moment
from mmtool.translation.types import or_none

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mmtool.failover.operation.records import Recorded
    from mmtool.plan.records.journal import JournalEntry

_NAMED = 10
_TONES = {OperationState.COMPLETED: Tone.GOOD, OperationState.FAILED: Tone.BAD}
_PLANNED = frozenset({EntryKind.BEGAN, EntryKind.GROUP})
_TOGETHER = frozenset({EntryKind.GROUP, EntryKind.OUTCOME})
"""Kinds of journal entries that each group has: the timeline shows their number."""


def operation_evidence(
    found: Recorded,
    entries: Sequence[JournalEntry],
    row: Mapping[str, object],
    environment: Sequence[Fact] = (),
    warnings: Sequence[str] = (),
) -> Evidence:
    """The evidence of an operation, for its page.

    Args:
        found: The operation by its journal.
        entries: The operation's journal entries, in order.
        row: The contract's row; for a drill with its measurements.
        environment: Host and versions.
        warnings: Warnings as sentences.
    """
    shown = plain_row(row)
    is_drill = found.mode is Mode.DRILL
    return Evidence(
        PageKind.DRILL if is_drill else PageKind.OPERATION,
        f"{_TITLES[found.mode]} {found.names.flow}",
        _verdict(found),
        tuple(_summary(found, entries)),
        tuple(_figures(found, shown)),
        timeline(entries),
        (shown,),
        warnings,
        environment,
        (
            Hash("journal", _sha256_of(entries), _dump(found, "")),
            Hash(
                "plan",  # the operation's facts, and each group's new offsets
                _sha256_of(entry for entry in entries if entry.kind in _PLANNED),
                _dump(found, r""" | grep -E '"kind":"(began|group)"'"""),
            ),
        ),
    )


_TITLES = {
    Mode.PLANNED: "Planned failover",
    Mode.EMERGENCY: "Emergency failover",
    Mode.FAILBACK: "Failback",
    Mode.DRILL: "Failover drill",
}


def _verdict(found: Recorded) -> PageVerdict:
    sentence = found.operation.sentence or "the operation had not ended when this page was written"
    if found.mode is Mode.DRILL and found.state is OperationState.COMPLETED:
        sentence = (
            "every step of a planned failover was done with copies of the groups; the copies are deleted"
        )
    problem = f"; error: {found.problem}" if found.problem else ""
    return PageVerdict(found.state, _TONES.get(found.state, Tone.OPEN), sentence + problem)


def _summary(found: Recorded, entries: Sequence[JournalEntry]) -> Iterator[Fact]:
    names, is_drill = found.names, found.mode is Mode.DRILL
    here, there = found.way
    operators = list(dict.fromkeys(entry.by for entry in entries)) or [found.by]
    groups = [shadowed(name) for name in found.group_names] if is_drill else list(found.group_names)
    versions = [entry.body["version"] for entry in entries if "version" in entry.body]
    yield Fact("operation_id", "operation", found.operation_id)
    yield Fact("mode", "mode", str(found.mode))
    yield Fact("flow", "flow", names.flow)
    leave, reach = ("source", "target") if is_drill else ("groups leave", "groups go to")
    yield Fact("from", leave, here)
    yield Fact("to", reach, there)
    yield Fact("groups", "groups", f"{len(groups):,}: {few(groups, _NAMED)}")
    yield Fact("by", "done by", ", ".join(operators))
    yield Fact("reason", "reason given", found.reason or None)
    yield Fact("began_at", "began", moment(found.began_ms))
    yield Fact("changed_at", "last entry", moment(found.last_ms))
    written = "offsets were written for the copies" if is_drill else "offsets were written"
    yield Fact("point_of_no_return_passed", written, found.operation.point_of_no_return_passed)
    yield Fact("source_id", f"cluster id of {names.source}", or_none(found.source_id))
    yield Fact("target_id", f"cluster id of {names.target}", found.target_id)
    yield Fact("executed_with", "executed with", ", ".join(f"mmtool {v}" for v in dict.fromkeys(versions)))


def _figures(found: Recorded, row: Mapping[str, Any]) -> Iterator[Fact]:
    if "records_read" in row:
        yield from (Fact(*figure) for figure in drill_figures(row))
        return
    yield Fact(
        "rto_seconds", "recovery time (RTO), until the last offset was read back", row["rto_seconds"], "s"
    )
    yield Fact("rpo_records", "records lost (RPO), at most", row["rpo_records"])
    if row["source_seen_at"] is not None:
        yield Fact("lost_min", "records lost (RPO), at least", row["lost_min"])
        seen = moment(round(row["source_seen_at"].timestamp() * 1000))
        yield Fact("source_seen_at", f"{found.names.source} last seen", seen)
    yield Fact("reread_records", "records read again, at most", row["reread_records"])
    yield Fact("reread_expected", "records read again, expected", row["reread_expected"])
    yield Fact("diverged_records", _diverged(found), row["diverged_records"])


def _diverged(found: Recorded) -> str:
    """The name of the figure of diverged records, which each mode measures in its own way."""
    source, target = found.names.source, found.names.target
    match found.mode:
        case Mode.PLANNED:
            return f"records written to {source} during the failover that were not on {target} yet"
        case Mode.FAILBACK:
            return f"diverged records of {source} that the groups skip"
        case _:
            return f"records on {source} that are not on {target}"


def timeline(entries: Iterable[JournalEntry]) -> tuple[Moment, ...]:
    """One line for each journal entry; consecutive entries of one kind about groups are one line with their number."""
    found = []
    for (kind, _), of in groupby(entries, _alike):
        told = list(of)
        last = told[-1]
        event, detail = _ABOUT[EntryKind(kind)](told)
        found.append(Moment(last.at_ms, last.by, event, detail, last.state))
    return tuple(found)


def _alike(entry: JournalEntry) -> tuple[str, int]:
    return entry.kind, 0 if entry.kind in _TOGETHER else entry.number


def _began(told: Sequence[JournalEntry]) -> tuple[str, str]:
    (entry,) = told
    event = "operation began" if entry.number == 1 else "operation resumed"
    return event, f"mmtool {entry.body.get('version', '(version not recorded)')}, pid {entry.body.get('pid')}"


def _step(told: Sequence[JournalEntry]) -> tuple[str, str]:
    (entry,) = told
    return f"step {entry.body['step']}: {entry.body['step_state']}", entry.body.get("problem", "")


def _fence(told: Sequence[JournalEntry]) -> tuple[str, str]:
    body, what = told[0].body, "fence against producers"
    if not body["stands"]:
        return f"{what} lifted", ""
    if not body.get("topics", True):
        return f"{what}: these groups have no topic to fence", ""
    if body.get("ends"):
        return "log ends of the fenced topics recorded in the journal", ""
    return f"{what} recorded in the journal, before it is set", ""


def _acls(told: Sequence[JournalEntry]) -> tuple[str, str]:
    body = told[0].body
    if not body["stands"]:
        return "change of producers' ACLs undone", ""
    done = "withdrawn" if body["withdraws"] else "created"
    return (
        f"{counted(len(body['acls']), 'ACL')} of producers recorded in the journal, before being {done}",
        "",
    )


def _tail(told: Sequence[JournalEntry]) -> tuple[str, str]:
    before = (
        "diverged records (which never reached the target) recorded in the journal, before they are written"
    )
    return before if told[0].body["stands"] else "diverged records written", ""


def _intents(told: Sequence[JournalEntry]) -> tuple[str, str]:
    return (
        f"new offsets of {counted(len(told), 'group')} recorded in the journal, before they are written",
        "",
    )


def _outcomes(told: Sequence[JournalEntry]) -> tuple[str, str]:
    written = sum(len(entry.body["written"]) for entry in told)
    problems = [problem for entry in told for problem in entry.body.get("problems", ())]
    return f"{counted(written, 'offset')} of {counted(len(told), 'group')} written", few(problems, 3)


def _ended(told: Sequence[JournalEntry]) -> tuple[str, str]:
    (entry,) = told
    problem = entry.body.get("problem", "")
    return "operation ended", "; ".join(filter(None, (entry.body["sentence"], problem)))


_ABOUT = {
    EntryKind.BEGAN: _began,
    EntryKind.STEP: _step,
    EntryKind.FENCE: _fence,
    EntryKind.ACLS: _acls,
    EntryKind.TAIL: _tail,
    EntryKind.GROUP: _intents,
    EntryKind.OUTCOME: _outcomes,
    EntryKind.ENDED: _ended,
}


def _sha256_of(entries: Iterable[JournalEntry]) -> str:
    digest = sha256()
    for entry in entries:
        digest.update(entry.encode() + b"\n")
    return digest.hexdigest()


def _dump(found: Recorded, narrowed: str) -> str:
    """A command line that reads the journal and prints the same digest."""
    consume = (
        f"kafka-console-consumer.sh --bootstrap-server 'HOST:PORT of {found.names.target}' --topic {JOURNAL_TOPIC}"
        " --from-beginning --timeout-ms 10000 --property print.key=true"
    )
    of_this = f"grep '^operation/{found.operation_id}/' | LC_ALL=C sort -u | cut -f2-"
    return f"{consume} | {of_this}{narrowed} | sha256sum"
