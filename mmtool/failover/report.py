"""An operation as the contract's row, as a table, and as the next things to do."""

from __future__ import annotations

from collections import Counter
from shlex import quote
from typing import TYPE_CHECKING

from mmtool.failover.operation import Operation
from mmtool.failover.rows import Row, exactness, offset_of, places, reread_max
from mmtool.failover.writing import Outcome
from mmtool.plan.failover import KNOWN_AFTER_DRAIN, drain_cures

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from mmtool.failover.planned import Ended, Rehearsal
    from mmtool.plan.offsets import GroupPlan, Verdict
    from mmtool.translation.types import TopicPartition

Places = frozenset[tuple[str, "TopicPartition"]]


def rehearsed_row(rehearsal: Rehearsal) -> Row:
    """The row of a plan that was not executed."""
    plan = rehearsal.plan
    return {
        **_head(Operation(plan)),
        "groups": [_group(group, frozenset(), drained=False) for group in plan.groups],
        "steps": _steps(Operation(plan)),
        "rto_seconds": None,
        "rpo_records": None,
        "reread_records": None,
        "diverged_records": None,
        "undo": _undo(rehearsal),
    }


def ended_row(ended: Ended) -> Row:
    """The row of an operation that was executed."""
    found = ended.found
    drained = bool(found.plans)
    plans = found.plans or ended.rehearsal.plan.groups
    written: Places = frozenset((w.group, place) for w in found.results for place in w.written)
    return {
        **_head(ended.operation),
        "groups": [_group(group, written, drained=drained) for group in plans],
        "steps": _steps(ended.operation),
        "rto_seconds": None if found.seconds is None else round(found.seconds, 3),
        "rpo_records": found.missing,
        "reread_records": _reread(plans) if drained else None,
        "diverged_records": found.diverged,
        "undo": _undo(ended.rehearsal),
    }


def partition_rows(row: Row) -> list[Row]:
    """The operation's row laid flat, for the table and CSV: one line per group and partition."""
    groups: object = row["groups"]
    assert isinstance(groups, list)
    shared = {key: row[key] for key in ("operation_id", "mode", "state")}
    return [
        {**shared, "group": group["group"], **partition}
        for group in groups
        for partition in group["partitions"]
    ]


def _head(operation: Operation) -> Row:
    return {
        "operation_id": operation.plan.operation_id,
        "mode": "planned",
        "state": operation.standing.state,
        "point_of_no_return_passed": operation.point_of_no_return_passed,
        "flow": operation.plan.flow,
    }


def _steps(operation: Operation) -> list[Row]:
    return [
        {"name": step.name, "state": operation.state_of(step), "sentence": step.sentence}
        for step in operation.plan.steps
    ]


def _group(plan: GroupPlan, written: Collection[tuple[str, TopicPartition]], *, drained: bool) -> Row:
    return {
        "group": plan.group,
        "partitions": [_partition(plan, verdict, written, drained=drained) for verdict in plan.verdicts],
    }


def _partition(
    plan: GroupPlan, verdict: Verdict, written: Collection[tuple[str, TopicPartition]], *, drained: bool
) -> Row:
    waits = not drained and drain_cures(verdict)
    place = plan.written_to(verdict)
    return {
        **places(verdict),
        "upstream_offset": verdict.commit and verdict.commit.offset,
        "target_topic": verdict.target and verdict.target.topic,
        "downstream_offset": offset_of(verdict),
        "exactness": None if waits else exactness(verdict),
        "reread_max": reread_max(verdict),
        "lost_max": None if verdict.refusal else 0,
        # commits are asked of the living source, by the same run that writes them
        "knowledge_age_seconds": None if verdict.commit is None else 0,
        "target_offset_before": verdict.before and verdict.before.offset,
        "written": place is not None and (plan.group, place) in written,
        "reason": KNOWN_AFTER_DRAIN if waits else verdict.refusal or "",
    }


def _reread(plans: Iterable[GroupPlan]) -> int:
    return sum(reread_max(verdict) or 0 for plan in plans for verdict in plan.verdicts)


def _undo(rehearsal: Rehearsal) -> str:
    clusters = rehearsal.flow.clusters
    return (
        f"start the consumers on {clusters.source.alias} again: their commits there are not touched;"
        f" what {clusters.target.alias} had is in target_offset_before"
    )


def summary(ended: Ended) -> str:
    """What a move that went well comes to, in one line; empty for one that did not."""
    found = ended.found
    if ended.operation.error is not None or found.seconds is None:
        return ""
    words = Counter(exactness(v) for plan in found.plans for v in plan.verdicts if v.refusal is None)
    kinds = "exact" if set(words) <= {"exact"} else f"{words['exact']} exact, {words['bounded']} bounded"
    behind = (
        f"; {found.diverged} produced since are not on {ended.rehearsal.flow.clusters.target.alias} yet"
        if found.diverged
        else ""
    )
    return (
        f"moved {_counted(len(found.results), 'group')}, {_counted(words.total(), 'offset')}, {kinds};"
        f" {found.missing} records lost, {_reread(found.plans)} read again{behind}; {found.seconds:.1f} s"
    )


def _counted(number: int, thing: str) -> str:
    return f"1 {thing}" if number == 1 else f"{number} {thing}s"


def next_steps(ended: Ended) -> list[str]:
    """What a human does after it went well, in order."""
    clusters, settings = ended.rehearsal.flow.clusters, ended.rehearsal.flow.clusters.settings
    names = [w.group for w in ended.found.results if w.outcome is Outcome.WRITTEN]
    bootstrap = settings.target.bootstrap_servers
    flow = f"-s {settings.source.alias} -t {settings.target.alias}"
    back = " ".join(f"-g {quote(name)}" for name in names)
    described = " ".join(f"--group {quote(name)}" for name in names)
    return [
        f"start the consumers of {', '.join(names)} with bootstrap.servers={bootstrap}{_renamed(ended)}",
        f"watch them: kafka-consumer-groups --bootstrap-server {bootstrap} --describe {described}",
        f"keep `mmtool replicate` running while anything still produces on {clusters.source.alias}",
        f"the way back, before anything is produced there: mmtool translate-offsets {flow} {back} --reverse",
    ]


def _renamed(ended: Ended) -> str:
    pairs = sorted(
        {
            (verdict.source.topic, verdict.target.topic)
            for plan in ended.found.plans
            for verdict in plan.verdicts
            if verdict.source is not None and verdict.target is not None
        }
    )
    changed = [f"{there} for {here}" for here, there in pairs if here != there]
    return f"; they subscribe to {', '.join(changed)}" if changed else ""
