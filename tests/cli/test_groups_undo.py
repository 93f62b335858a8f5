"""What ``--execute`` replaces is kept on this host and can be put back, on clusters in memory."""

import shlex
import time

import pytest

from kit.scene import half_read
from mmtool.errors import UnreachableError
from mmtool.failover.commits.apply import keep
from mmtool.failover.commits.undo import check_undo
from mmtool.kafka.ports import Problem
from mmtool.plan.groups.facts import Commit, Member
from mmtool.translation.types import TopicPartition

ORDERS = TopicPartition("orders", 0)
REMOTE = [TopicPartition("east.orders", n) for n in range(2)]


@pytest.fixture
def scene(tmp_path, monkeypatch):
    """``app`` has a commit in one of the two partitions on the target."""
    made = half_read(tmp_path)
    made.commits("app", "east.orders", 4, cluster=made.target)
    monkeypatch.setattr("mmtool.insight.flow_now.connect", lambda flow, timeout, **_: made.clusters)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return made


@pytest.fixture
def move(mmtool, scene):
    def run(*arguments):
        return mmtool("translate-offsets", "-c", scene.config, "-g", "app", "--execute", "--yes", *arguments)

    return run


@pytest.fixture
def undo(mmtool, move):
    """Runs the command that moving has printed, with other options in place of ``--execute``."""

    def run(*arguments, groups=()):
        (said,) = [line for line in move(*groups).stderr.splitlines() if "   mmtool groups import " in line]
        return lambda: mmtool(*shlex.split(said.split("mmtool ")[1])[:-1], *arguments)

    return run


def committed(scene):
    return scene.target.groups.committed["app"]


def test_who_goes_on_while_putting_back_is_frozen_is_not_moved_back(undo, scene, monkeypatch):
    put_back = undo("--execute", "--yes", "-o", "json")

    def frozen(*arguments):
        found = check_undo(*arguments)
        time.sleep(0.3)
        committed(scene)[REMOTE[0]] = Commit(15)
        return found

    monkeypatch.setattr("mmtool.failover.commits.undo.check_undo", frozen)
    ended = put_back()
    assert (ended.code, [row["written"] for row in ended.rows]) == (3, [False, False])
    assert committed(scene) == {REMOTE[0]: Commit(15), REMOTE[1]: Commit(10)}
    assert "east.orders-0 was committed by another client just now" in ended.stdout


def test_nor_is_who_goes_on_while_the_look_itself_is_slow(undo, scene, monkeypatch):
    """A coordinator that hangs for some seconds, or thousands of groups."""
    put_back, groups = undo("--execute", "--yes"), scene.target.groups

    def slow(names, commits=groups.commits):
        found = {name: dict(of) for name, of in commits(names).items()}
        monkeypatch.setattr(groups, "commits", commits)
        time.sleep(0.3)
        committed(scene)[REMOTE[0]] = Commit(15)
        return found

    monkeypatch.setattr(groups, "commits", slow)
    assert (put_back().code, committed(scene)) == (3, {REMOTE[0]: Commit(15), REMOTE[1]: Commit(10)})


@pytest.mark.parametrize("damage", [lambda kept: kept[:-9], lambda kept: kept.replace(b"11", b"12")])
def test_a_damaged_file_is_refused(undo, scene, tmp_path, damage):
    put_back = undo("--execute", "--yes")
    (kept,) = (tmp_path / "state" / "mmtool" / "undo").iterdir()
    kept.write_bytes(damage(kept.read_bytes()))
    ended = put_back()
    assert (ended.code, str(kept) in ended.stderr) == (2, True)
    assert committed(scene)[REMOTE[0]] == Commit(11)


def test_nothing_is_written_where_what_is_replaced_cannot_be_kept(move, scene, tmp_path):
    (tmp_path / "state").write_text("no folder")
    ended = move()
    assert (ended.code, committed(scene)) == (2, {REMOTE[0]: Commit(4)})
    assert "set XDG_STATE_HOME to a writable folder with free space" in ended.stderr


def test_where_nobody_knows_what_was_written_all_that_may_be_replaced_is_put_back(undo, scene):
    scene.target.groups.freezes = UnreachableError("west does not answer")
    put_back = undo("--execute", "--yes")
    scene.target.groups.freezes = scene.target.groups.failure = None
    assert committed(scene) == {REMOTE[0]: Commit(11), REMOTE[1]: Commit(10)}
    assert (put_back().code, committed(scene)) == (0, {REMOTE[0]: Commit(4)})


def test_what_has_had_no_answer_may_be_replaced_later_and_can_be_put_back_then(undo, scene):
    groups, late = scene.target.groups, []
    alter = groups.alter

    def commit(group, offsets, kind=None):
        late.append(lambda: alter(group, offsets, kind))
        return dict.fromkeys(offsets, Problem(UnreachableError.code, "REQUEST_TIMED_OUT"))

    groups.alter = commit
    put_back = undo("--execute", "--yes")
    groups.alter = alter
    late.pop()()
    assert committed(scene) == {REMOTE[0]: Commit(11), REMOTE[1]: Commit(10)}
    assert (put_back().code, committed(scene)) == (0, {REMOTE[0]: Commit(4)})


