"""Every refusal names the cluster that it is about, in both directions, and none calls it source or target."""

import json

import pytest

from kit.scene import Scene
from kit.there_and_back import ThereAndBack
from mmtool.plan.groups.facts import Member
from mmtool.translation.answers import FORWARD, Reason, Sides

MEMBER = (Member("app-1", "/10.0.0.9"),)


@pytest.fixture
def scene(tmp_path, wired):
    """Of ``orders`` 20 records are mirrored from east to west."""
    made = Scene(tmp_path)
    made.has("orders", 20)
    made.mirrored("orders", 0, [(0, 0, 20)], 20)
    return wired(made)


@pytest.fixture
def run(mmtool, scene):
    def asked(*words):
        return mmtool(*words, "-c", scene.config, "-o", "json")

    return asked


def detail(answer):
    (row,) = answer.rows
    return row["reason"], row["detail"]


def error(answer):
    (one,) = json.loads(answer.stdout)["errors"]
    return one


@pytest.mark.parametrize(
    ("is_active_on", "code"), [("east", "active_on_target"), ("west", "active_on_source")]
)
def test_a_failback_says_where_its_consumers_have_to_stop(mmtool, tmp_path, wired, is_active_on, code):
    """Groups go from west back to east: the flow's target is where they are read."""
    made = wired(ThereAndBack(tmp_path))
    cluster = {"east": made.source, "west": made.target}[is_active_on]
    cluster.groups.members["app"] = MEMBER
    answer = mmtool("failover", "failback", "-g", "app", "-c", made.config, "-o", "json")
    assert (answer.code, error(answer)["code"]) == (3, code)
    assert f"group app is active on {is_active_on}" in error(answer)["message"]
    assert error(answer)["remedy"] == (
        f"stop the group's consumers on {is_active_on}, and wait until their sessions end (session.timeout.ms)"
    )


def test_a_commit_past_the_source_s_end_is_said_to_be_so_on_the_source(run, scene):
    scene.commits("app", "orders", 25)
    reason, said = detail(run("translate-offsets", "-g", "app"))
    assert reason == "beyond_source_end"
    assert said.startswith("the group's commit on east is past the end of east's log")
    assert "reset the group's offset on east" in said


def test_read_in_reverse_a_commit_past_the_target_s_end_is_said_to_be_so_on_the_target(run, scene):
    scene.commits("app", "east.orders", 25, cluster=scene.target)
    reason, said = detail(run("translate-offsets", "--reverse", "-g", "app"))
    assert reason == "beyond_source_end"
    assert said.startswith("the group's commit on west is past the end of west's log")
    assert "reset the group's offset on west" in said


def test_read_in_reverse_an_answer_past_the_source_s_end_is_told_apart(run, scene):
    scene.commits("app", "east.orders", 20, cluster=scene.target)
    scene.source.add_topic("orders", "id-orders", 12)  # its log was cut
    reason, said = detail(run("translate-offsets", "--reverse", "-g", "app"))
    assert reason == "beyond_source_end"
    assert said.startswith("the group's commit on west translates to an offset past the end of east's log")
    assert (
        "set the group's offset on east yourself with `kafka-consumer-groups --reset-offsets --to-offset OFFSET"
        " --execute`" in said
    )


@pytest.mark.parametrize(("words", "written"), [((), "west"), (("--reverse",), "east")])
def test_members_are_where_offsets_would_be_written(run, scene, words, written):
    scene.commits("app", "orders", 7)
    scene.commits("app", "east.orders", 7, cluster=scene.target)
    {"east": scene.source, "west": scene.target}[written].groups.members["app"] = MEMBER
    answer = run("translate-offsets", *words, "-g", "app")
    reason, said = detail(answer)
    assert (reason, f"consumers of this group run on {written}" in said) == ("active_on_target", True)
    assert f"consumers of this group run on {written}" in error(answer)["remedy"]


@pytest.mark.parametrize(
    ("words", "read", "written"), [((), "east", "west"), (("--reverse",), "west", "east")]
)
def test_a_rewind_names_both(run, scene, words, read, written):
    scene.commits("app", "orders", 7 if written == "west" else 15)
    scene.commits("app", "east.orders", 15 if written == "west" else 7, cluster=scene.target)
    reason, said = detail(run("translate-offsets", *words, "-g", "app"))
    assert reason == "would_rewind"
    assert said.startswith(f"the group's commit on {written} is ahead of the offset translated from {read}")


@pytest.mark.parametrize("reason", list(Reason))
@pytest.mark.parametrize("is_alone", [False, True])
@pytest.mark.parametrize(("is_reverse", "is_emergency"), [(False, False), (True, False), (False, True)])
def test_no_sentence_of_known_clusters_says_source_or_target(reason, is_reverse, is_emergency, is_alone):
    said = reason.said_of(Sides("us-east", "eu-west", is_reverse, is_emergency), is_alone=is_alone)
    assert "the source" not in said
    assert "the target" not in said
    assert "{" not in said


@pytest.mark.parametrize("reason", list(Reason))
def test_the_reference_has_the_sentence_of_a_translation_from_source_to_target(reason):
    assert reason.sentence == reason.said_of(FORWARD)


@pytest.mark.parametrize("reason", sorted(set(Reason) - {Reason.UNREADABLE_STATE}))
@pytest.mark.parametrize("is_alone", [False, True])
def test_no_remedy_of_an_emergency_needs_the_source(reason, is_alone):
    said = reason.said_of(Sides("east", "west", is_emergency=True), is_alone=is_alone)
    assert [
        command for command in ("translate-offsets", "mmtool replicate", "groups audit") if command in said
    ] == []
    assert "offset on east with" not in said
    assert "partition on east with" not in said
