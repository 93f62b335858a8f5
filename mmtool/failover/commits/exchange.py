"""Offsets of groups in and out: translated ones as rows, files and commits, and those of a file as commits."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mmtool.errors import MmtoolError, RefusedError, UsageError
from mmtool.failover.commits.apply import apply
from mmtool.failover.commits.group_configs import bring_configs_of
from mmtool.failover.report.rows import (
    NOTHING,
    ImportedRow,
    Row,
    WrittenPlaces,
    offset_in,
    offset_of,
    reset_lines,
    translation_rows,
)
from mmtool.insight.partitions import target_log
from mmtool.insight.translation import Translation, active_groups
from mmtool.kafka.ports import ClusterPort
from mmtool.plan.groups.facts import ABSENT, OWN_GROUP_PREFIX, GroupFacts, GroupKind, only_of_kind
from mmtool.plan.groups.imports import (
    EARLIEST,
    connector_offsets,
    parse_groups_csv,
    parse_offset_log,
    parse_reset_csv,
    plan_import,
    starting_offsets,
    write_reset_csv,
)
from mmtool.plan.groups.offsets import Direction, GroupPlan, OffsetVerdict
from mmtool.plan.words import counted, few, tally
from mmtool.runtime.files import file_errors, write_named
from mmtool.translation.answers import Reason, Sides
from mmtool.translation.types import TopicPartition, UpstreamOffset


@dataclass(frozen=True, slots=True)
class Moved:
    """The rows after the command, its error, if any, and the file with the replaced commits."""

    rows: Sequence[Row]
    error: MmtoolError | None
    undo: Path | None = None


def moved(found: Translation, *, synced: bool) -> Moved:
    """Commit the translated offsets, and return the rows afterwards; ``synced`` and errors as for `apply`."""
    read, written = found.flow.read_at(found.rules.direction), found.flow.written_at(found.rules.direction)
    if found.rules.direction is Direction.FORWARD:
        flow, groups = found.flow.end, [plan.group for plan in found.plans if plan.to_write()]
        flow.clusters.names.keep(flow.identity, groups)
    bring_configs_of(found.plans, read, written)
    applied = apply(written, found.plans, synced=synced)
    return Moved(translation_rows(found.plans, applied.written), applied.error, applied.undo)


def refusal(found: Translation) -> RefusedError | None:
    """The error of a whole translation: for partitions that block their group, else the translation's own error."""
    return refusal_of(found.plans) or found.error


def refusal_of(plans: Iterable[GroupPlan]) -> RefusedError | None:
    """One error for every blocking verdict of some plans: how many for each reason, and its meaning; None without."""
    refused = [(plan, verdict) for plan in plans for verdict in plan.blocking]
    return _refused(refused, groups_of(sorted({verdict.group for _, verdict in refused})))


def refused_positions(name: object, plan: GroupPlan, *, outside: bool) -> RefusedError | None:
    """One error for the refused positions of the file ``name``.

    Args:
        name: As the operator names the file.
        plan: Its positions.
        outside: Also for topics outside the flow; always so, if no position could be translated.
    """
    lines = [one for one in plan.verdicts if one.commit is not None]
    outside = outside or all(one.refusal is not None for one in lines)
    return _refused([(plan, one) for one in lines if one.blocks or outside], str(name))


def outside_positions(name: object, plan: GroupPlan) -> str:
    """A sentence about the positions of the file ``name`` in topics outside the flow; empty without any."""
    outside = [one for one in plan.verdicts if one.refusal is not None and one.commit and not one.blocks]
    why = "; ".join(sorted({plan.why(one) for one in outside}))
    return f"{name}: {counted(len(outside), 'position')} not translated: {why}" if why else ""


def _refused(found: Collection[tuple[GroupPlan, OffsetVerdict]], whom: str) -> RefusedError | None:
    reasons = [verdict.refusal for _, verdict in found if verdict.refusal is not None]
    said = sorted({f"{one.refusal}: {plan.why(one)}" for plan, one in found if one.refusal is not None})
    return refused_for(reasons, whom, "; ".join(said)) if reasons else None


