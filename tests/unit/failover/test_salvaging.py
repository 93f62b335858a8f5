"""``--diverged topic NAME`` and ``replay`` on clusters in memory: each record is written once, and read once."""

import pytest

from kit.batches import data
from kit.one_name import AT_HOME, ORDERS, OneName
from kit.there_and_back import ThereAndBack
from mmtool.errors import NotAuthorisedError, OwnedElsewhereError, RefusedError, UnreachableError
from mmtool.failover.modes.failback import execute, give_up, rehearse
from mmtool.failover.modes.rehearsal import Rehearsal
from mmtool.failover.modes.release import refuse_half_way
from mmtool.failover.operation.flapping_check import judged
from mmtool.failover.operation.records import recorded
from mmtool.failover.operation.recovery import rehearse_taking_back, take_back
from mmtool.failover.operation.states import Event
from mmtool.failover.report.report import ended_row, rehearsed_row
from mmtool.kafka.batches import CorruptBatchError
from mmtool.kafka.ports import Bounds
from mmtool.plan.failover.divergence import Replay, ToTopic, diverged_of
from mmtool.plan.groups.facts import Commit, GroupSelection
from mmtool.plan.records.identity import FlowIdentity
from mmtool.translation.types import TopicPartition

BOTH = GroupSelection(("app", "late"))
SALVAGE = TopicPartition("salvage", 0)
TAIL = [b"v%d" % n for n in range(10, 15)]


@pytest.fixture
def scene(tmp_path):
    return OneName(tmp_path)


@pytest.fixture
def ran(scene, tmp_path):
    def run(words, selection=BOTH, since=None):
        name = since and since.operation_id
        rehearsal = rehearse(scene.both, selection, operation_id=name, diverged=diverged_of(words))
        assert rehearsal.plan.guards == ()
        context, journalist = scene.context(rehearsal, home=True, since=since)
        standing = {} if since is None else {"since": since.operation.standing}
        tools = scene.tools_for(words, since)
        return execute(rehearsal, scene, context, journalist, folder=tmp_path, tools=tools, **standing)

    return run


def found(scene):
    (one,) = recorded(scene.journal.entries())
    return one


def test_into_a_file_groups_of_one_name_go_home_behind_the_tail(scene, ran):
    assert ended_row(ran("file"))["state"] == "completed"
    assert (scene.source.groups.committed, scene.frontier) == (AT_HOME, 10)


def test_into_a_topic_at_home_the_tail_goes_whole_and_the_mirror_ships_it_as_ever(scene, ran, tmp_path):
    row = ended_row(ran("topic salvage"))
    assert (row["state"], row["diverged_records"]) == ("completed", 5)
    assert scene.writers["topic"].values(SALVAGE) == TAIL
    assert (scene.source.groups.committed, scene.frontier, scene.passing.passed) == (AT_HOME, 10, [])
    assert list(tmp_path.glob("*.jsonl")) == []


def test_replayed_the_tail_is_away_as_new_records_and_comes_home_with_them(scene, ran):
    row = ended_row(ran("replay"))
    assert (row["state"], row["diverged_records"], row["reread_records"]) == ("completed", 5, 0)
    assert scene.writers["replay"].values(ORDERS) == TAIL
    assert scene.drained[-1] == {ORDERS: 21}
    assert scene.source.groups.committed == AT_HOME


def test_what_is_replayed_the_mirror_passes_over_before_anything_else(scene, ran):
    seen = []
    alter = scene.source.groups.alter
    scene.source.groups.alter = lambda *of: seen.append(scene.frontier) or alter(*of)
    ran("replay")
    assert (seen, scene.passing.passed) == ([15, 15], [{ORDERS: 15}])


def test_topics_that_stay_failed_over_have_their_tail_passed_over_as_well(scene, ran):
    ran("replay", GroupSelection(("app",)))
    assert (scene.marks.failed_over, scene.frontier) == ({"orders"}, 15)


