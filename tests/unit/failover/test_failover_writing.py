"""Writing groups: all of it, or put back, or said."""

from dataclasses import replace

import pytest

from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.failover.commits.write import (
    AT_ONCE,
    WriteOutcome,
    Written,
    commit_all,
    failure_of_writing,
    read_back_all,
    write_groups,
)
from mmtool.insight.translation import translate_groups
from mmtool.kafka.errors import GRANT
from mmtool.kafka.ports import Problem
from mmtool.plan.groups.facts import Commit, GroupSelection, Member
from mmtool.plan.groups.offsets import Rules
from mmtool.translation.types import TopicPartition

REMOTE = [TopicPartition("east.orders", n) for n in range(2)]


def write_group(groups, plan):
    (written,) = write_groups(groups, [plan])
    return written


@pytest.fixture
def groups(scene):
    return scene.target.groups


@pytest.fixture
def plan(scene):
    """app's plan, made from what is there when the test asks for it."""
    return lambda: translate_groups(scene.look(), GroupSelection(("app",)), Rules()).plans[0]


def test_a_group_that_came_alive_meanwhile_is_left_alone(groups, plan):
    made = plan()
    groups.members["app"] = (Member("app-1", "/10.0.0.7"),)
    result = write_group(groups, made)
    assert (result.outcome, result.written, groups.committed) == (WriteOutcome.REFUSED, frozenset(), {})
    assert "UNKNOWN_MEMBER_ID" in result.problems[0]


@pytest.mark.parametrize("before", [{}, {place: Commit(7, "old") for place in REMOTE}], ids=["none", "old"])
def test_a_part_that_was_taken_is_put_back_or_deleted_when_another_is_refused(groups, plan, before):
    groups.committed["app"] = dict(before)
    groups.denied = {REMOTE[1]}
    result = write_group(groups, plan())
    assert (result.outcome, result.written) == (WriteOutcome.REFUSED, frozenset())
    assert groups.committed["app"] == before


def test_what_can_neither_be_put_back_nor_deleted_is_said(groups, plan):
    groups.denied = {REMOTE[1]}
    groups.before_reading_back = lambda: groups.denied.add(REMOTE[0])
    result = write_group(groups, plan())
    assert (result.outcome, result.written) == (WriteOutcome.PARTLY, frozenset({REMOTE[0]}))


def test_of_what_was_sent_and_nobody_could_look_at_it_is_not_known_whether_it_stands(groups, plan):
    groups.freezes = UnreachableError("west does not answer")
    result = write_group(groups, plan())
    assert (result.outcome, result.written, result.unknown) == (
        WriteOutcome.PARTLY,
        frozenset(),
        frozenset(REMOTE),
    )


def unanswered(groups, *, takes):
    """A coordinator that waits for a replica: no answer, and what was sent is told at once, or later."""
    alter, late = groups.alter, []

    def commit(group, offsets, kind=None):
        late.append(lambda: alter(group, offsets, kind))
        if takes:
            late.pop()()
        return dict.fromkeys(offsets, Problem(UnreachableError.code, "REQUEST_TIMED_OUT"))

    groups.alter = commit
    return late


def test_what_had_no_answer_and_does_not_stand_yet_may_stand_later_and_is_not_called_refused(groups, plan):
    groups.committed["app"] = {place: Commit(7) for place in REMOTE}
    late = unanswered(groups, takes=False)
    result = write_group(groups, plan())
    late.pop()()
    assert groups.committed["app"][REMOTE[0]] == Commit(50)
    assert (result.outcome, result.written, result.unknown) == (
        WriteOutcome.PARTLY,
        frozenset(),
        frozenset(REMOTE),
    )


def test_what_had_no_answer_and_stands_whole_is_written(groups, plan):
    groups.committed["app"] = {place: Commit(7) for place in REMOTE}
    unanswered(groups, takes=True)
    result = write_group(groups, plan())
    assert (result.outcome, result.written) == (WriteOutcome.WRITTEN, frozenset(REMOTE))
    assert groups.committed["app"] == {REMOTE[0]: Commit(50), REMOTE[1]: Commit(100)}


def test_of_what_was_to_be_put_back_when_the_cluster_fell_silent_it_is_not_known_either(groups, plan):
    groups.committed["app"] = {place: Commit(7) for place in REMOTE}
    groups.denied = {REMOTE[1]}
    groups.before_reading_back = lambda: setattr(groups, "freezes", UnreachableError("west is gone"))
    result = write_group(groups, plan())
    assert (result.outcome, result.written, result.unknown) == (
        WriteOutcome.PARTLY,
        frozenset(),
        frozenset({REMOTE[0]}),
    )


def test_what_somebody_else_commits_in_between_is_found_by_reading_back(groups, plan):
    made = plan()
    groups.before_reading_back = lambda: groups.committed["app"].update({REMOTE[0]: Commit(3)})
    result = write_group(groups, made)
    assert (result.outcome, result.written) == (WriteOutcome.DIFFERENT, frozenset({REMOTE[1]}))
    assert "committed 50, read back 3" in result.problems[0]


def test_a_result_that_nobody_can_read_back_is_not_called_success(groups, plan):
    made = plan()
    groups.before_reading_back = lambda: setattr(groups, "failure", UnreachableError("gone"))
    assert write_group(groups, made).outcome is WriteOutcome.DIFFERENT


