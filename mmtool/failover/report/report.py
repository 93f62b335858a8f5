"""Sentences about an operation that has ended or stopped: its summary, and what an operator does next."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from mmtool.config import FlowSettings
from mmtool.errors import MmtoolError, OwnedElsewhereError, RefusedError, StoppedError, remedied
from mmtool.failover.commits.write import WriteOutcome
from mmtool.failover.diverged_tail.tail_file import default_name
from mmtool.failover.diverged_tail.tail_writer import UnknownProgressError
from mmtool.failover.diverged_tail.tails import FoundTails
from mmtool.failover.modes.cutover import Ended
from mmtool.failover.modes.cutover import ways_on as open_ways_on
from mmtool.failover.operation.operation import Operation
from mmtool.failover.operation.records import Recorded
from mmtool.failover.operation.states import OperationState, Trigger
from mmtool.failover.report.rows import exactness, offset_of
from mmtool.plain_text import group_options, shell_line, shell_word
from mmtool.plan.failover.acl_rules import acl_command
from mmtool.plan.failover.choices import REPLAYED, FenceKind, ToTopic
from mmtool.plan.failover.emergency import losses, total_expected
from mmtool.plan.failover.fence_plan import Fence, lowering_commands
from mmtool.plan.failover.risks import total_loss
from mmtool.plan.failover.steps import Mode, topics_of
from mmtool.plan.groups.facts import GroupKind
from mmtool.plan.groups.imports import ResetLine, write_reset_csv
from mmtool.plan.groups.offsets import GroupPlan, topic_names
from mmtool.plan.words import AGAIN, ID_PLACEHOLDER, SHOWS_ID, are, counted, few
from mmtool.translation.names import DefaultPolicy, IdentityPolicy, RenamePolicy, TopicAliases
from mmtool.translation.types import UNKNOWN

_NAMED = 5
"""How many groups the next commands name; of more groups they name the first ones, or use ``--all-groups``."""


def summary(ended: Ended) -> str:
    """A one-line summary of a successful operation: groups, offsets, loss, re-reads, duration; empty for others."""
    cutover, figures = ended.cutover, ended.cutover.figures
    if ended.operation.error is not None or figures.rto_seconds is None:
        return ""
    words = Counter(exactness(v) for plan in cutover.plans for v in plan.verdicts if v.refusal is None)
    kinds = "exact" if set(words) <= {"exact"} else f"{words['exact']} exact, {words['bounded']} bounded"
    kinds = f", {kinds}" if words else ""
    done = "drill: moved copies of" if ended.rehearsal.plan.mode is Mode.DRILL else "moved"
    left = [plan.group for plan in cutover.plans if not plan.to_write()]
    moved = f"{done} {counted(len(cutover.plans) - len(left), 'group')}, {counted(words.total(), 'offset')}{kinds}"
    if not words:
        return f"nothing was moved: no offset to move of {few(left)}"
    unmoved = f"; not moved, without an offset to move: {few(left)}" if left else ""
    return f"{moved}{unmoved}; {_price(ended)}; {figures.rto_seconds:.1f} s"


def _price(ended: Ended) -> str:
    figures = ended.cutover.figures
    lost, most = figures.rpo_records, figures.reread_records
    if ended.rehearsal.plan.mode is Mode.EMERGENCY:
        risks = ended.cutover.risks
        loss = total_loss(losses(risks).values()).words(ended.rehearsal.names.source)
        expected = total_expected(risks.values())
        likely = "" if expected is UNKNOWN else f" ({expected:,} expected)"
        bound = "an unknown number" if most is None else f"at most {most:,}" if most else "0"
        return f"{loss} lost, {bound} read again{likely}"
    again = "an unknown number" if most is None else most
    if ended.rehearsal.plan.mode is Mode.FAILBACK:
        number, target = figures.diverged_records or 0, ended.rehearsal.names.target
        never = f"{counted(number, 'record')} that never reached {target} {are(number)}"
        if place := place_of_skipped(ended):
            it = "it is" if number == 1 else "they are"
            return f"{never} skipped: {it} in {place}; {lost} other records lost, {again} read again"
        more = f"; {never} replayed" if number else ""
        return f"{lost} records lost, {again} read again{more}"
    names, behind = ended.rehearsal.names, figures.diverged_records
    late = (
        f"; {counted(behind or 0, 'record')} produced on {names.source} after the groups had stopped, not yet on"
        f" {names.target}"
    )
    return f"{lost} records lost, {again} read again{late if behind else ''}"


@dataclass(frozen=True, slots=True)
class NextStep:
    """What an operator does next.

    Attributes:
        sentence: What to do.
        commands: The commands that do it.
    """

    sentence: str
    commands: tuple[str, ...] = ()


def next_steps(ended: Ended, given: Sequence[str] = ()) -> list[NextStep]:
    """What the operator does after a successful operation, in order.

    Args:
        ended: The operation, which has succeeded.
        given: ``-c``, ``-s`` and ``-t`` as the command was given them.
    """
    settings, names = ended.rehearsal.settings, _moved_there(ended)
    home = ended.rehearsal.plan.mode is Mode.FAILBACK
    bootstrap = (settings.source if home else settings.target).bootstrap_servers
    start = f"start the consumers of {few(names, _NAMED)} with bootstrap.servers={bootstrap}{_renamed(ended)}"
    first = [NextStep(start), NextStep("watch their lag:", tuple(_watch(ended, bootstrap)))]
    if ended.rehearsal.plan.mode is Mode.EMERGENCY:
        return [*first, *_after_emergency(ended, settings, given)]
    if ended.rehearsal.plan.mode is Mode.DRILL:
        return []
    if home:
        skipped = [NextStep(*way_to_read_skipped(ended, bootstrap))] if place_of_skipped(ended) else []
        return [*skipped, *first, NextStep(_after_failback(ended))]
    fence, here, there = ended.rehearsal.plan.fence, settings.source.alias, settings.target.alias
    if fence.asked_for:  # the producers move to the target too
        topics = few(fence.topics) or "the groups' topics"
        return [
            *first,
            NextStep(f"start the producers of {topics} with bootstrap.servers={bootstrap}"),
            _what_stays(fence, settings),
            _rollback(ended, f"before clients continue on {there}", given),
        ]
    return [
        *first,
        *_promoted(ended, settings),
        NextStep(f"keep `mmtool replicate` running while producers still write to {here}"),
        _rollback(ended, f"before their consumers start on {there}", given),
    ]


def _after_failback(ended: Ended) -> str:
    released, names = ended.rehearsal.plan.released, ended.rehearsal.names
    if not released:
        topics = few(topics_of(ended.cutover.plans))
        if not topics:
            return f"leave `mmtool replicate` as it is: these groups read no topic that {names.flow} mirrors"
        return (
            f"also fail back the other groups that read {topics} on {names.target}: until then {names.flow} does not"
            f" mirror {topics}"
        )
    return f"keep `mmtool replicate` running: {names.flow} mirrors {few(released)} again"


def _rollback(ended: Ended, while_possible: str, given: Sequence[str]) -> NextStep:
    fence, arguments = ended.rehearsal.plan.fence, shell_line([ended.rehearsal.plan.operation_id, *given])
    lifts = " and lift the fence" if fence.asked_for and fence.kind is not FenceKind.WATCH else ""
    return NextStep(
        f"to restore the groups' previous offsets{lifts}, {while_possible}:",
        (f"mmtool failover rollback {arguments} --execute",),
    )


def _promoted(ended: Ended, settings: FlowSettings) -> list[NextStep]:
    """The step that starts producers whose ACLs were promoted; empty without a promotion."""
    promotion, there = ended.rehearsal.plan.promotion, settings.target
    if not promotion.granted_on:
        return []
    may = f"{few(promotion.granted_to)} may write {few(promotion.granted_on)} on {there.alias}"
    return [
        NextStep(f"{may}: to move the producers, start them with bootstrap.servers={there.bootstrap_servers}")
    ]


def fence_left(found: Recorded, settings: FlowSettings) -> list[NextStep]:
    """A sentence on how to lift a fence that may still be up; empty if the operation has none."""
    return [_what_stays(found.head.plan.fence, settings)] if found.fence_stands else []


def acls_left(found: Recorded, settings: FlowSettings) -> list[NextStep]:
    """A sentence on how to undo a change of producers' ACLs by hand; empty if the operation made none."""
    promotion, there = found.head.plan.promotion, settings.target
    if not found.promotion_stands or not promotion.acls:
        return []
    said = (
        f"the operation removed the ACLs of producers on {there.alias}; if these producers must write there again"
        " without a rollback, an administrator creates the ACLs with:"
        if promotion.withdraws
        else f"the operation created ACLs for producers on {there.alias}; if these producers must not write there any"
        " more, an administrator removes the ACLs with:"
    )
    servers, adds = there.bootstrap_servers, promotion.withdraws
    commands = tuple(acl_command(acl, servers, adds=adds) for acl in promotion.acls)
    return [NextStep(said, commands)]