@pytest.mark.parametrize("words", ["topic salvage", "replay"])
def test_where_everything_was_mirrored_nothing_is_written(scene, ran, words):
    scene.source.add_topic("orders", "id-orders", 10)
    scene.home.logs[ORDERS] = data(0, 10)
    ran(words)
    assert [writer.ours for writer in scene.writers.values()] == [{}, {}]


def test_where_the_tail_goes_is_on_record_before_its_first_record(scene, ran):
    seen = []
    append = scene.writers["replay"].append
    scene.writers["replay"].append = lambda *of: seen.append(found(scene).tail) or append(*of)
    ran("replay")
    assert [(begun.ends, begun.records) for begun in seen] == [({ORDERS: 16}, 5)] * 2
    assert found(scene).tail is None


@pytest.mark.parametrize("words", ["topic salvage", "replay"])
def test_the_rehearsal_says_where_the_tail_goes_and_writes_nothing(scene, words):
    rehearsal = rehearse(scene.both, BOTH, diverged=diverged_of(words))
    where = "topic salvage of east" if words != "replay" else "orders on west"
    (export,) = [step for step in rehearsed_row(rehearsal)["steps"] if step["name"] == "export_diverged"]
    assert where in export["sentence"]
    assert "5 records of east never reached west" in rehearsal.warnings[0]
    assert [writer.ours for writer in scene.writers.values()] == [{}, {}]


def test_with_prefixed_names_a_replay_is_refused(tmp_path):
    rehearsal = rehearse(ThereAndBack(tmp_path).both, BOTH, diverged=Replay())
    assert (rehearsal.refusal.exit_code, rehearsal.refusal.code) == (3, "no_way_home")
    assert "--diverged topic NAME" in rehearsal.refusal.remedy


def test_who_was_behind_would_read_the_tail_twice_and_is_refused(scene):
    scene.commits("late", "orders", 7, cluster=scene.target)
    refusal = rehearse(scene.both, BOTH, diverged=Replay()).refusal
    assert (refusal.exit_code, refusal.code) == (3, "would_read_twice")
    assert "group late" in refusal.message
    assert rehearse(scene.both, BOTH, diverged=ToTopic("salvage")).refusal is None


def test_who_had_read_some_of_the_tail_before_home_was_lost_is_told_to_read_it_again(scene, ran):
    scene.commits("app", "orders", 12)
    row = ended_row(ran("replay"))
    (app,) = [group["partitions"][0] for group in row["groups"] if group["group"] == "app"]
    assert (app["exactness"], app["reread_max"], row["reread_records"]) == ("bounded", 2, 2)
    assert scene.source.groups.committed == AT_HOME


def test_a_topic_that_the_way_back_does_not_bring_home_is_no_place_for_a_replay(tmp_path):
    scene = OneName(tmp_path, "west->east.topics.exclude = orders\n")
    refusal = rehearse(scene.both, BOTH, diverged=Replay()).refusal
    assert (refusal.code, "does not mirror orders" in refusal.message) == ("no_way_home", True)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("orders", "wrong_topic"),
        ("mmtool-journal.internal", "wrong_topic"),
        ("__consumer_offsets", "wrong_topic"),
        ("not-there", "partition_missing"),
    ],
)
def test_a_topic_that_cannot_take_the_tail_is_refused_in_the_rehearsal(scene, name, code):
    with pytest.raises(RefusedError) as caught:
        rehearse(scene.both, BOTH, diverged=ToTopic(name))
    assert (caught.value.exit_code, caught.value.code) == (3, code)
    assert caught.value.remedy


def test_a_topic_with_too_few_partitions_is_refused_in_the_rehearsal(tmp_path):
    scene = OneName(tmp_path)
    del scene.source.logs[SALVAGE]
    with pytest.raises(RefusedError, match="cluster east has no partition salvage-0"):
        rehearse(scene.both, BOTH, diverged=ToTopic("salvage"))


