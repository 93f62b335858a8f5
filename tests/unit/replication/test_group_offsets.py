"""Group offsets, turn by turn: a group that cannot be committed for keeps no other one from it."""

import asyncio
import threading
from concurrent.futures import wait
from types import SimpleNamespace

import pytest

from kit.clusters import FakeCluster
from kit.scene import half_read
from kit.tasks import under_way
from mmtool.config.names import NameFilter
from mmtool.errors import MmtoolError, NotAuthorisedError, UnreachableError
from mmtool.insight.translation import look
from mmtool.kafka.ports import Bounds
from mmtool.plan.groups.facts import Commit, Member
from mmtool.plan.records.documents import CommitRatesRecord
from mmtool.plan.records.marks import LookRecord, MovedGroupRecord
from mmtool.replication.background.checkpoints import Checkpoints, GroupOffsets
from mmtool.runtime.threads import in_thread
from mmtool.translation.mm2_records import Checkpoint
from mmtool.translation.types import UNKNOWN, ClusterId, DownstreamOffset, TopicPartition, UpstreamOffset

GRANT = "grant mmtool's principal the missing right: `mmtool doctor -c FILE` prints the kafka-acls.sh command"
REMOTE = [TopicPartition("a.orders", n) for n in range(2)]


@pytest.fixture
def target():
    cluster = FakeCluster("b", ClusterId("there"))
    cluster.add_topic("a.orders", "id", 100, 100)
    return cluster


def duty_for(target, *stands):
    """Checkpoints as (group, partition, offset)."""
    current = {
        (group, number): Checkpoint(group, REMOTE[number], UpstreamOffset(0), DownstreamOffset(offset), "m")
        for group, number, offset in stands
    }
    return GroupOffsets(SimpleNamespace(current=current, kinds={}), target)


def turn(duty):
    asyncio.run(duty.perform())


def move(duty, group, number, offset):
    stands = Checkpoint(group, REMOTE[number], UpstreamOffset(0), DownstreamOffset(offset), "m")
    duty.checkpoints.current[group, number] = stands


def test_a_group_that_works_on_the_target_is_left_alone_until_it_has_left(target):
    duty = duty_for(target, ("app", 0, 5), ("other", 0, 7))
    target.groups.members["app"] = (Member("app", "10.0.0.7"),)
    turn(duty)
    assert target.groups.committed.keys() == {"other"}
    target.groups.members.clear()
    turn(duty)
    assert target.groups.committed["app"] == {REMOTE[0]: Commit(5, "m")}


def test_one_partition_that_is_denied_is_named_and_everything_else_is_committed(target):
    target.groups.denied.add(REMOTE[1])
    with pytest.raises(MmtoolError, match=r"group app: a\.orders-1") as refused:
        turn(duty_for(target, ("app", 0, 5), ("app", 1, 6), ("other", 0, 7)))
    assert refused.value.remedy == GRANT
    assert {group: list(at) for group, at in target.groups.committed.items()} == {
        "app": [REMOTE[0]],
        "other": [REMOTE[0]],
    }


def test_a_group_that_was_not_shown_to_us_is_followed_within_a_minute_once_it_is(target):
    clock = [1000.0]
    duty = duty_for(target, ("app", 0, 5), ("secret", 0, 5))
    duty.follower.now = lambda: clock[0]
    target.groups.hidden["secret"] = NotAuthorisedError("cluster b denies DESCRIBE on group secret")
    with pytest.raises(NotAuthorisedError):
        turn(duty_for(target, ("secret", 0, 5)))
    with pytest.raises(MmtoolError, match="denies DESCRIBE on group secret") as refused:
        turn(duty)
    assert refused.value.remedy == GRANT
    target.groups.hidden.clear()
    clock[0] += 60
    turn(duty)
    assert target.groups.committed["secret"] == {REMOTE[0]: Commit(5, "m")}


def test_while_the_target_is_away_nobody_is_asked_about_one_by_one(target):
    asked = []

    def away(groups):
        asked.append(len(groups))
        raise UnreachableError("cluster b does not answer")

    target.groups.describe_each = away
    with pytest.raises(UnreachableError):
        turn(duty_for(target, ("app", 0, 5), ("other", 0, 7)))
    assert asked == [2]


