"""The steps of a planned failover that fence producers off the source, and the proof that none wrote since.

G  the fence is in the journal before it is raised, and the journal says that it is gone only once it is lowered
H  a resumed operation raises the recorded fence again as it was: a plan made while the fence is up would find its own
   DENY rules, and would leave them behind
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from mmtool.errors import CheckFailedError, GateError, NotAuthorisedError, RefusedError
from mmtool.failover.fence.actions import await_transactions, lower_fence, raise_fence, watch_ends
from mmtool.plan.failover.choices import FenceKind
from mmtool.plan.failover.fence_plan import WATCH_SECONDS, Fence, fence_plan
from mmtool.plan.failover.risks import Guard
from mmtool.plan.failover.steps import StepName
from mmtool.plan.words import ID_PLACEHOLDER, SHOWS_ID, counted, few
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.failover.modes.cutover import OperationContext
    from mmtool.kafka.ports import ClusterPort, FencePort
    from mmtool.plan.failover.failover_plan import FailoverPlan
    from mmtool.plan.failover.fence_plan import FencePlan
    from mmtool.plan.words import Names

TRANSACTION_SECONDS = 90.0
"""How long to wait for open transactions, in seconds: the default ``transaction.timeout.ms`` and a margin.

The default is 60 s, and the coordinator looks for transactions that have timed out every 10 s.
"""
_LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class FenceAsked:
    """The requested kind of fence, and the connections that it needs.

    Attributes:
        source: The cluster.
        port: Its ACLs and producers.
        standing: The fence that the journal of the resumed operation has, and that may still be up.
    """

    kind: FenceKind
    source: ClusterPort
    port: FencePort
    watch_seconds: float = WATCH_SECONDS
    standing: Fence | None = None

    def plan(self, topics: tuple[str, ...]) -> Fence:
        """Plan the requested fence for topics, or check the recorded one against them; change nothing on the cluster.

        Raises:
            UnreachableError, NotAuthorisedError: The cluster does not answer, or does not show its ACLs.
        """
        rules = self._rules(topics)
        return Fence(self.kind, rules.topics, rules, self.watch_seconds)

    def _rules(self, topics: tuple[str, ...]) -> FencePlan:
        before = self.standing
        empty = replace(Fence().rules, topics=topics)
        if self.kind is not FenceKind.ACL:
            return _grown(empty if before is None else before.rules, topics)
        if before is None:
            return fence_plan(self.port.facts(topics), self.port.alias) if topics else empty
        facts = self.port.facts(topics).without(before.denies)
        anew = fence_plan(facts, self.port.alias)
        return _grown(replace(before.rules, guards=anew.guards, warnings=anew.warnings), topics)


def _grown(rules: FencePlan, topics: tuple[str, ...]) -> FencePlan:
    """The rules, with a guard that refuses if they leave out topics for which the groups now have commits."""
    left = sorted(set(topics) - set(rules.topics))
    if not left:
        return rules
    guard = Guard(
        "fence_stale",
        f"the groups have committed offsets in topics that the operation's fence does not cover: {few(left)}",
        f"end the operation with `mmtool failover cancel {ID_PLACEHOLDER} -c FILE --execute`{SHOWS_ID}, and start a"
        " new operation, whose fence covers these topics too",
    )
    return replace(rules, guards=(*rules.guards, guard))


@dataclass(slots=True)
class FenceSteps:
    """The actions of these steps; the first of them is a `Preparation`.

    Attributes:
        places: Every partition of the fenced topics, as far as they exist by now.
        may_stand: Whether there may be a fence to lower.
    """

    name: ClassVar = StepName.FENCE

    plan: FailoverPlan
    asked: FenceAsked
    context: OperationContext
    reads_committed: bool = True
    places: tuple[TopicPartition, ...] = ()
    fence: Fence = field(init=False)
    may_stand: bool = field(init=False)

    def __post_init__(self) -> None:
        self.fence = self.plan.fence
        self.may_stand = self.asked.standing is not None

    @property
    def source(self) -> ClusterPort:
        return self.asked.source

    @property
    def patience_seconds(self) -> float:
        """How long to wait for open transactions."""
        return self.context.drain_seconds or TRANSACTION_SECONDS

    def do(self) -> None:
        """Raise the fence; a hook's fence is raised by its hook."""
        self.context.journal.fenced(self.fence, stands=True)
        self.may_stand = True
        if self.fence.kind is FenceKind.ACL:
            raise_fence(self.asked.port, self.fence.rules)

    def undo(self) -> None:
        """Lower exactly the fence that was raised and record that; do nothing if none may be up.

        Raises:
            PartlyAppliedError, UnreachableError: Some DENY ACLs may still exist.
            MmtoolError: The fence step's hook, which runs with ``MMTOOL_ACTION=undo``, failed.
        """
        if not self.may_stand:
            return
        lower_fence(self.asked.port, self.plan.fence.denies)
        self.context.hooks.take_back(self.plan, StepName.FENCE)
        self.may_stand = False
        self.context.journal.fenced(self.fence, stands=False)

    def await_transactions(self) -> None:
        try:
            await_transactions(
                self.asked.port, self.places, self.patience_seconds, pause=self.context.clock.pause
            )
        except (
            NotAuthorisedError,
            RefusedError,
        ):  # who has one cannot be told; that there is one, the logs tell
            waited = 0.0
            while open_in := self._unstable():
                if waited >= self.patience_seconds:
                    raise _still_open(self.source.alias, open_in, self.patience_seconds) from None
                self.context.clock.pause(_LOOK_SECONDS)
                waited += _LOOK_SECONDS

    def _unstable(self) -> list[TopicPartition]:
        """Partitions with an open transaction: their last stable offset is below their log end."""
        stable = self.source.bounds(self.places, committed=True)
        ends = self.source.bounds(self.places)
        return sorted(at for at in ends if at in stable and stable[at].log_end < ends[at].log_end)

    def watch(self) -> None:
        """Wait until the source's log ends stand still, and record them: no record after them is expected."""
        source, port, seconds = self.source, self.asked.port, self.fence.watch_seconds
        pause, kind = self.context.clock.pause, self.fence.kind
        ends = watch_ends(source, port, self.places, seconds, pause, kind=kind)
        if self.reads_committed and (open_in := self._unstable()):
            raise _still_open(source.alias, open_in, 0)
        self.fence = replace(self.fence, ends=ends)
        self.context.journal.fenced(self.fence, stands=True)


