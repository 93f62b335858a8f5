"""The state topics of an application beside its offsets: what is missing, and which is newer."""

import pytest

from kit.maps import map_of
from kit.runs import ORDERS
from mmtool.plan.failover.risks import EmergencyFacts, LastWord, state_lags
from mmtool.plan.groups.applications import AppState, StateTopic
from mmtool.plan.groups.offsets import PartitionFacts
from mmtool.plan.words import Names
from mmtool.translation.answers import TargetLog
from mmtool.translation.blocks import SeenOffset
from mmtool.translation.types import UNKNOWN, DownstreamOffset, TopicPartition, UpstreamOffset

CHANGELOG = "app-counts-changelog"


@pytest.mark.parametrize(
    ("seen", "known", "ahead", "age"),
    [
        ((105_000, 125_000), (30_000,), 95.0, "up to 95.0 s newer than the offsets of group app: records"),
        (
            (10_000, 20_000),
            (30_000,),
            -10.0,
            "up to 20.0 s older than the offsets of group app: app may start",
        ),
        ((20_000, 40_000), (30_000, 31_000), 10.0, "between 11.0 s older and 10.0 s newer: app may start"),
        ((30_000, 30_000), (30_000,), 0.0, ""),
    ],
    ids=["newer", "older", "both", "equal"],
)
def test_the_age_of_state_is_bounded_by_the_newest_end_and_the_oldest_offset(seen, known, ahead, age):
    places = [TopicPartition(CHANGELOG, p) for p in range(2)]
    whole = map_of(ORDERS, [(0, 0, 9)], 9)
    facts = EmergencyFacts(
        (),
        {},
        {
            ("app", TopicPartition("orders", p)): LastWord(DownstreamOffset(1), ms)
            for p, ms in enumerate(known)
        },
        {
            place: PartitionFacts(
                place, place, whole, UNKNOWN, TargetLog(DownstreamOffset(0), DownstreamOffset(9))
            )
            for place in places
        },
        {place: SeenOffset(UpstreamOffset(9), ms) for place, ms in zip(places, seen, strict=False)},
        now_ms=max(seen),
        look_seconds=30,
    )
    state = AppState(topics=(StateTopic("app", CHANGELOG, 2),))
    (lag,) = state_lags(state, facts)
    assert (lag.lost.most, lag.ahead_seconds) == (0, ahead)
    held, _, told = lag.sentence(Names("east", "west")).partition(" was seen to hold")
    assert held == f"state of app: west holds every record of {CHANGELOG} that east"
    assert (age in told, bool(age)) == (True, bool(told))
