"""Failover plans and what they rest on, as hypothesis draws them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from hypothesis import strategies as st

from mmtool.plan.failover.choices import TO_FILE, Diverged, ToTopic
from mmtool.plan.failover.failover_plan import FailoverPlan
from mmtool.plan.failover.risks import Guard, Loss, Risk
from mmtool.plan.failover.steps import Mode
from mmtool.plan.groups.facts import Commit
from mmtool.plan.groups.offsets import Direction, GroupPlan, OffsetVerdict
from mmtool.plan.runbook.plan_file import Fingerprint, GroupSeen, PlanOrigin, SavedPlan, SideSeen
from mmtool.plan.words import Names
from mmtool.translation.answers import Bounded, Exact, Knowledge, Reason, Skipping
from mmtool.translation.divergence import DivergedTail, TailPart
from mmtool.translation.types import UNKNOWN, TopicPartition, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypothesis.strategies import SearchStrategy

Value = TypeVar("Value")

_NAMES = st.text(min_size=1, max_size=8)
_OFFSETS = st.integers(0, 2**63 - 1)
_PLACES = st.builds(TopicPartition, st.sampled_from(["orders", "payments", "e.orders"]), st.integers(0, 3))
_COMMITS = st.builds(Commit, _OFFSETS, st.text(max_size=4))
_UNKNOWN_OR = st.just(UNKNOWN).__or__
_SIDES = st.builds(
    SideSeen,
    cluster_id=st.none() | _NAMES,
    topics=st.dictionaries(_NAMES, st.tuples(_NAMES, st.integers(1, 9)), max_size=3),
)
_AT = st.dictionaries(_PLACES, _COMMITS, max_size=3).map(
    lambda commits: [(*place, *commit.pair) for place, commit in commits.items()]
)
_MEMBERS = st.lists(st.tuples(_NAMES, _NAMES), max_size=2)
_GROUPS = st.builds(GroupSeen, commits=_AT, before=_AT, members_here=_MEMBERS, members_there=_MEMBERS)

fingerprints = st.builds(
    Fingerprint, here=_SIDES, there=_SIDES, groups=st.dictionaries(_NAMES, _GROUPS, max_size=3)
)
"""What plans rest on."""

_ANSWERS = st.one_of(
    st.builds(Exact, _OFFSETS),
    st.builds(Bounded, _OFFSETS, _OFFSETS),
    st.builds(Skipping, _OFFSETS, _OFFSETS),
)

SAVABLE = (Mode.PLANNED, Mode.EMERGENCY, Mode.FAILBACK)
"""Modes whose plans can be kept in a file, and have a runbook."""


def _verdicts(group: str) -> SearchStrategy[OffsetVerdict]:
    return st.builds(
        OffsetVerdict,
        st.just(group),
        _or_none(_PLACES),
        _or_none(_PLACES),
        _or_none(_COMMITS),
        _or_none(_ANSWERS),
        _or_none(st.sampled_from(Reason)),
        st.booleans(),
        _or_none(_COMMITS),
        _or_none(st.sampled_from(Knowledge)),
    )


def _or_none(what: SearchStrategy[Value]) -> SearchStrategy[Value | None]:
    return st.none() | what


_GROUP_PLANS = _NAMES.flatmap(
    lambda name: st.builds(
        GroupPlan, st.just(name), st.sampled_from(Direction), st.lists(_verdicts(name), max_size=3).map(tuple)
    )
)
_RISKS = st.builds(
    Risk,
    st.builds(Loss)
    | _OFFSETS.map(lambda number: Loss(number, number))
    | st.builds(Loss, _UNKNOWN_OR(_OFFSETS), _OFFSETS, _OFFSETS),
    _UNKNOWN_OR(_OFFSETS),
    _UNKNOWN_OR(st.floats(0, 1e9)),
)


@st.composite
def saved_plans(draw: st.DrawFn) -> SavedPlan:
    """Plans with whatever may be in them."""
    mode, names = draw(st.sampled_from(SAVABLE)), Names("east", "west")
    groups = tuple(draw(st.lists(_GROUP_PLANS, max_size=3, unique_by=lambda plan: plan.group)))
    whose = [plan.group for plan in groups]
    risks = draw(st.dictionaries(st.tuples(st.sampled_from(whose), _PLACES), _RISKS)) if whose else {}
    guards = tuple(draw(st.lists(st.builds(Guard, _NAMES, _NAMES), max_size=2)))
    released = tuple(draw(st.lists(_NAMES, max_size=2)))
    several: list[Diverged] = [TO_FILE, ToTopic("salvage")]
    kinds = several if mode is Mode.FAILBACK else [TO_FILE]
    diverged = draw(st.sampled_from(kinds))
    plan = FailoverPlan(
        draw(_NAMES), mode, names, groups, (), guards, risks, released, diverged=diverged
    ).with_steps()
    origin = PlanOrigin(draw(_NAMES), draw(st.integers(0, 10**14)), draw(_NAMES))
    options = draw(st.dictionaries(_NAMES.filter("diverged".__ne__), _NAMES, max_size=2))
    options |= {} if diverged == TO_FILE else {"diverged": diverged.words}
    return SavedPlan(plan, draw(fingerprints), origin, options, tuple(draw(st.lists(_NAMES, max_size=2))))


@st.composite
def changed(draw: st.DrawFn, seen: Fingerprint) -> Fingerprint:
    """The same but for one fact."""
    groups = seen["groups"]
    sides = [
        side for side in (seen["here"], seen["there"]) if side["topics"] or side["cluster_id"] is not None
    ]
    which = draw(st.sampled_from(["more", *(["group"] * bool(groups)), *(["side"] * bool(sides))]))
    if which == "more":
        name = draw(_NAMES.filter(lambda name: name not in groups))
        return {**seen, "groups": {**groups, name: draw(_GROUPS)}}
    if which == "group":
        name = draw(st.sampled_from(sorted(groups)))
        return {**seen, "groups": {**groups, name: draw(_changed_group(groups[name]))}}
    if draw(st.sampled_from(sides)) is seen["here"]:
        return {**seen, "here": draw(_changed_side(seen["here"]))}
    return {**seen, "there": draw(_changed_side(seen["there"]))}


@st.composite
def _changed_group(draw: st.DrawFn, group: GroupSeen) -> GroupSeen:
    field = draw(st.sampled_from(["commits", "before", "members_here", "members_there"]))
    values: Any = _AT if field in {"commits", "before"} else _MEMBERS
    was: Any = group[field]  # type: ignore[literal-required]
    return cast("GroupSeen", {**group, field: draw(values.filter(lambda now: sorted(now) != sorted(was)))})


@st.composite
def _changed_side(draw: st.DrawFn, side: SideSeen) -> SideSeen:
    """Another cluster, or a topic that was seen and is another one, or gone."""
    if side["topics"] and (side["cluster_id"] is None or draw(st.booleans())):
        return {**side, "topics": draw(_changed_topics(side["topics"]))}
    return {**side, "cluster_id": draw(_NAMES.filter(lambda name: name != side["cluster_id"]))}


@st.composite
def _changed_topics(draw: st.DrawFn, topics: Mapping[str, tuple[str, int]]) -> dict[str, tuple[str, int]]:
    name = draw(st.sampled_from(sorted(topics)))
    topic_id, partitions = topics[name]
    others = {key: topic for key, topic in topics.items() if key != name}
    change = draw(st.sampled_from(["gone", "id", "partitions"]))
    if change == "gone":
        return others
    return {**topics, name: (topic_id + "x", partitions) if change == "id" else (topic_id, 10)}


@st.composite
def tails_and_cuts(draw: st.DrawFn) -> tuple[DivergedTail, UpstreamOffset, int]:
    """A diverged tail, dense in its parts, an offset up to which it was written, and how many records that are."""
    at, parts = draw(st.integers(0, 50)), list[TailPart]()
    start = at
    for _ in range(draw(st.integers(0, 4))):
        first = at + draw(st.integers(0, 3))
        count = draw(st.integers(1, 6))
        at = first + count
        parts.append(TailPart(UpstreamOffset(first), UpstreamOffset(at), count))
    end = UpstreamOffset(at + draw(st.integers(0, 3)))
    offsets = [offset for part in parts for offset in range(part.start, part.stop)]
    count = draw(st.integers(0, len(offsets)))
    stop = end if count == len(offsets) else offsets[count]
    tail = DivergedTail(
        UpstreamOffset(start), end, tuple(parts), is_final=True, brought_to=UpstreamOffset(start)
    )
    return tail, UpstreamOffset(stop), count