def tail_left(found: Recorded) -> tuple[str, ...]:
    """Sentences that diverged records may be written in part, and how to end an older mmtool's replay; may be empty."""
    if found.tail is None:
        return ()
    names, diverged = found.names, found.head.plan.diverged
    where = f"topic {diverged.topic} of {names.source}" if isinstance(diverged, ToTopic) else names.target
    written = f"some of {counted(found.tail.records, 'diverged record')} may already be written to {where}"
    return (written, open_ways_on(found)) if found.half_replayed else (written,)


def _what_stays(fence: Fence, settings: FlowSettings) -> NextStep:
    here = settings.source
    match fence.kind:
        case FenceKind.ACL if fence.denies:
            commands = tuple(lowering_commands(fence.denies, here.bootstrap_servers))
            return NextStep(
                f"the fence on {here.alias} stays; before producers write to {here.alias} again, an administrator lifts"
                " it with:",
                commands,
            )
        case FenceKind.HOOK:
            hook = settings.hooks.get("fence", "mmtool.hook.fence")
            return NextStep(f"the fence that the hook {hook} raised on {here.alias} stays until you lift it")
        case _:
            topics = few(fence.topics) or "the groups' topics"
            return NextStep(f"keep the producers of {topics} on {here.alias} stopped: no ACL stops them")