def test_while_somebody_runs_the_flow_nothing_is_replayed(scene, ran):
    scene.passing.owner = OwnedElsewhereError("flow east->west is run by host-2")
    ended = ran("replay")
    assert (ended.operation.error.exit_code, scene.writers["replay"].ours) == (10, {})


def test_an_away_that_does_not_answer_in_the_middle_leaves_it_to_be_resumed(scene, ran):
    scene.writers["replay"].lives, scene.writers["replay"].dies = [1], UnreachableError("west is gone")
    ended = ran("replay")
    assert (ended.operation.error.exit_code, scene.frontier) == (6, 10)
    assert "mmtool failover resume" in ended.operation.error.remedy
    again = ran("replay", since=found(scene))
    assert (again.operation.error, scene.writers["replay"].values(ORDERS)) == (None, TAIL)
    assert (scene.source.groups.committed, scene.frontier) == (AT_HOME, 15)


def test_topics_that_had_not_failed_over_stay_held_while_a_replay_is_half_way(scene, ran):
    drain = scene.drain
    scene.drain = lambda flow, *more: flow.source.alias == "west" and drain(flow, *more)  # home is written to
    scene.state.view.holds = type(scene.state.view.holds)()
    scene.writers["replay"].lives, scene.writers["replay"].dies = [1], UnreachableError("west is gone")
    error = ran("replay").operation.error
    assert (error.exit_code, scene.marks.failed_over) == (6, {"orders"})
    assert "a second time" in error.message
    scene.drain = drain
    assert ran("replay", since=found(scene)).operation.error is None
    assert (scene.writers["replay"].values(ORDERS), scene.frontier) == (TAIL, 15)
    assert scene.marks.failed_over == set()


def test_topics_are_not_released_by_hand_while_a_replay_is_half_way(scene, ran):
    scene.writers["replay"].lives, scene.writers["replay"].dies = [1], UnreachableError("west is gone")
    ran("replay")
    refuse_half_way([found(scene)], ["payments"])
    with pytest.raises(RefusedError, match="a release now would mirror them a second time"):
        refuse_half_way([found(scene)], ["orders"])
    ran("replay", since=found(scene))
    refuse_half_way([found(scene)], ["orders"])


@pytest.mark.parametrize("words", ["topic salvage", "replay"])
def test_what_came_home_between_two_kills_is_written_whole_and_once(scene, ran, words):
    """Who finishes what was begun goes on with what came since: the numbers of the one are none of the other."""
    writer, place = scene.writers[words.split()[0]], ORDERS if words == "replay" else SALVAGE
    writer.lives, writer.dies = [1, 2], UnreachableError("gone")
    ran(words)
    scene.home.logs[ORDERS] += data(15, 2) + data(17, 2)
    scene.source.logs[ORDERS] = Bounds(0, 19)
    assert ran(words, since=found(scene)).operation.error.exit_code == 6
    assert writer.values(place) == [*TAIL, b"v15", b"v16"]
    assert ran(words, since=found(scene)).operation.error is None
    assert writer.values(place) == [*TAIL, b"v15", b"v16", b"v17", b"v18"]


def test_a_record_that_cannot_be_replayed_leaves_nothing_half_way(scene, ran):
    scene.writers["replay"].lives, scene.writers["replay"].dies = [1], CorruptBatchError("a bad batch", 12)
    ended = ran("replay")
    assert (ended.operation.error.exit_code, scene.frontier) == (6, 12)
    assert "2 of 5 diverged records are written" in ended.operation.error.message
    assert found(scene).tail is None
    again = ran("replay", since=found(scene))
    assert (again.operation.error, scene.writers["replay"].values(ORDERS)) == (None, TAIL)
    assert (scene.source.groups.committed, scene.frontier) == (AT_HOME, 15)
    assert ended_row(again)["diverged_records"] == 5