def refused_for(reasons: Collection[Reason], whom: str, remedy: str) -> RefusedError:
    """The error for refused partitions, counted by reason; its code is the reason if there is only one."""
    code = next(iter(reasons)) if len(set(reasons)) == 1 else "refused"
    return RefusedError(f"offsets refused: {tally(reasons)} ({whom})", remedy=remedy, code=code)


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
    rows = [(plan.group, one) for plan in found.plans for one in plan.verdicts if one.refusal is not None]
    named = few([f"{group} {one.source or one.target or ''}".strip() for group, one in rows])
    reasons = tally(one.refusal for _, one in rows if one.refusal is not None)
    return f"{what} has no line for {counted(len(rows), 'refused row')}: {reasons} ({named})" if rows else ""


def groups_of(names: list[str]) -> str:
    return f"{'groups' if len(names) > 1 else 'group'} {few(names)}"


def checkpointed(directory: Path, topics: Collection[str]) -> dict[TopicPartition, int]:
    """Offsets that the last finished batch of a Structured Streaming query had read; an unfinished one is read again.

    Args:
        directory: The query's ``checkpointLocation``.
        topics: ``--topic``: only offsets of these topics; empty for all.

    Raises:
        UsageError: There is no such checkpoint, or it has no Kafka source, or no offsets of ``topics``.
    """
    offsets = {at: one for at, one in _checkpointed(directory).items() if not topics or at.topic in topics}
    if not offsets:
        raise UsageError(
            f"{directory} has no offsets of {few(sorted(topics))}", remedy="name topics that the query reads"
        )
    return offsets


def _checkpointed(directory: Path) -> dict[TopicPartition, int]:
    done = max(_batches(directory / "commits"), default=None)
    path = directory / "offsets" / str(done)
    if not directory.is_dir():
        raise UsageError(f"{directory} is no folder", remedy=f"name the {_CHECKPOINT}")
    if done is None:
        remedy = "let the query finish a batch"
        if not (directory / "offsets").is_dir():
            remedy = f"name the {_CHECKPOINT}: it has the folders offsets and commits"
        elif not (directory / "commits").is_dir():  # a query makes both when it starts
            remedy = _COPY_BOTH
        raise UsageError(f"{directory} has no finished batch", remedy=remedy)
    try:
        return parse_offset_log(path.read_text(encoding="utf-8").splitlines())
    except FileNotFoundError as error:
        raise UsageError(f"{path}: {error.strerror}", remedy=_COPY_BOTH) from error
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}", remedy="let the user that runs mmtool read it"
        ) from error
    except ValueError as error:
        remedy = f"name the {_CHECKPOINT} that reads from Kafka; if a newer Spark wrote it, upgrade mmtool"
        raise UsageError(f"{path}: {error}", remedy=remedy) from error


_CHECKPOINT = "checkpointLocation of a Structured Streaming query"
_COPY_BOTH = "copy the whole checkpointLocation: both of its folders, offsets and commits"


def _batches(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.glob("*") if path.name.isdigit()]


def offsets_document(found: Translation, format_: str, refused: RefusedError | None) -> str:
    """The offsets of one group, query or file as Spark's ``startingOffsets``, or as Kafka Connect's request body.

    For Spark, a partition without a commit starts at ``earliest``; for Connect it is left out.

    Args:
        found: The translation.
        format_: ``spark`` or ``connect``.
        refused: The error of refused offsets, since both documents are for all offsets; None without any.

    Raises:
        UsageError: The offsets are not of exactly one group: both documents hold one offset for each partition.
        RefusedError: ``refused``; or the group has no commit in the flow's topics.
    """
    if len(found.plans) != 1:
        raise UsageError(
            f"--format {format_} is for the offsets of one group, and {len(found.plans)} groups are selected",
            remedy="name one group: -g NAME",
        )
    if refused is not None:
        raise refused
    (plan,) = found.plans
    inside = [v for v in plan.verdicts if v.target is not None and v.refusal in (None, Reason.NO_COMMIT)]
    if not inside:
        raise RefusedError(
            "no committed offset is in a topic of the flow",
            remedy="name the flow that mirrors its topics: -s ALIAS -t ALIAS; a group that has committed nothing has no"
            " offsets to export",
            code=Reason.NO_COMMIT,
        )
    offsets = {place: offset_of(one) for one in inside if (place := plan.written_to(one)) is not None}
    known = {at: offset for at, offset in offsets.items() if offset is not None}
    if format_ == "connect":
        return connector_offsets(known)
    flow, forward = found.flow, found.rules.direction is Direction.FORWARD
    topics = flow.end.target_topics if forward else flow.topics
    places = {at for at in offsets if at.topic not in topics}
    for topic in {at.topic for at in offsets} & topics.keys():
        places |= {TopicPartition(topic, n) for n in range(topics[topic].partitions)}
    return starting_offsets(dict.fromkeys(places, EARLIEST) | known)


