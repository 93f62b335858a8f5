"""An emergency failover as data: made from what the target alone knows; the plan states its loss.

K  no request goes to the source: all that is known of it is what was stored on the target before
L  a partition's loss is unknown from a few seconds after the source's end was last seen; it is at least what was seen:
   from the mirror's frontier to that end, or to a group's last known commit there; and records that the target has
   deleted and a group has not read
R  a group reads again at most what the target holds behind the translated offset, wherever it was on the source
   since it was last seen
U  a partition for which a group's offset is unknown gets no commit, unless the operator chooses a start position
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from mmtool.plain_text import duration
from mmtool.plan.failover.acl_promotion import NO_PROMOTION, Promotion
from mmtool.plan.failover.choices import Unknowns
from mmtool.plan.failover.failover_plan import FailoverPlan, active_guards, blocking_guards, state_guards
from mmtool.plan.failover.risks import EmergencyFacts, Guard, Loss, Risk, total_loss
from mmtool.plan.failover.steps import Mode
from mmtool.plan.groups.applications import NO_STATE, AppState, with_lost_state
from mmtool.plan.groups.commit_rates import expected_reread
from mmtool.plan.groups.facts import Commit, GroupFacts
from mmtool.plan.groups.offsets import (
    GroupPlan,
    OffsetVerdict,
    PartitionFacts,
    Rules,
    given_again,
    guard,
    plan_group,
    unknown_groups,
)
from mmtool.plan.words import Names, are, counted, few, last_seen
from mmtool.translation.answers import Answer, Bounded, Knowledge, Reason, Refused, Sides, Skipping
from mmtool.translation.translate import clamp_checkpoint
from mmtool.translation.types import UNKNOWN, TopicPartition, Unknown, UpstreamOffset

_RULES = Rules(allow_skip=True, source_lost=True)


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of a plan over all of its groups; a partition that several of them read is lost once.

    Attributes:
        lost: Records over all partitions.
        reread: Records that the groups read again, added up over the groups, at the most; UNKNOWN where an offset of a
            mirror that was not compared is used.
        expected: The expected number of these; UNKNOWN where it is unknown for a partition.
        oldest_seconds: The age of the oldest known offset; UNKNOWN where no offset is known.
    """

    lost: Loss
    reread: int | Unknown
    oldest_seconds: float | Unknown
    expected: int | Unknown = UNKNOWN
    partitions_at_risk: tuple[TopicPartition, ...] = field(default=())


def plan_emergency(
    operation_id: str,
    names: Names,
    facts: EmergencyFacts,
    unknowns: Unknowns = Unknowns.LEAVE,
    state: AppState = NO_STATE,
    promotion: Promotion = NO_PROMOTION,
) -> FailoverPlan:
    """Plan an emergency failover from the facts that the target alone stores."""
    plans = [_group(group, facts, unknowns) for group in facts.groups]
    plans += unknown_groups(facts.unknown, _RULES.direction)
    plans = [with_lost_state(plan, state) for plan in plans]
    sides = Sides(names.source, names.target, is_emergency=True)
    found = tuple(replace(plan, sides=sides) for plan in sorted(plans, key=lambda plan: plan.group))
    never_ran = Guard(
        Reason.NEVER_RAN,
        f"flow {names.flow} never ran: {names.target} has no topic that this flow mirrored",
        "nothing can be failed over without mirrored topics: check -s and -t, and the configuration file",
    )
    guards = (
        *(() if facts.partitions else (never_ran,)),
        *active_guards(facts.groups, names),
        *state_guards(state, names.target),
        *blocking_guards(found, after_drain=True),
        *promotion.guards,
    )
    risks = {
        (plan.group, verdict.source): _risk(verdict, facts)
        for plan in found
        for verdict in plan.verdicts
        if verdict.source is not None and verdict.source in facts.partitions
        if verdict.refusal is not Reason.STATE_NOT_MIRRORED  # it is no record that a group reads
    }
    return FailoverPlan(
        operation_id,
        Mode.EMERGENCY,
        names,
        found,
        guards=guards,
        risks=risks,
        state=state.moved,
        without_state=state.without,
        promotion=promotion,
    ).with_steps()


def _group(group: GroupFacts, facts: EmergencyFacts, unknowns: Unknowns) -> GroupPlan:
    plan = plan_group(group, facts.partitions, _RULES)
    listed = {verdict.source for verdict in plan.verdicts}
    removed = [
        OffsetVerdict(group.group, place, facts.partitions[place].target, refusal=Reason.NO_COMMIT)
        for place in sorted(facts.removed.get(group.group, {}).keys() - listed)
    ]
    plan = replace(plan, verdicts=(*plan.verdicts, *removed))
    verdicts = [_settled(group, verdict, facts, unknowns) for verdict in plan.verdicts]
    return replace(plan, verdicts=tuple(verdicts))


