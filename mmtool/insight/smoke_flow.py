"""The steps of a smoke test with their results, and the flow under test.

Of the flow: its owner, what keeps it from mirroring, and the translation of an offset.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar

from mmtool.errors import GateError, RefusedError
from mmtool.insight.flow_now import identify_pair
from mmtool.insight.partitions import partition_facts
from mmtool.insight.translation import look, refined_plans
from mmtool.plan.groups.facts import OWN_GROUP_PREFIX, Commit, GroupFacts
from mmtool.plan.groups.offsets import Direction, Rules
from mmtool.plan.records.documents import State
from mmtool.plan.words import at_most
from mmtool.translation.answers import Bounded, Exact, Reason
from mmtool.translation.types import DownstreamOffset

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.insight.flow_now import FlowClusters
    from mmtool.kafka.ports import CanaryPort, FlowWatchPort
    from mmtool.kafka.state.control_view import ControlView
    from mmtool.plan.flow.status import FlowMember
    from mmtool.plan.groups.offsets import GroupPlan, OffsetVerdict
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.translation.types import TopicId, TopicPartition


CANARY_GROUP = f"{OWN_GROUP_PREFIX}canary"
"""The group that commits in the canary topic on the source; no selector and no sync matches it."""


class SmokeStep(StrEnum):
    """A step of a smoke test; stable, as CI jobs name them."""

    CLUSTERS = "clusters"
    OWNER = "owner"
    TOPIC = "topic"
    PRODUCE = "produce"
    NEWEST = "newest"
    MIRRORED = "mirrored"
    COMMIT = "commit"
    TRANSLATED = "translated"
    READ = "read"


FIRST_STEPS = (SmokeStep.CLUSTERS, SmokeStep.OWNER)
CANARY_STEPS = (
    SmokeStep.TOPIC,
    SmokeStep.PRODUCE,
    SmokeStep.MIRRORED,
    SmokeStep.COMMIT,
    SmokeStep.TRANSLATED,
    SmokeStep.READ,
)
"""The steps of a test that writes a canary record to the source."""

NEWEST_STEPS = (SmokeStep.NEWEST, SmokeStep.MIRRORED, SmokeStep.TRANSLATED, SmokeStep.READ)
"""The steps of a test with the newest record of a mirrored topic: it writes nothing to the source."""


class SmokeRow(TypedDict):
    """One step in `mmtool smoke`.

    Attributes:
        step: Its name.
        result: Whether it passed.
        seconds: How long it took; 0 for a step that was not tried.
        message: What was found; for a failed step, the problem and the remedy.
    """

    step: SmokeStep
    result: Literal["passed", "failed"]
    seconds: float
    message: str


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one step.

    Attributes:
        seconds: How long it took; 0 for a step that was not tried.
        said: What was found; for a failed step, the problem.
        tried: False where a step before it failed.
        remedy: Of a failed step: what the operator can do; may be empty.
    """

    step: SmokeStep
    passed: bool
    seconds: float
    said: str
    tried: bool = True
    remedy: str = ""

    @property
    def message(self) -> str:
        """What was found, and the remedy."""
        return f"{self.said}; remedy: {self.remedy}" if self.remedy else self.said

    def row(self) -> SmokeRow:
        """The result as the contract's row of ``mmtool smoke``."""
        return {
            "step": self.step,
            "result": "passed" if self.passed else "failed",
            "seconds": round(self.seconds, 3),
            "message": self.message,
        }


T = TypeVar("T")

_POLL_SECONDS = 0.5
_RULES = Rules(Direction.FORWARD)
_COMES_YET = frozenset({Reason.BEYOND_MIRROR, Reason.NEVER_RAN, Reason.PARTITION_MISSING})
"""Refusals of an offset whose record is not mirrored yet."""
_REPEAT = "remove this cause, then run `mmtool smoke` again"


@dataclass(frozen=True, slots=True)
class Landed:
    """The exact translation of a source offset."""

    place: TopicPartition
    offset: DownstreamOffset