def test_who_ends_it_with_ctrl_c_in_the_middle_is_told_where_what_was_replaced_is_kept(
    move, mmtool, scene, tmp_path
):
    groups = scene.target.groups
    alter = groups.alter

    def commit(group, offsets, kind=None):
        alter(group, offsets, kind)
        raise KeyboardInterrupt

    groups.alter = commit
    ended = move()
    groups.alter = alter
    (kept,) = (tmp_path / "state" / "mmtool" / "undo").iterdir()
    assert (ended.code, str(kept) in ended.stderr) == (130, True)
    assert mmtool("groups", "import", "-c", scene.config, kept, "--execute", "--yes").code == 0
    assert committed(scene) == {REMOTE[0]: Commit(4)}


def test_what_nobody_could_look_at_is_neither_written_nor_not(move, scene):
    scene.target.groups.freezes = UnreachableError("west does not answer")
    ended = move("-o", "json")
    assert (ended.code, [row["written"] for row in ended.rows]) == (6, [None, None])


def test_nor_is_it_what_was_imported(mmtool, scene, tmp_path):
    scene.target.groups.freezes = UnreachableError("west does not answer")
    file = tmp_path / "reset.csv"
    file.write_text("east.orders,0,9\n")
    ended = mmtool(
        "groups", "import", "-c", scene.config, "-g", "app", file, "--execute", "--yes", "-o", "json"
    )
    assert (ended.code, [row["written"] for row in ended.rows]) == (6, [None])


def test_nor_is_it_what_was_put_back(undo, scene):
    put_back = undo("--execute", "--yes", "-o", "json")
    scene.target.groups.freezes = UnreachableError("west does not answer")
    ended = put_back()
    assert (ended.code, [row["written"] for row in ended.rows]) == (6, [None, False])


# --- the last look before the first commit -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("age_seconds", "commits_again", "code"), [(3, True, 3), (3, False, 0), (300, True, 0)]
)
def test_a_group_that_has_just_committed_on_the_target_is_watched_first(
    move, scene, monkeypatch, age_seconds, commits_again, code
):
    """Longer than a consumer's usual time between two commits, where its commits are younger than a minute."""
    waited = []

    def pause(seconds):
        waited.append(seconds)
        if commits_again:
            committed(scene)[REMOTE[0]] = Commit(5)

    monkeypatch.setattr(
        "mmtool.failover.commits.apply.clear.__kwdefaults__", {"synced": False, "pause": pause}
    )
    scene.target.times["app"] = {REMOTE[0]: int((time.time() - age_seconds) * 1000)}
    ended = move()
    assert (ended.code, waited) == (code, [6.0] if age_seconds < 60 else [])


def test_who_goes_on_while_the_command_is_frozen_before_its_commits_is_not_moved(move, scene, monkeypatch):
    """Stopped by Ctrl-Z or in a hung terminal behind its last look, and woken when others have moved the group."""

    def frozen(*arguments):
        path = keep(*arguments)
        time.sleep(0.3)
        scene.target.groups.committed["app"] = {REMOTE[0]: Commit(15), REMOTE[1]: Commit(10)}
        return path

    monkeypatch.setattr("mmtool.failover.commits.apply.keep", frozen)
    ended = move()
    assert (ended.code, committed(scene)) == (3, {REMOTE[0]: Commit(15), REMOTE[1]: Commit(10)})
    assert "east.orders-0 was committed by another client just now" in ended.stderr


SYNCED = "east->west.sync.group.offsets.enabled = true\n"
BACK = "west->east.enabled = true\nwest->east.sync.group.offsets.enabled = true\n"


@pytest.mark.parametrize(
    ("extra", "options", "waited"),
    [
        (SYNCED, (), []),
        (SYNCED, ("--reverse", "--allow-rewind", "-s", "east", "-t", "west"), [6.0]),
        (SYNCED + BACK, ("--reverse", "--allow-rewind", "-s", "east", "-t", "west"), []),
    ],
    ids=["forward", "reverse", "both ways"],
)
def test_young_commits_are_nobody_s_work_only_where_groups_are_kept_ready(
    move, scene, monkeypatch, extra, options, waited
):
    pauses = []
    monkeypatch.setattr(
        "mmtool.failover.commits.apply.clear.__kwdefaults__",
        {"synced": False, "pause": pauses.append},
    )
    scene.config.write_text(scene.config.read_text() + extra)
    young = int((time.time() - 3) * 1000)
    scene.target.times["app"], scene.source.times["app"] = {REMOTE[0]: young}, {ORDERS: young}
    assert (move(*options).code, pauses) == (0, waited)


@pytest.mark.parametrize("somebody", ["commits", "joins"])
def test_whoever_is_at_work_on_the_target_by_then_is_left_alone(move, scene, monkeypatch, somebody):
    """Without members it is a consumer that was given its partitions (``assign()``), or another tool."""

    def meanwhile(wanted):
        del wanted
        if somebody == "commits":
            committed(scene)[REMOTE[0]] = Commit(5)
        else:
            scene.target.groups.members["app"] = (Member("app-1", "/10.0.0.7"),)
        return []

    monkeypatch.setattr(scene.target.groups, "missing_rights", meanwhile)
    ended = move()
    assert (ended.code, REMOTE[1] in committed(scene)) == (3, False)
    said = "commits for it" if somebody == "commits" else "is active on west (Stable: app-1"
    assert said in ended.stderr