def test_a_topic_that_does_not_take_a_record_is_told_apart_from_one_that_may_have_taken_it(scene, ran):
    scene.writers["topic"].lives, scene.writers["topic"].dies = [1], RefusedError("INVALID_RECORD")
    error = ran("topic salvage").operation.error
    assert (error.exit_code, error.message) == (6, "INVALID_RECORD; 2 of 5 diverged records are written")
    assert f"mmtool failover resume {found(scene).operation_id}" in error.remedy
    assert (found(scene).tail, found(scene).salvaged[ORDERS][0].records) == (None, 2)
    again = ran("topic salvage", since=found(scene))
    assert (again.operation.error, scene.writers["topic"].values(SALVAGE)) == (None, TAIL)


def test_where_nobody_may_write_nothing_is_on_record_as_begun(scene, ran):
    def denied(*_):
        raise NotAuthorisedError("west denies WRITE on transactional id")

    scene.writers["replay"].appended = denied
    error = ran("replay").operation.error
    assert (error.exit_code, found(scene).tail, found(scene).salvaged) == (9, None, {})


def test_where_the_first_record_cannot_be_replayed_nothing_has_happened(scene, ran):
    scene.writers["replay"].lives, scene.writers["replay"].dies = [0], CorruptBatchError("a bad batch", 12)
    error = ran("replay").operation.error
    assert (error.message, scene.frontier, found(scene).tail) == ("a bad batch", 10, None)


def test_what_may_be_written_in_part_keeps_other_failbacks_of_the_same_groups_out(scene, ran):
    scene.writers["topic"].lives, scene.writers["topic"].dies = [1], UnreachableError("east is gone")
    first = ran("topic salvage")
    assert first.operation.error.exit_code == 6
    error = ran("file").operation.error
    assert (error.code, scene.writers["topic"].values(SALVAGE)) == ("open_operation", TAIL[:2])


def test_home_is_not_asked_again_for_what_is_written(scene, ran):
    scene.passing.failure = UnreachableError("west is gone")
    assert ran("replay").operation.error.exit_code == 6
    scene.passing.failure, scene.home.logs[ORDERS] = None, b""
    again = ran("replay", since=found(scene))
    assert (again.operation.error, scene.writers["replay"].values(ORDERS)) == (None, TAIL)
    assert scene.frontier == 15


# --- the tail is deleted while it is written ---------------------------------------------------------------


def tail_deleted_in_part(scene):
    scene.home.logs[ORDERS] = data(12, 3)
    scene.source.logs[ORDERS] = Bounds(12, 15)


def topic_deleted(scene):
    scene.source.add_topic("orders-of-others", "id-others", 0)  # a flow without any topic is refused
    scene.source.forget_topic("orders")
    del scene.home.logs[ORDERS]


def cancelled(scene, capsys):
    """As `mmtool failover cancel` does it; returns what it warns of."""
    one = found(scene)
    rehearsal = Rehearsal(scene.settings, one.source_id, one.target_id, one.operation.plan)
    context, log = scene.context(rehearsal, since=one, home=True)
    tools = scene.tools_for("replay", one)
    identity = FlowIdentity(one.source_id, one.target_id, "east", "west")
    take_back(
        lambda: rehearse_taking_back(
            one, Event.CANCEL, scene.source, scene.state, identity, "bob@host-2", 0, others=[one]
        ),
        context,
        log,
        give_up=lambda context: give_up(scene.both, one, tools, context),
    )
    return capsys.readouterr().err


@pytest.mark.parametrize("words", ["topic salvage", "replay"])
def test_where_the_tail_is_deleted_while_it_is_written_a_resume_says_that_only_a_cancel_ends_it(
    scene, ran, words
):
    writer, place = (
        scene.writers[words.split()[0]],
        "orders on west" if words == "replay" else "salvage on east",
    )
    writer.lives, writer.dies = [1], UnreachableError("gone")
    ran(words)
    tail_deleted_in_part(scene)
    error = ran(words, since=found(scene)).operation.error
    assert (error.exit_code, error.code) == (6, "ambiguous")
    assert error.remedy == (
        f"run `mmtool failover cancel {found(scene).operation_id} -c FILE --execute`, then compare topic {place} with a"
        " backup and with what east still has, and produce the missing records into that topic"
    )