@dataclass(frozen=True, slots=True)
class ImportedOffsets:
    """A file's offsets, checked against the cluster on which they are to be committed."""

    cluster: ClusterPort
    plans: tuple[GroupPlan, ...]
    warnings: tuple[str, ...] = ()

    @property
    def writable(self) -> bool:
        return any(plan.to_write() for plan in self.plans)

    @property
    def refusal(self) -> RefusedError | None:
        return refusal_of(self.plans)

    def write(self, *, synced: bool) -> Moved:
        """Commit the offsets of the file; ``synced`` and errors as for `apply`."""
        applied = apply(self.cluster, self.plans, synced=synced)
        return Moved(import_rows(self.plans, applied.written), applied.error, applied.undo)


def check_import(
    cluster: ClusterPort,
    wanted: Mapping[str, Mapping[TopicPartition, int]],
    *,
    kind: GroupKind | None = None,
    allow_rewind: bool,
) -> ImportedOffsets:
    """Plan the commits of a file's offsets, checked against the cluster's groups and logs; change nothing.

    Args:
        cluster: Where to commit.
        wanted: The offsets of each group.
        kind: The kind of the groups; None for the kind that each has on the cluster.
        allow_rewind: Also move groups back.

    Raises:
        UnreachableError, NotAuthorisedError: The cluster does not answer, or shows none of the groups.
    """
    cluster.probe()
    standing, before = cluster.groups.describe_each(wanted), cluster.groups.commits_each(wanted)
    hidden = before.failed | standing.failed
    if hidden and len(hidden) == len(wanted):
        raise next(iter(hidden.values()))
    places = {place for of_group in wanted.values() for place in of_group}
    bounds = cluster.bounds_each(places)
    logs = {place: target_log(log) for place, log in bounds.items()}
    problems = {place: error.message for place, error in bounds.failed.items()}
    plans = [
        plan_import(
            GroupFacts(
                group,
                {},
                before.get(group, {}),
                only_of_kind(kind or standing.get(group, ABSENT).kind),
                standing.get(group, ABSENT),
                hidden[group].message if group in hidden else "",
            ),
            of_group,
            logs,
            allow_rewind=allow_rewind,
            problems=problems,
        )
        for group, of_group in sorted(wanted.items())
    ]
    plans = [_worded(plan, cluster.alias) for plan in plans]
    return ImportedOffsets(cluster, tuple(plans), tuple(active_groups(plans, standing, cluster.alias)))


def kinds_that_differ(found: ImportedOffsets, source: ClusterPort) -> Iterator[str]:
    """Yield a sentence for each group that would get another kind than it has on the flow's source.

    Nothing is said while the source does not answer: an import does not need it.
    """
    new = {plan.group: plan.kind for plan in found.plans if plan.to_write() and not plan.before()}
    try:
        theirs = source.groups.describe_each(new) if new else {}
    except MmtoolError:
        return
    for group, standing in theirs.items():
        if standing != ABSENT and (standing.kind is GroupKind.SHARE) != (new[group] is GroupKind.SHARE):
            option = GroupKind.SHARE if standing.kind is GroupKind.SHARE else GroupKind.CONSUMER
            yield (
                f"on {source.alias}, group {group} is a {standing.kind} group: once it is a {new[group]} group on"
                f" {found.cluster.alias}, mmtool refuses to sync it or move it between the clusters; to avoid that, add"
                f" --kind {option}"
            )