class SmokeDeadline:
    """The time at which the whole test has to be over.

    Args:
        seconds: From now on.
        clock: Seconds that only grow.
        pause: Sleeps.
    """

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.seconds, self.clock, self._pause = seconds, clock, pause
        self._until = clock() + seconds

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self._until - self.clock()

    def wait(self, look: Callable[[], T | None], missing: Callable[[], GateError]) -> T:
        """Call ``look`` until it returns something other than None, and return that.

        Raises:
            GateError: The one that ``missing`` returns, once time is up.
        """
        while (found := look()) is None:
            if self.left <= 0:
                raise missing()
            self._pause(_POLL_SECONDS)
        return found


@dataclass(slots=True)
class SmokeFlow:
    """One flow under test, with its connections.

    Attributes:
        clusters: The connections to its clusters and stored state.
        watch: Its owner, and its control topic.
        canary: The canary topic.
        mirror_maker: Returns the evidence that MirrorMaker 2 runs the flow now; empty without any.
        start_command: How an operator starts mmtool on it.
        deadline: When the test has to be over.
        identity: The ids of its clusters, once they have answered.
        by_mm2: The evidence that MirrorMaker 2 runs it; empty where mmtool does.
        warnings: Sentences for the operator.
    """

    clusters: FlowClusters
    watch: FlowWatchPort
    canary: CanaryPort
    mirror_maker: Callable[[], str]
    start_command: str
    deadline: SmokeDeadline
    identity: FlowIdentity | None = None
    by_mm2: str = ""
    warnings: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.clusters.settings.name

    @property
    def runner(self) -> str:
        """The process that runs the flow, as the start of a sentence."""
        return "MirrorMaker 2" if self.by_mm2 else "the running `mmtool replicate`"

    def probe(self) -> str:
        """Check that both clusters answer, and are two different clusters.

        Raises:
            UnreachableError, NotAuthorisedError, RefusedError: As `look`.
            ConfigError: Both aliases are one cluster.
        """
        self.identity = found = identify_pair(self.clusters)
        return f"{found.source_alias} ({found.source_id}) and {found.target_alias} ({found.target_id}) answer"

    def find_owner(self) -> str:
        """Find the process that runs the flow, and name it in a sentence.

        Raises:
            GateError: Neither mmtool nor MirrorMaker 2 runs the flow.
        """
        nobody = GateError(
            f"neither `mmtool replicate` nor MirrorMaker 2 runs {self.name}",
            remedy=f"start it: {self.start_command}",
        )

        def holder() -> FlowMember | None:
            members = self.watch.members(self.known_identity)
            if not members:
                raise nobody
            return next((member for member in members if member.holds), None)

        if self.watch.members(self.known_identity):
            held_by = self.deadline.wait(  # members may join or leave
                holder,
                lambda: GateError(
                    f"`mmtool replicate` waits for the ownership lease of {self.name}, and did not get it within"
                    f" {self.deadline.seconds:g} s",
                    remedy="read the log of the waiting `mmtool replicate`: it says what the process waits for",
                ),
            )
            return f"mmtool runs {self.name}: {held_by}"
        self.by_mm2 = self.mirror_maker()
        if self.by_mm2:
            return f"MirrorMaker 2 runs {self.name}: {self.by_mm2}"
        raise nobody

    @property
    def known_identity(self) -> FlowIdentity:
        """The flow's identity; `probe` must have passed."""
        assert self.identity is not None
        return self.identity

    # --- mirroring ----------------------------------------------------------------------------------------

    def control(self) -> ControlView:
        """The present contents of the flow's control topic."""
        return self.watch.control(self.known_identity)

    def refuse_held(self, control: ControlView, place: TopicPartition, topic_id: TopicId) -> None:
        """Raise if a partition is held, halted or refused by the owner: waiting does not help.

        Raises:
            RefusedError: The partition is.
        """
        hold = control.holds.of(topic_id, place.topic)
        if hold is not None:
            raise RefusedError(f"{hold.what} is not mirrored: {hold.reason}", remedy=hold.remedy)
        position = control.positions.get((topic_id, place.partition))
        if position is not None and position.state == State.HALTED:
            raise RefusedError(f"{place} is halted: {position.reason}", remedy=_REPEAT)
        why = control.refused_beside({place.topic}).get(place.topic)
        if why is not None:
            raise RefusedError(f"{place.topic} is not mirrored: {why}", remedy=_REPEAT)

    def watch_for(self, place: TopicPartition, topic_id: TopicId) -> None:
        """As `refuse_held`, by the control topic as it is now; nothing where MirrorMaker 2 runs the flow."""
        if not self.by_mm2:
            self.refuse_held(self.control(), place, topic_id)

    # --- offsets ------------------------------------------------------------------------------------------

    def verdict(self, place: TopicPartition, commit: Commit) -> tuple[GroupPlan, OffsetVerdict]:
        """The present answer of `translate-offsets --refine` for a commit, and the plan that holds it."""
        flow = look(self.clusters, (place.topic,))
        group = GroupFacts(CANARY_GROUP, {place: commit})
        facts = partition_facts(flow, Direction.FORWARD, self.warnings, topics={place.topic})
        _, (plan,) = refined_plans(flow, [group], facts, _RULES, self.warnings)
        return plan, next(verdict for verdict in plan.verdicts if verdict.source == place)

    def translate(self, place: TopicPartition, commit: Callable[[], Commit]) -> Landed:
        """Wait until a commit has an exact translation, and return that.

        Args:
            place: The partition on the source.
            commit: Reads the commit; called again before each reading of both logs.

        Raises:
            GateError: There was no exact translation in time.
            RefusedError: The translation is refused, and waiting does not help.
        """
        said = ""

        def attempt() -> Landed | None:
            nonlocal said
            at = commit()
            plan, verdict = self.verdict(place, at)
            said = f"offset {at.offset} of {place} on {self.clusters.source.alias} has no exact translation"
            said += f": {plan.why(verdict) or _bound(verdict)}"
            if verdict.refusal is not None and verdict.refusal not in _COMES_YET | {Reason.AMBIGUOUS}:
                raise RefusedError(said, remedy=_REPEAT, code=verdict.refusal)
            if verdict.refusal is None and isinstance(verdict.answer, Exact) and verdict.target is not None:
                return Landed(verdict.target, DownstreamOffset(verdict.answer.offset))
            return None

        return self.deadline.wait(
            attempt,
            lambda: GateError(
                f"after {self.deadline.seconds:g} s, {said}",
                remedy=f"raise --timeout if the flow only lags: {status_of(place.topic)}",
            ),
        )

    def not_in_time(self, said: str, topic: str) -> GateError:
        """The error that something of a topic did not happen before the deadline."""
        remedy = (
            f"raise --timeout if the flow only lags: {status_of(topic)}; see also the log of {self.runner}"
        )
        return GateError(f"{said} within {self.deadline.seconds:g} s", remedy=remedy)

    def exactly(self, offset: int, landed: Landed) -> str:
        """The sentence that a source offset has an exact translation."""
        source, target = self.clusters.source.alias, self.clusters.target.alias
        return f"offset {offset} on {source} is {landed.offset} on {target}, exact"

    def compare(self, topic: str) -> str:
        """The command that finds a topic's differing records, as a remedy."""
        source, target = self.clusters.source.alias, self.clusters.target.alias
        return f"find the differences: `mmtool verify -c FILE -s {source} -t {target} --topic {topic}`"

    def is_mirrored(self, place: TopicPartition, offset: int) -> bool:
        """Whether the source record at an offset is mirrored, as far as offsets tell."""
        _, verdict = self.verdict(place, Commit(offset + 1))
        return verdict.refusal not in _COMES_YET


def _bound(verdict: OffsetVerdict) -> str:
    """Why an answer is not exact, as a clause."""
    if not isinstance(verdict.answer, Bounded):
        return "the partition of the mirror is unknown"
    return f"a group would read {at_most(verdict.answer.reread_max, 'record')} again"


def status_of(topic: str) -> str:
    """The command that shows why a topic is not mirrored in time, as a part of a remedy."""
    return f"`mmtool status -c FILE --topic {topic}` shows its lag and the reason"
