"""Which groups a command line means, and how a group's standing reads."""

import re

import pytest

from mmtool.plan.groups.facts import (
    ABSENT,
    GroupSelection,
    GroupStanding,
    Member,
    SelectedGroups,
    select_groups,
)

LISTED = ["app", "billing", "connect-sink", "mmtool.flow-1"]


def passes(group):
    """As MM2's default groups.exclude does."""
    return not group.startswith("connect-")


def selected(*names, pattern=None, everything=False):
    return select_groups(
        GroupSelection(names, pattern and re.compile(pattern).fullmatch, everything), LISTED, passes
    )


EVERY, SINK, OWN = ("app", "billing"), "connect-sink", "mmtool.flow-1"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (selected(), SelectedGroups(EVERY)),
        (selected(everything=True), SelectedGroups(EVERY)),
        (selected(SINK), SelectedGroups((SINK,))),
        (selected("app", "typo"), SelectedGroups(("app",), unknown={"typo": None})),
        (selected(pattern="(bill|connect).*"), SelectedGroups(("billing",), excluded=(SINK,))),
        (selected(pattern="bill"), SelectedGroups(())),
        (selected(SINK, pattern="connect.*|app"), SelectedGroups(("app", SINK))),
        (selected(OWN), SelectedGroups((), unknown={OWN: None})),
        (selected(pattern="mmtool.*"), SelectedGroups(())),
    ],
    ids=[
        "nothing named: all that pass",
        "all groups: the same",
        "a name beats the exclusion",
        "an unknown name is told",
        "a pattern tells what the exclusion took",
        "a pattern matches whole names",
        "a pattern and a name add up",
        "own groups match no name",
        "own groups match no pattern",
    ],
)
def test_a_selection_means_these_groups(found, expected):
    assert found == expected


def test_only_an_empty_or_absent_group_is_idle():
    member = (Member("app-1", "/10.0.0.7"),)
    states = {"Empty": (), "Dead": (), "Stable": member, "PreparingRebalance": (), "Unknown": ()}
    idle = [state for state, members in states.items() if GroupStanding(state, members).idle]
    assert (idle, ABSENT.idle) == (["Empty", "Dead"], True)


def test_who_is_in_a_group_is_said_by_name_and_host():
    members = tuple(Member(f"app-{n}", f"/10.0.0.{n}") for n in range(5))
    said = GroupStanding("Stable", members).sentence
    assert said == "Stable: app-0 on 10.0.0.0, app-1 on 10.0.0.1, app-2 on 10.0.0.2 and 2 more"