def test_nothing_is_committed_outside_the_target_s_log(target):
    turn(duty_for(target, ("app", 0, 101), ("app", 1, 100)))
    assert target.groups.committed["app"] == {REMOTE[1]: Commit(100, "m")}


def test_a_group_that_is_moved_back_by_somebody_who_is_not_in_it_is_left_alone_for_a_minute(target):
    """A consumer that was given its partitions (``assign()``) commits without being a member."""
    duty = duty_for(target, ("app", 0, 50))
    duty.follower.now = lambda: clock[0]
    clock = [1000.0]
    turn(duty)
    for seconds, reads, stands in ((5, 7, 7), (30, 8, 8), (59, None, 8), (91, None, 60)):
        clock[0] = 1000.0 + seconds
        if reads is not None:
            target.groups.committed["app"] = {REMOTE[0]: Commit(reads)}
        move(duty, "app", 0, 60)
        turn(duty)
        assert target.groups.committed["app"][REMOTE[0]].offset == stands


def test_what_could_not_be_committed_was_moved_by_nobody(target):
    """The target's log did not hold the position yet: what stands there is older, and not somebody else's."""
    target.groups.committed["app"] = {REMOTE[0]: Commit(50)}
    duty = duty_for(target, ("app", 0, 101))
    turn(duty)
    target.logs[REMOTE[0]] = Bounds(0, 200)
    move(duty, "app", 0, 102)
    turn(duty)
    assert target.groups.committed["app"] == {REMOTE[0]: Commit(102, "m")}


def test_a_commit_that_the_target_has_forgotten_comes_back(target):
    duty = duty_for(target, ("app", 0, 5))
    turn(duty)
    target.groups.committed.clear()
    duty.follower._everything_at = 0.0  # a minute later
    turn(duty)
    assert target.groups.committed == {"app": {REMOTE[0]: Commit(5, "m")}}


def test_a_partition_that_stands_still_is_committed_again_in_time_although_others_move(target):
    """Kafka forgets each commit by its own age, where nobody is in the group."""
    clock, day, at = [0.0], 86_400.0, {}
    duty = duty_for(target, ("app", 0, 5), ("app", 1, 6))
    duty.follower.now = lambda: clock[0]
    alter = target.groups.alter

    def noted(group, offsets, kind=None):
        at.update(dict.fromkeys(offsets, clock[0]))
        return alter(group, offsets, kind)

    target.groups.alter = noted
    for hours in range(0, 20 * 24, 6):
        clock[0] = hours * 3600.0
        move(duty, "app", 0, 5 + hours // 6)
        turn(duty)
        assert clock[0] - at[REMOTE[1]] < 7 * day / 3


def moved(group):
    return MovedGroupRecord(group, moved=True, operation_id="fo-7", by="ann@east", since_ms=1)


def test_a_group_that_came_home_is_followed_as_if_it_had_never_been_away(target):
    """What stands on the target then was put there by the failover and by whoever consumed: nobody to make way for."""
    marks = {}
    duty = duty_for(target, ("app", 0, 5))
    duty.follower.moved = lambda: marks
    turn(duty)
    marks["app"] = moved("app")
    target.groups.committed["app"] = {REMOTE[0]: Commit(3)}
    turn(duty)
    marks.clear()
    move(duty, "app", 0, 9)
    turn(duty)
    assert target.groups.committed["app"] == {REMOTE[0]: Commit(9, "m")}


class Slow:
    """A call that takes long the first time it is made; ``before`` it does anything, or behind it."""

    def __init__(self, call, *, before):
        self.call, self.before = call, before
        self.begun, self.goes_on, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, *args, **named):
        if self.begun.is_set():
            return self.call(*args, **named)
        self.begun.set()
        found = None if self.before else self.call(*args, **named)
        self.goes_on.wait(10)
        found = self.call(*args, **named) if self.before else found
        self.ended.set()
        return found


async def cut_off(turn, slow, meanwhile):
    """A run that has caught up ends its duties in the middle of a turn, and performs the last one at once."""
    async with under_way(turn()):
        assert await in_thread(slow.begun.wait, 10)
    meanwhile()
    last = asyncio.create_task(turn())
    await asyncio.wait({last}, timeout=0.2)
    slow.goes_on.set()
    await last
    assert slow.ended.wait(10)