_KAFKA = "org.apache.kafka.connect.mirror."


def reverse_lines(ended: Ended) -> list[str]:
    """Lines for the properties file that configure the reverse flow; empty if the file has that flow already.

    Only for a failover with a fence, whose producers move too. They then write to the topic's own name on the target.
    With prefixed names that is another topic than the mirror; with identical names it is the mirror, and each record's
    origin decides whether the reverse flow copies it.
    """
    fence, settings = ended.rehearsal.plan.fence, ended.rehearsal.settings
    if not fence.asked_for or ended.operation.error is not None or settings.way_back is not None:
        return []
    here, there, aliases = settings.source.alias, settings.target.alias, settings.topic_aliases
    keys = {
        "enabled": "true",
        "topics": ", ".join(map(_pattern, sorted(fence.topics))),
        "groups": ", ".join(map(_pattern, sorted(_moved_there(ended)))),
    }
    match settings.policy:
        case IdentityPolicy():
            keys["replication.policy.class"] = f"{_KAFKA}IdentityReplicationPolicy"
        case RenamePolicy(before=before, after=after):
            keys["mmtool.topic.rename.format"] = f"{before}${{topic}}{after}"
        case DefaultPolicy(separator=separator) if separator != ".":
            keys["replication.policy.separator"] = separator
    if aliases != TopicAliases(here, there):
        keys |= {"source.cluster.alias": aliases.target, "target.cluster.alias": aliases.source}
    keys["replication.factor"] = str(settings.replication_factor)
    return [f"{there}->{here}.{key} = {value}" for key, value in keys.items()]


def _pattern(name: str) -> str:
    """A regular expression that matches one name, without backslashes and commas, as a properties file needs it."""
    return re.sub(r"[^\w-]", lambda found: "[.]" if found[0] == "." else ".", name, flags=re.ASCII)


def _after_emergency(ended: Ended, settings: FlowSettings, given: Sequence[str]) -> list[NextStep]:
    here, there = settings.source.alias, settings.target.alias
    flow, names = [*(given[:2] if "-c" in given else ()), "-s", here, "-t", there], _moved(ended)
    groups = group_options(names) if len(names) <= _NAMED else ["--all-groups"]
    back = f"mmtool failover failback {shell_line([*flow, *groups])}"
    stay = f"mmtool failover release {shell_line([*flow, '--execute'])}"
    return [
        NextStep(
            f"let producers write to {there}; when {here} returns, keep the consumers on {here} stopped"
        ),
        NextStep(
            f"when {here} returns, rehearse the failback, and add --execute to move the groups back to {here}:",
            (back,),
        ),
        NextStep(
            f"or, if the groups stay on {there}, let `mmtool replicate` mirror the topics of {here} again:",
            (stay,),
        ),
    ]


def ways_on(
    operation: Operation, given: Sequence[str] = (), may: Callable[[Trigger], bool] | None = None
) -> list[NextStep]:
    """The commands that can continue or end an operation, each with a sentence: resume, cancel, rollback.

    Empty for an operation that was refused because another one is open or runs: it has done nothing.

    Args:
        operation: The operation in its current state.
        given: ``-c``, ``-s`` and ``-t`` as the command was given them.
        may: Whether an event is allowed; by default, by the state table.
    """
    error = operation.error
    refused = isinstance(error, RefusedError) and error.code == "open_operation"
    if refused or isinstance(error, OwnedElsewhereError):
        return []
    arguments = shell_line([operation.plan.operation_id, *given, "--execute"])
    return [
        NextStep(f"{_way_on(event, operation)}:", (f"mmtool failover {verb} {arguments}",))
        for event, verb in _WAYS_ON.items()
        if (may or operation.may)(event)
        and not (event is Trigger.RESUME and isinstance(error, UnknownProgressError))
    ]