@pytest.mark.parametrize("delete", [tail_deleted_in_part, topic_deleted])
def test_a_cancel_ends_a_replay_whose_tail_is_deleted_and_says_what_is_not_known(scene, ran, delete, capsys):
    scene.writers["replay"].lives, scene.writers["replay"].dies = [1], UnreachableError("west is gone")
    ran("replay")
    delete(scene)
    scene.home.read.clear()
    said = cancelled(scene, capsys)
    assert all(offsets.start >= 12 for _, offsets in scene.home.read), (
        "a broker refuses to read below the log start"
    )
    assert "2 of 5 diverged records of orders-0 are on west" in said
    assert "compare topic orders on west with a backup" in said
    assert (found(scene).state, found(scene).tail, scene.passing.passed) == ("cancelled", None, [])
    assert scene.writers["replay"].values(ORDERS) == TAIL[:2]


def test_a_cancel_has_nothing_to_say_where_all_was_written_before_the_topic_was_deleted(scene, ran, capsys):
    scene.passing.failure = UnreachableError("west is gone")
    assert ran("replay").operation.error.exit_code == 6
    topic_deleted(scene)
    assert "diverged records" not in cancelled(scene, capsys)
    assert (found(scene).state, found(scene).salvaged[ORDERS][0].records) == ("cancelled", 5)


def test_a_cancel_ends_a_replay_of_which_nothing_was_written_before_the_topic_was_deleted(scene, ran, capsys):
    scene.writers["replay"].lives, scene.writers["replay"].dies = [0], UnreachableError("west is gone")
    ran("replay")
    topic_deleted(scene)
    assert "diverged records" not in cancelled(scene, capsys)
    assert (found(scene).state, found(scene).salvaged) == ("cancelled", {})


def test_of_a_tail_that_is_whole_a_cancel_makes_the_flow_skip_what_is_written(scene, ran, capsys):
    scene.writers["replay"].lives, scene.writers["replay"].dies = [1], UnreachableError("west is gone")
    ran("replay")
    assert "diverged records" not in cancelled(scene, capsys)
    assert (found(scene).state, scene.frontier) == ("cancelled", 12)


def test_a_group_that_never_committed_at_home_goes_home_as_well(scene, ran):
    del scene.source.groups.committed["app"]
    ran("replay")
    assert scene.source.groups.committed["app"] == {ORDERS: Commit(19)}


@pytest.mark.parametrize("how", ["completed", "failed", "cut off"])
def test_what_another_failback_has_written_into_the_same_topic_is_told_before_it_is_written_again(
    scene, ran, how
):
    """Groups that come home in two goes, or a command that is typed again: the tail is tail until it is mirrored."""
    if how == "failed":
        scene.source.groups.rights_missing = ["READ on group app"]
    if how == "cut off":
        scene.writers["topic"].lives, scene.writers["topic"].dies = [1], UnreachableError("east is gone")
    ran("topic salvage", GroupSelection(("app",)))
    before, said = found(scene), []
    for words in ("topic salvage", "topic other", "file"):
        scene.source.add_topic("other", "id-other", 0)
        rehearsal = rehearse(scene.both, GroupSelection(("late",)), diverged=diverged_of(words))
        said.append(judged(rehearsal, [scene.journal], scene.lock, 0, is_resumed=False).warnings)
    told = (
        f"operation {before.operation_id} already wrote up to 5 diverged records into topic salvage of east"
    )
    assert [sum(told in warning for warning in of) for of in said] == [1, 0, 0]
    if how == "completed":
        ran("topic salvage", GroupSelection(("late",)))
        assert scene.writers["topic"].values(SALVAGE) == [*TAIL, *TAIL]