def test_a_look_at_the_source_that_is_under_way_does_not_disturb_a_turn(target):
    """It is made in a thread of its own, and groups come and go."""
    duty = duty_for(target, ("app", 0, 5), ("gone", 1, 6))
    current = duty.checkpoints.current

    class Interrupted(SimpleNamespace):
        @property
        def group(self):
            current.pop(("gone", 1), None)
            return "app"

    current["app", 0] = Interrupted(topic_partition=REMOTE[0], downstream=5, metadata="m")
    turn(duty)
    assert target.groups.committed["app"] == {REMOTE[0]: Commit(5, "m")}


def test_a_turn_that_was_cut_off_does_not_move_a_group_behind_where_the_next_one_has_moved_it(target):
    duty = duty_for(target, ("app", 0, 5))
    slow = target.groups.alter = Slow(target.groups.alter, before=True)
    asyncio.run(cut_off(duty.perform, slow, lambda: move(duty, "app", 0, 9)))
    assert target.groups.committed == {"app": {REMOTE[0]: Commit(9, "m")}}


def test_a_look_that_was_cut_off_does_not_put_older_commits_into_place_of_those_of_the_next_one(tmp_path):
    scene = half_read(tmp_path)
    duty = Checkpoints(lambda: None, None)
    slow = scene.source.groups.commits_each = Slow(scene.source.groups.commits_each, before=False)

    async def looked():
        await in_thread(duty._look, look(scene.clusters))

    asyncio.run(cut_off(looked, slow, lambda: scene.commits("app", "orders", 15, 10)))
    assert sorted(checkpoint.upstream for checkpoint in duty.current.values()) == [10, 15]


@pytest.fixture
def looking(tmp_path, monkeypatch):
    """A duty over ``app`` and ``secret``, and the looks that it has written."""
    scene, looks = half_read(tmp_path), []
    scene.commits("secret", "orders", 15)

    async def append(_, __, records, *___):
        looks.extend(LookRecord.decode(value) for key, value in records if key == b"looked")

    monkeypatch.setattr("mmtool.replication.background.checkpoints.append_records", append)
    duty = Checkpoints(lambda: look(scene.clusters), None)
    duty._is_there = True
    return scene, duty, looks


def hides_secret(scene):
    why = "cluster east denies DESCRIBE on group secret"
    scene.source.groups.hidden["secret"] = NotAuthorisedError(why)


def test_each_look_is_written_and_says_when_a_group_that_could_not_be_asked_was_asked_last(looking):
    """It is named, and all others get their checkpoints."""
    scene, duty, looks = looking
    turn(duty)
    hides_secret(scene)
    for _ in range(2):
        with pytest.raises(MmtoolError, match="denies DESCRIBE on group secret"):
            turn(duty)
        assert {("app", 0), ("app", 1)} <= {(group, place.partition) for group, place in duty.current}
    first = looks[0].looked_ms
    assert [look.untold for look in looks] == [{}, {"secret": first}, {"secret": first}]
    scene.source.groups.hidden.clear()
    duty._shown._again_at = 0.0  # a minute later
    turn(duty)
    assert looks[-1].untold == {}


@pytest.mark.parametrize(
    ("before", "asked"),
    [
        (UNKNOWN, None),
        (LookRecord(7), 7),
        (LookRecord(7, {"secret": 3}), 3),
        (LookRecord(7, {"secret": None}), None),
    ],
)
def test_a_new_owner_goes_on_from_what_the_last_one_has_written(looking, before, asked):
    scene, duty, looks = looking
    duty._last = before
    hides_secret(scene)
    with pytest.raises(MmtoolError):
        turn(duty)
    assert looks[0].untold == {"secret": asked}


def test_while_the_groups_cannot_be_listed_those_of_the_last_list_are_looked_at(looking, monkeypatch):
    """As on a source where a partition of commits has no leader; asked for again in a minute."""
    scene, duty, looks = looking
    asked = []

    def listing():
        asked.append(1)
        raise UnreachableError("nobody leads")

    turn(duty)
    monkeypatch.setattr(scene.source.groups, "listing", listing)
    duty._groups._due_at = 0.0
    for _ in range(3):
        with pytest.raises(UnreachableError, match="nobody leads"):
            turn(duty)
    assert (len(asked), [look.untold for look in looks]) == (1, [{}] * 4)


