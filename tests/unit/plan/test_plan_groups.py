"""Which groups a command line means, and how a group's standing reads."""

import re

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


def test_nothing_named_means_every_group_that_passes():
    assert selected() == SelectedGroups(("app", "billing"))


def test_all_groups_means_the_same():
    assert selected(everything=True) == selected()


def test_a_named_group_beats_the_exclusion():
    assert selected("connect-sink") == SelectedGroups(("connect-sink",))


def test_a_name_that_no_group_has_is_told():
    assert selected("app", "typo") == SelectedGroups(("app",), unknown={"typo": None})


def test_a_pattern_matches_whole_names_and_tells_what_the_exclusion_took():
    assert selected(pattern="(bill|connect).*") == SelectedGroups(("billing",), excluded=("connect-sink",))
    assert selected(pattern="bill") == SelectedGroups(())


def test_a_pattern_and_a_name_add_up():
    chosen = selected("connect-sink", pattern="connect.*|app")
    assert chosen == SelectedGroups(("app", "connect-sink"))


def test_groups_of_mmtool_match_no_selector():
    assert selected("mmtool.flow-1") == SelectedGroups((), unknown={"mmtool.flow-1": None})
    assert selected(pattern="mmtool.*") == SelectedGroups(())


def test_only_an_empty_or_absent_group_is_idle():
    member = (Member("app-1", "/10.0.0.7"),)
    states = {"Empty": (), "Dead": (), "Stable": member, "PreparingRebalance": (), "Unknown": ()}
    idle = [state for state, members in states.items() if GroupStanding(state, members).idle]
    assert (idle, ABSENT.idle) == (["Empty", "Dead"], True)


def test_who_is_in_a_group_is_said_by_name_and_host():
    members = tuple(Member(f"app-{n}", f"/10.0.0.{n}") for n in range(5))
    said = GroupStanding("Stable", members).sentence
    assert said == "Stable: app-0 on 10.0.0.0, app-1 on 10.0.0.1, app-2 on 10.0.0.2 and 2 more"