_OF_THE_FILE = {
    Reason.PARTITION_MISSING: "{where} does not have a partition that the file names: correct the file, or create the"
    " topic or partition on {where}; the mirror of a topic is created by `mmtool replicate`",
    Reason.TARGET_LOG_START_PASSED: "the offset in the file is below the start of {where}'s log: write a higher offset"
    " into the file",
    Reason.BEYOND_MIRROR: "the offset in the file is past the end of {where}'s log: let `mmtool replicate` catch up, or"
    " write a lower offset into the file",
    Reason.WOULD_REWIND: "the commit on {where} is ahead of the offset in the file: the same command with"
    " --allow-rewind --execute moves it back",
}


def _worded(plan: GroupPlan, where: str) -> GroupPlan:
    """The plan with details that name the file, not a source cluster, as the origin of its offsets."""
    verdicts = [
        replace(verdict, detail=verdict.detail or _OF_THE_FILE[verdict.refusal].format(where=where))
        if verdict.refusal in _OF_THE_FILE
        else verdict
        for verdict in plan.verdicts
    ]
    return replace(plan, verdicts=tuple(verdicts), sides=Sides("the file", where))


def read_reset_file(path: str, content: bytes, group: str | None) -> dict[str, dict[TopicPartition, int]]:
    """The offsets of a Kafka reset file by group: three columns for one group, four for several.

    Args:
        path: The file's name, for errors.
        content: The file's content.
        group: The group of ``-g``: the group of a file with three columns, or the one to select of a file with four.

    Raises:
        UsageError: The file cannot be parsed, names an internal group of mmtool, or its columns and ``-g`` do not
            match.
    """
    try:
        found = parse_groups_csv(lines_in(path, content))
    except ValueError as error:
        raise UsageError(
            f"{path}: {error}",
            remedy="write each line as TOPIC,PARTITION,OFFSET, or for several groups as GROUP,TOPIC,PARTITION,OFFSET",
        ) from error
    named = [name for name in (*found, group) if name is not None]
    own = [name for name in named if name.startswith(OWN_GROUP_PREFIX)]
    if own:
        raise UsageError(
            f"{path}: {own[0]} is an internal group of mmtool, whose offsets are not imported",
            remedy="remove its lines from the file, and do not name it with -g",
        )
    nobody = found.pop(None, None)
    if nobody is None:
        meant = {name: of for name, of in found.items() if name is not None and group in (None, name)}
        if not meant:
            raise UsageError(
                f"{path} names no group {group}",
                remedy="name a group of the first column of the file: -g NAME",
            )
        return meant
    if group is None:
        raise UsageError(
            f"{path} names no group: it has three columns", remedy="name the group of these offsets: -g NAME"
        )
    return {group: nobody}


def content_of(path: Path) -> bytes:
    """The content of a file, read once since it may be a pipe; ``-`` is stdin.

    Raises:
        UsageError: The file cannot be read.
    """
    with file_errors(str(path), "name a file that can be read", near=path):
        return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()


def read_positions(name: str, path: Path) -> dict[TopicPartition, UpstreamOffset]:
    """The offsets of a file with the columns topic, partition and offset; ``name`` is the option, for errors.

    Raises:
        UsageError: The file cannot be read or parsed.
    """
    try:
        return parse_reset_csv(lines_in(path, content_of(path)))
    except ValueError as error:
        raise UsageError(
            f"{name} {path}: {error}", remedy="write one line TOPIC,PARTITION,OFFSET for each partition"
        ) from error


def lines_in(name: object, content: bytes) -> list[str]:
    """The lines of a UTF-8 text; a byte order mark, which spreadsheets write, is dropped.

    Raises:
        UsageError: The content is not UTF-8.
    """
    try:
        return content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: not UTF-8 text", remedy="save it as UTF-8, not compressed") from error


def import_rows(plans: Iterable[GroupPlan], written: WrittenPlaces = NOTHING) -> list[ImportedRow]:
    """One row of the output contract for each line of the file."""
    return [
        {
            "group": verdict.group,
            "topic": verdict.target.topic,
            "partition": verdict.target.partition,
            "offset": offset_of(verdict),
            "reason": verdict.refusal or "",
            "offset_before": offset_in(verdict.before),
            "written": written.get((verdict.group, verdict.target), False),
            "kind": plan.kind,
            "detail": plan.why(verdict),
        }
        for plan in plans
        for verdict in plan.verdicts
        if verdict.target is not None
    ]