def test_a_list_that_is_long_in_coming_is_a_later_look_s(looking, monkeypatch):
    scene, duty, looks = looking
    monkeypatch.setattr("mmtool.replication.background.checkpoints._PATIENCE_SECONDS", 0.05)
    turn(duty)
    scene.commits("new", "orders", 15)
    slow = Slow(scene.source.groups.listing, before=True)
    monkeypatch.setattr(scene.source.groups, "listing", slow)
    duty._groups._due_at = 0.0
    for _ in range(2):
        turn(duty)
    assert {group for group, _ in duty.current} == {"app", "secret"}
    slow.goes_on.set()
    duty._groups._asked.result(10)
    turn(duty)
    assert ({group for group, _ in duty.current}, len(looks)) == ({"app", "secret", "new"}, 4)


def test_a_group_whose_coordinator_is_away_for_one_look_keeps_its_checkpoints_and_its_commit_rate(tmp_path):
    scene = half_read(tmp_path)
    scene.commits("late", "orders", 15)
    duty = Checkpoints(lambda: None, None)
    clock = [1000.0]
    duty._shown.now = lambda: clock[0]
    duty._look(look(scene.clusters))
    duty._rates.take_over([CommitRatesRecord("late", {"orders": {"0": 40}})])
    before = dict(duty.current)
    scene.source.groups.hidden["late"] = UnreachableError("group late has no coordinator")
    duty._look(look(scene.clusters))
    assert (duty.current, duty._rates.gone()) == (before, [])
    del scene.source.groups.hidden["late"], scene.source.groups.committed["late"]
    clock[0] += 60
    for _ in range(2):  # asked apart behind the first one
        duty._look(look(scene.clusters))
        wait([duty._shown._apart] if duty._shown._apart else [], 10)
    duty._look(look(scene.clusters))
    assert {group for group, _ in duty.current} == {"app"}
    assert [record.group for record in duty._rates.gone()] == ["late"]


@pytest.fixture
def removing(tmp_path, monkeypatch):
    """A duty over ``app``, whose removed commits are written into the scene's control topic."""
    scene = half_read(tmp_path)

    async def append(_, __, records, *___):
        for offset, (key, value) in enumerate(records):
            if key.startswith((b"removed/", b"looked")):
                scene.state.view.apply(key, value, offset)

    monkeypatch.setattr("mmtool.replication.background.checkpoints.append_records", append)
    duty = Checkpoints(lambda: look(scene.clusters), None)
    duty._is_there = True
    turn(duty)
    return scene, duty


def removed(scene):
    return {(group, at.partition) for group, of in scene.state.view.removed.items() for at in of.places}


def new_list(duty):
    duty._groups._due_at = 0.0
    turn(duty)


def test_a_group_that_the_source_no_longer_has_is_noted_with_the_time_of_the_last_look_that_found_it(
    removing,
):
    scene, duty = removing
    last = scene.state.view.look.looked_ms
    commits = scene.source.groups.committed.pop("app")
    for _ in range(2):
        new_list(duty)
    assert removed(scene) == {("app", 0), ("app", 1)}
    assert scene.state.view.removed["app"].last_ms(TopicPartition("orders", 0)) == last
    scene.source.groups.committed["app"] = {TopicPartition("orders", 0): commits[TopicPartition("orders", 0)]}
    new_list(duty)
    assert removed(scene) == {("app", 1)}


def next_owner(scene, before):
    """The first turn of whoever takes the flow over."""
    duty = Checkpoints(lambda: look(scene.clusters), None)
    duty._is_there, duty._written, duty._last = True, before._written, before._last
    turn(duty)
    return duty


def test_a_new_owner_notes_what_was_removed_while_no_owner_ran(removing):
    scene, before = removing
    scene.source.groups.committed.pop("app")
    duty = next_owner(scene, before)
    assert removed(scene) == {("app", 0), ("app", 1)}
    commits_each, asked = scene.source.groups.commits_each, []
    scene.source.groups.commits_each = lambda groups, **how: (
        asked.extend(groups) or commits_each(groups, **how)
    )
    turn(duty)
    assert asked == []


def test_a_group_that_the_filters_exclude_now_is_not_removed_and_keeps_the_time_of_its_last_look(removing):
    scene, before = removing
    last = scene.state.view.look.looked_ms
    scene.settings = scene.settings.model_copy(update={"groups": NameFilter((".*",), ("app",))})
    scene.source.groups.committed.pop("app")
    next_owner(scene, before)
    assert removed(scene) == set()
    assert scene.state.view.look.untold == {"app": last}