_WAYS_ON = {Trigger.RESUME: "resume", Trigger.CANCEL: "cancel", Trigger.ROLL_BACK: "rollback"}


def _way_on(event: Trigger, operation: Operation) -> str:
    """What the command of an event does, and when an operator wants that."""
    match event, operation.standing.state:
        case Trigger.RESUME, OperationState.FAILED if not isinstance(operation.error, StoppedError):
            return "when the cause is removed, complete the operation"
        case Trigger.RESUME, _:
            return "complete the operation"
        case Trigger.CANCEL, _:
            return "end the operation and undo its preparations"
        case _ if operation.plan.mode is Mode.DRILL:
            return "delete the copies of the groups"
        case _, OperationState.COMPLETED:
            return "to undo the operation, restore the groups' previous offsets"
        case _:
            return "restore the groups' previous offsets"


def error_of(operation: Operation) -> MmtoolError | None:
    """The error that ended an operation; its remedy names `failover resume` in place of "the same command again".

    A resumed operation checks and plans everything again, also where a second start from the saved plan is refused.
    """
    error, name = operation.error, operation.plan.operation_id
    if error is None:
        return None
    remedy = error.remedy.replace(SHOWS_ID, "").replace(ID_PLACEHOLDER, name)
    if ways_on(operation) and operation.may(Trigger.RESUME):
        remedy = remedy.replace(AGAIN, f"run `mmtool failover resume {name} -c FILE --execute`")
    return error if remedy == error.remedy else remedied(error, remedy)


def _moved(ended: Ended) -> list[str]:
    return [w.group for w in ended.cutover.results if w.outcome is WriteOutcome.WRITTEN]


def _watch(ended: Ended, bootstrap: str) -> Iterator[str]:
    """The commands that describe the moved groups, one for each kind."""
    moved, named = set(_moved(ended)), dict[GroupKind, list[str]]()
    for plan in ended.cutover.plans:
        if plan.group in moved:
            named.setdefault(plan.kind, []).append(plan.written_group)
    for kind, names in named.items():
        some = len(names) <= _NAMED
        chosen = [word for name in names for word in ("--group", name)] if some else ["--all-groups"]
        yield shell_line([f"kafka-{kind}-groups", "--bootstrap-server", bootstrap, "--describe", *chosen])


def _moved_there(ended: Ended) -> list[str]:
    """The moved groups by their names on the destination."""
    names = {plan.group: plan.written_group for plan in ended.cutover.plans}
    return [names[group] for group in _moved(ended)]


def _renamed(ended: Ended) -> str:
    """The topic names that the moved consumers subscribe to, as a sentence; empty if the names stay."""
    pairs = topic_names(ended.cutover.plans)
    beside = "and" if ended.rehearsal.plan.moves_producers else "instead of"
    changed = [f"{there} {beside} {here}" for here, there in pairs if here != there]
    return f"; they must subscribe to {', and '.join(changed)}" if changed else ""


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
    groups = sorted({line.group for line in ended.skipped if line.group is not None}) or ended.cutover.groups
    said = (
        f"{few(groups)} will skip {counted(number, 'record')} on {source}, which are in"
        f" {place_of_skipped(ended)}: before the consumers start, let their application process these records from"
        f" there, or set the groups back"
    )
    if ended.rehearsal.settings.keeps_names:
        said += " (they then also read again what was mirrored behind these records)"
    writers = sorted({plan.kind.writer for plan in ended.cutover.plans if plan.group in groups})
    if not 0 < len(ended.skipped) <= _MOST_LINES or (len(groups) > 1 and writers != ["consumer-groups"]):
        return f"{said} with {' or '.join(f'`kafka-{writer} --reset-offsets`' for writer in writers)}", ()
    lines = [line._replace(group=None) for line in ended.skipped] if len(groups) == 1 else ended.skipped
    file = f"mmtool-diverged-{ended.rehearsal.plan.operation_id}.csv"
    named = [word for group in groups for word in ("--group", group)]
    tool = [f"kafka-{writers[0]}", "--bootstrap-server", bootstrap, *named, "--reset-offsets"]
    written = shell_line(["printf", r"%s\n", *write_reset_csv(lines).splitlines()])
    reset = shell_line([*tool, "--from-file", file, "--execute"])
    return f"{said}:", (f"{written} > {shell_word(file)}", reset)