def _settled(
    group: GroupFacts, verdict: OffsetVerdict, facts: EmergencyFacts, unknowns: Unknowns
) -> OffsetVerdict:
    """The verdict after the rules of an emergency: ``--unknown``, and checkpoints where offset runs do not suffice."""
    known = None if verdict.source is None else facts.partitions.get(verdict.source)
    if known is None or verdict.source is None:
        return verdict
    if known.verified is not None and verdict.commit is not None:
        return verdict  # offsets of a mirror that mmtool does not keep need proof
    if verdict.commit is None:
        return _without_word(group, verdict, known, facts, unknowns)
    word = facts.words.get((group.group, verdict.source))
    if known.target_log is UNKNOWN or word is None:
        return verdict
    if not (facts.born_there or verdict.refusal is Reason.NEVER_RAN):
        return verdict
    commit = UpstreamOffset(verdict.commit.offset)
    answer = clamp_checkpoint(known.map, commit, word.downstream, target=known.target_log)
    return _answered(group, verdict, known, answer, Knowledge.CHECKPOINTS)


def _without_word(
    group: GroupFacts,
    verdict: OffsetVerdict,
    known: PartitionFacts,
    facts: EmergencyFacts,
    unknowns: Unknowns,
) -> OffsetVerdict:
    """The verdict where the group's offset is unknown: a commit on the target stays, else ``unknowns`` decides.

    The start positions of ``unknowns`` need the target's log.
    """
    before, log = group.before.get(known.other(_RULES.direction)), known.target_log
    if unknowns is Unknowns.LEAVE or before is not None:
        why = facts.removed.get(group.group, {}).get(known.source)
        if why is not None:
            return replace(verdict, refusal=Reason.NO_COMMIT, before=before, detail=why)
        return replace(verdict, refusal=Reason.SOURCE_UNREACHABLE, before=before)
    if known.problems:
        why = known.problems
        return replace(verdict, refusal=Reason.PARTITION_MISSING, blocks=True, detail=why, is_unasked=True)
    if log is UNKNOWN:
        return verdict
    held = log.log_end - log.log_start
    answer = Bounded(log.log_start, held) if unknowns is Unknowns.EARLIEST else Skipping(log.log_end, held)
    return _answered(group, verdict, known, answer, None)


def _answered(
    group: GroupFacts,
    verdict: OffsetVerdict,
    known: PartitionFacts,
    answer: Answer | Skipping,
    knowledge: Knowledge | None,
) -> OffsetVerdict:
    assert not isinstance(answer, Refused)
    if verdict.commit is not None:
        answer = given_again(answer, verdict.commit)
    assert not isinstance(answer, Refused)
    before: Commit | None = group.before.get(known.other(_RULES.direction))
    refusal = guard(group, answer.offset, before, allow_rewind=False)
    return replace(
        verdict,
        answer=answer,
        refusal=refusal,
        blocks=refusal is not None,
        before=before,
        knowledge=knowledge,
    )


def _risk(verdict: OffsetVerdict, facts: EmergencyFacts) -> Risk:
    assert verdict.source is not None
    known = facts.partitions[verdict.source]
    word = facts.words.get((verdict.group, verdict.source))
    age: float | Unknown = UNKNOWN if word is None else max(0, facts.now_ms - word.known_ms) / 1000
    lost = facts.loss(verdict.source)
    if isinstance(verdict.answer, Skipping) and lost.most is not UNKNOWN:
        lost = replace(lost, most=lost.most + verdict.answer.skip_max)
    if verdict.answer is None or isinstance(verdict.answer, Refused) or known.target_log is UNKNOWN:
        return Risk(lost, UNKNOWN, age)
    is_unbounded = isinstance(verdict.answer, Bounded) and verdict.answer.reread_max is UNKNOWN
    if is_unbounded and known.verified is not None:  # a mirror that was not compared
        return Risk(lost, UNKNOWN, age)
    most = max(0, known.target_log.log_end - verdict.answer.offset)
    rate = facts.rates.get((verdict.group, verdict.source), UNKNOWN)
    return Risk(lost, most, age, expected_reread(rate, age, most))


def may_lose(plan: FailoverPlan) -> bool:
    """Whether the plan may lose records or state, so that the operator has to accept that."""
    return costs_of(plan).lost.is_possible or any(lag.lost.is_possible for lag in plan.lags)


def costs_of(plan: FailoverPlan) -> Costs:
    """The costs of a plan over all groups that it moves."""
    lost = losses(plan.risks)
    ages = [risk.age_seconds for risk in plan.risks.values() if risk.age_seconds is not UNKNOWN]
    rereads = [risk.reread for risk in plan.risks.values() if risk.reread is not UNKNOWN]
    is_unbounded = any(
        isinstance(verdict.answer, Bounded) and plan.risks[of.group, verdict.source].reread is UNKNOWN
        for of in plan.groups
        for verdict in of.verdicts
        if verdict.source is not None and (of.group, verdict.source) in plan.risks
    )
    return Costs(
        total_loss(lost.values()),
        UNKNOWN if is_unbounded else sum(rereads),
        max(ages, default=UNKNOWN),
        total_expected(plan.risks.values()),
        tuple(sorted(place for place, loss in lost.items() if loss.is_possible)),
    )