def test_many_groups_are_written_and_told_of_in_the_order_of_their_plans(scene, groups):
    names = tuple(f"app-{number:02}" for number in range(40))
    for number, name in enumerate(names):
        scene.commits(name, "orders", number, 100)
    plans = translate_groups(scene.look(), GroupSelection(names), Rules()).plans
    clients = []
    groups.before_reading_back = lambda: clients.append(len(groups.committed))
    results = write_groups(groups, plans)
    assert [(w.group, w.outcome) for w in results] == [(name, WriteOutcome.WRITTEN) for name in names]
    assert [groups.committed[name][REMOTE[0]].offset for name in names] == list(range(40))
    assert clients == [40]  # one reads them all back, after the last one was written


def test_a_group_that_may_not_be_read_back_leaves_the_others_verdicts_alone(scene, groups, monkeypatch):
    scene.commits("other", "orders", 7)
    plans = translate_groups(scene.look(), GroupSelection(("app", "other")), Rules()).plans
    read = groups.commits

    def commits(names, **options):
        if "other" in names:
            raise NotAuthorisedError("no READ on group other")
        return read(names, **options)

    monkeypatch.setattr(groups, "commits", commits)
    app, other = write_groups(groups, plans)
    assert (app.outcome, other.outcome) == (WriteOutcome.WRITTEN, WriteOutcome.DIFFERENT)
    assert other.problems == ("not read back: no READ on group other",)


def test_exit_codes_follow_from_what_was_written(scene, groups):
    scene.commits("ahead", "orders", 80)
    plans = translate_groups(scene.look(), GroupSelection(("ahead", "app")), Rules()).plans
    ahead, app = plans
    codes = [
        error and error.exit_code
        for error in (
            failure_of_writing(write_groups(groups, [app]), "west"),
            failure_of_writing(write_groups(groups, [ahead]), "west"),
            failure_of_writing(write_groups(groups, plans), "west"),
        )
    ]
    assert codes == [None, 3, 6]
    groups.before_reading_back = lambda: groups.committed["app"].update({REMOTE[0]: Commit(3)})
    assert failure_of_writing(write_groups(groups, [app]), "west").exit_code == 7


@pytest.mark.parametrize(
    ("causes", "words"),
    [
        (["unreachable"], ["west.bootstrap.servers"]),
        (["UNKNOWN_MEMBER_ID", "NON_EMPTY_GROUP"], ["stop the consumers of the group on west"]),
        (
            ["OFFSET_METADATA_TOO_LARGE", "unreachable"],
            ["offset.metadata.max.bytes", "west.bootstrap.servers"],
        ),
        ([], ["remove the cause"]),
        (["not_authorised"], [GRANT]),
    ],
    ids=["away", "members", "two causes", "said in the message", "not read back"],
)
def test_each_cause_has_its_remedy_and_the_command_comes_last(causes, words):
    for outcome in (WriteOutcome.REFUSED, WriteOutcome.DIFFERENT)[: 1 + bool(causes)]:
        written = Written("app", outcome, problems=("it failed",), causes=tuple(causes))
        remedy = failure_of_writing([written], "west", "run it").remedy
        assert all(word in remedy for word in words)
        assert remedy.endswith("then run it")


def test_a_group_that_came_alive_and_one_that_was_overtaken_have_remedies_of_their_own(groups, plan):
    made = plan()
    groups.members["app"] = (Member("app-1", "/10.0.0.7"),)
    error = failure_of_writing([write_group(groups, made)], "west")
    assert error.remedy.startswith("stop the consumers of the group on west")
    groups.members.clear()
    groups.committed["app"] = {REMOTE[0]: Commit(3)}
    error = failure_of_writing(write_groups(groups, [made], looked_at=0.0), "west")
    assert error.remedy.startswith("stop the client that also commits for the group on west")
    groups.committed.clear()
    assert failure_of_writing(write_groups(groups, [made], looked_at=0.0), "west") is None


def test_what_nobody_can_say_is_still_ours_is_not_written(groups, plan):
    def silent():
        raise UnreachableError("the journal does not answer")

    made = plan()
    (result,) = read_back_all(groups, [made], commit_all(groups, [made], still_ours=silent))
    assert (result.outcome, result.written, groups.committed) == (WriteOutcome.REFUSED, frozenset(), {})


class Silent:
    """A cluster that answers no commit any more; how often it was asked, and how often it was read from."""

    def __init__(self, groups):
        self._groups, self.asked, self.read = groups, 0, 0

    def alter(self, group, offsets, kind=None):
        self.asked += 1
        return dict.fromkeys(offsets, Problem(UnreachableError.code, "no answer within 8 s"))

    def fresh(self):
        return self

    def commits(self, names):
        self.read += 1
        raise UnreachableError("no answer within 8 s")


@pytest.mark.parametrize("looked_at", [None, float("-inf")], ids=["written", "looked at once more"])
def test_a_cluster_that_has_gone_silent_is_not_waited_for_by_group_after_group(groups, plan, looked_at):
    """Or a thousand groups would wait for an hour."""
    silent = Silent(groups)
    made = [replace(plan(), group=f"app-{number}") for number in range(100)]
    results = write_groups(silent, made, looked_at=looked_at)
    assert len(results) == 100
    if looked_at is not None:
        assert (silent.asked, silent.read <= 2 * AT_ONCE + 1) == (0, True)
        return
    assert (silent.asked <= 2 * AT_ONCE, silent.read) == (True, 1)
    assert {(result.outcome, result.written) for result in results} == {(WriteOutcome.PARTLY, frozenset())}
    assert failure_of_writing(results, "west").exit_code == 6


def test_of_many_groups_an_error_names_the_first():
    results = [Written(f"g{n}", WriteOutcome.REFUSED, problems=(f"g{n}: no",)) for n in range(7)]
    assert failure_of_writing(results, "west").message.endswith("g4: no; and 2 more problems")