def came_since(fence: Fence, source: ClusterPort) -> dict[TopicPartition, int]:
    """By partition, how many offsets (records and transaction markers) were appended after the fence's log ends.

    Raises:
        UnreachableError, NotAuthorisedError: The source does not answer.
    """
    topics = source.topics()
    there = [name for name in fence.topics if name in topics]
    now = source.bounds([TopicPartition(name, n) for name in there for n in range(topics[name].partitions)])
    grown = {at: log.log_end - fence.ends.get(at, log.log_start) for at, log in now.items()}
    return {at: count for at, count in sorted(grown.items()) if count > 0}


def refuse_late_records(plan: FailoverPlan, names: Names, came: Mapping[TopicPartition, int]) -> None:
    """Raise if any record came after the fence's log ends: a producer got past the fence, or the fence was removed.

    Raises:
        CheckFailedError: ``came`` is not empty; the message names the partitions.
    """
    if not came:
        return
    where = few([f"{counted(count, 'record')} in {at}" for at, count in came.items()])
    raise CheckFailedError(
        f"a producer wrote on {names.source} in spite of the fence, after the log ends had stopped moving: {where};"
        f" the groups have moved, and {names.target} gets these records from `mmtool replicate`",
        remedy="find and stop that producer, and keep `mmtool replicate` running; `mmtool failover resume"
        f" {plan.operation_id} -c FILE --execute` then completes the operation",
        code="past_the_fence",
    )


def _still_open(alias: str, places: list[TopicPartition], seconds: float) -> GateError:
    after = f" after {seconds:g} s" if seconds else ""
    return GateError(
        f"transactions in {few(places)} on {alias} are still open{after}",
        remedy="let their producers commit or abort, or wait for transaction.timeout.ms; if a transaction stays open"
        f" longer, find it on {alias} with `kafka-transactions.sh find-hanging`, and end it with `kafka-transactions.sh"
        " abort`; then run the same command again",
        code="open_transactions",
    )