def losses(risks: Mapping[tuple[str, TopicPartition], Risk]) -> dict[TopicPartition, Loss]:
    """The loss in each partition: the largest one over the groups that read it."""
    lost: dict[TopicPartition, Loss] = {}
    for (_, place), risk in risks.items():
        before, most = lost.get(place, risk.lost).most, risk.lost.most
        larger = UNKNOWN if before is UNKNOWN or most is UNKNOWN else max(before, most)
        lost[place] = replace(risk.lost, most=larger)
    return lost


def total_expected(risks: Iterable[Risk]) -> int | Unknown:
    """The total number of records expected to be read again; UNKNOWN where a partition's number is unknown."""
    expected = [risk.expected for risk in risks if risk.reread is not UNKNOWN]
    known = [number for number in expected if number is not UNKNOWN]
    return sum(known) if len(known) == len(expected) else UNKNOWN


def told_before(plan: FailoverPlan, facts: EmergencyFacts) -> Iterable[str]:
    """Yield the plan's costs as sentences, for the operator who confirms."""
    costs, names = costs_of(plan), plan.names
    left = {v.source for of in plan.groups for v in of.verdicts if v.refusal is Reason.SOURCE_UNREACHABLE}
    if left:
        yield (
            f"in {counted(len(left), 'partition')} ({few(sorted(map(str, left)), 3)}), {names.target} has no checkpoint"
            " of one or more groups, so mmtool commits no offset for these groups there; to commit one where a group"
            f" has no commit on {names.target} either, add --unknown earliest or --unknown latest"
        )
    if told := loss_told(plan, costs, facts):
        yield told
    if costs.oldest_seconds is not UNKNOWN:
        yield f"checkpoints are up to {duration(costs.oldest_seconds)} old: {_read_again(costs, names)}"
    active = sorted({group for (group, _), rate in facts.rates.items() if rate > 0})
    if active and facts.seen_ms is not UNKNOWN and facts.is_present(facts.seen_ms):
        yield (
            f"consumers of {few(active)} were committing on {names.source} seconds ago: if {names.source} answers, stop"
            " these consumers and run `mmtool failover planned` with the same groups, which loses no record"
        )


def loss_told(plan: FailoverPlan, costs: Costs, facts: EmergencyFacts) -> str:
    """The plan's loss of records as a sentence, with its ``costs``; empty for a plan that loses none."""
    at, lost, names = few(costs.partitions_at_risk), costs.lost.most, plan.names
    if lost is UNKNOWN:
        least = f", at least {costs.lost.least:,}" if costs.lost.least else ""
        if facts.seen_ms is UNKNOWN or facts.is_present(facts.seen_ms):  # some partitions are not watched
            why = f"{names.target} does not store where partitions end on {names.source}, or how far they were mirrored"
        else:
            seen = last_seen(names.source, facts.seen_ms, facts.now_ms)
            why = f"{seen}, and {names.target} does not know what was written to {names.source} since then"
        return f"the number of lost records is unknown{least}: {why}; records may be lost in {at}"
    if not lost:
        return ""
    are, them = ("is", "it") if lost == 1 else ("are", "them")
    verdicts = [verdict for group in plan.groups for verdict in group.verdicts if verdict.knowledge is None]
    skips = any(isinstance(verdict.answer, Skipping) and verdict.answer.skip_max for verdict in verdicts)
    skipped = f", or the groups skip {them} because of --unknown latest" if skips else ""
    return (
        f"at most {counted(lost, 'record')} {are} lost: {names.source} was last seen to hold"
        f" {them}, and {names.target} does not hold {them}{skipped} ({at})"
    )


def _read_again(costs: Costs, names: Names) -> str:
    if costs.reread is UNKNOWN:
        return "an unknown number of records is read again"
    if costs.reread == 0:
        return "nothing is read again"
    most = f"at most {counted(costs.reread, 'record')}"
    if costs.expected is UNKNOWN:
        read = f"{most} {are(costs.reread)} read again"
        again = f"{read}, which the groups may have read on {names.source} after the checkpoints"
        return f"{again}; the expected number is unknown, because the commit rate of a group is unknown"
    if costs.expected == 0:
        return (
            f"{most} {are(costs.reread)} read again, and probably none, because no group was committing on"
            f" {names.source}"
        )
    return (
        f"{most} {are(costs.reread)} read again, and probably about {costs.expected:,}, estimated from how fast the"
        f" groups were committing on {names.source}"
    )
