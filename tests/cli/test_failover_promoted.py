"""``--promote-acls`` as a script sees it, on clusters in memory."""

import json
import time

import pytest

from kit.processes import row_of
from kit.scene import Scene
from kit.wiring import wire_failovers
from mmtool.errors import UnreachableError
from mmtool.plan.failover.acl_rules import TRANSACTIONAL_ID, Binding
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import UNKNOWN, TopicPartition

MAY = Binding("orders", "LITERAL", "User:alice", "*", "WRITE", "ALLOW")
TX = Binding("alice-", "PREFIXED", "User:alice", "*", "WRITE", "ALLOW", TRANSACTIONAL_ID)
EXECUTE = ("--execute", "--yes")
REMOTE = TopicPartition("east.orders", 0)


@pytest.fixture
def scene(tmp_path, monkeypatch):
    """100 records that alice may write, mirrored to 60; app has read 50."""
    made = Scene(tmp_path)
    made.has("orders", 100)
    made.mirrored("orders", 0, [(0, 0, 60)], 60)
    made.commits("app", "orders", 50)
    made.told("app", "orders", (50, 50), at_ms=int(time.time() * 1000))
    made.may_write("alice", "orders")
    made.fences.rules.add(TX)
    wire_failovers(made, lambda name, value: monkeypatch.setattr(f"mmtool.{name}", value))
    return made


@pytest.fixture
def planned(failover):
    return lambda *more: failover("planned", "-g", "app", "--promote-acls", *more)


@pytest.fixture
def emergency(failover):
    return lambda *more: failover("emergency", "-g", "app", "--promote-acls", "--accept-data-loss", *more)


def step_of(ended, name="promote_acls"):
    return next(step for step in row_of(ended)["steps"] if step["name"] == name)


def test_a_rehearsal_shows_every_right_and_creates_none(planned, scene):
    ended = planned()
    assert (ended.code, scene.acls.rules) == (0, set()), ended.stderr
    assert step_of(ended)["sentence"] == (
        "on west, create ACLs for User:alice: WRITE on orders; 1 right on transactional ids"
    )
    about = {"principal": "User:alice", "host": "*", "operation": "WRITE"}
    assert row_of(ended)["promoted_acls"] == [
        {**about, "resource": "TRANSACTIONAL_ID", "name": "alice-", "pattern": "PREFIXED"},
        {**about, "resource": "TOPIC", "name": "orders", "pattern": "LITERAL"},
    ]


def test_without_the_option_there_is_no_such_step(failover):
    ended = failover("planned", "-g", "app")
    assert "promote_acls" not in {step["name"] for step in row_of(ended)["steps"]}
    assert row_of(ended)["promoted_acls"] == []


@pytest.mark.parametrize("command", ["planned", "emergency"])
def test_producers_have_their_rights_until_it_is_rolled_back(request, failover, scene, command):
    ended = request.getfixturevalue(command)(*EXECUTE)
    assert (ended.code, scene.acls.rules) == (0, {MAY, TX}), ended.stderr
    back = failover("rollback", row_of(ended)["operation_id"], *EXECUTE)
    assert (back.code, scene.acls.rules) == (0, set()), back.stderr


def test_it_says_who_can_produce_where_and_how_to_remove_that_by_hand(planned, failover):
    ended = planned(*EXECUTE)
    assert "User:alice may write orders on west: to move the producers, start them with" in ended.stderr
    shown = failover("show", row_of(ended)["operation_id"])
    assert (
        "kafka-acls.sh --bootstrap-server west-1:9092 --remove --force --topic orders --allow-principal User:alice"
        in shown.stderr
    )


def test_a_rollback_leaves_what_was_there_before(planned, failover, scene):
    scene.acls.rules.add(MAY)
    ended = planned(*EXECUTE)
    assert scene.acls.rules == {MAY, TX}
    failover("rollback", row_of(ended)["operation_id"], *EXECUTE)
    assert scene.acls.rules == {MAY}


def test_its_own_fence_does_not_keep_producers_from_being_promoted(planned, scene):
    assert planned("--fence", "acl", *EXECUTE).code == 0
    assert (scene.acls.rules, MAY._replace(permission="DENY") in scene.fences.rules) == ({MAY, TX}, True)


def test_an_earlier_fence_does_not_keep_producers_from_being_promoted(planned, failover, scene):
    first = failover("planned", "-g", "app", "--fence", "acl", *EXECUTE)
    assert first.code == 0, first.stderr
    scene.commits("app", "orders", 50)
    ended = planned("--fence", "acl")
    assert [acl["name"] for acl in row_of(ended)["promoted_acls"]] == ["alice-", "orders"]


def test_when_a_later_step_fails_they_are_removed_again(planned, scene):
    scene.acls.after_create = lambda: scene.commits("app", "orders", 70)
    ended = planned(*EXECUTE)
    assert (ended.code, scene.acls.rules) == (3, set()), ended.stderr
    assert step_of(ended)["state"] == "undone"


def test_one_that_cannot_be_created_takes_the_others_back(planned, scene):
    scene.acls.stubborn = {TX}
    ended = planned(*EXECUTE)
    assert (ended.code, scene.acls.rules) == (3, set())
    assert "ALLOW WRITE on transactional ids that start with alice- for User:alice" in ended.stderr


def test_without_alter_on_the_target_nothing_is_changed(planned, scene):
    scene.acls.may_alter = False
    ended = planned(*EXECUTE)
    assert (ended.code, scene.acls.rules, scene.journal.stored) == (9, set(), {})
    assert "mmtool cannot change producers' ACLs on west: it lacks ALTER on the cluster" in ended.stderr


def test_without_an_authorizer_it_is_refused(planned, scene):
    scene.acls.rules = None
    ended = planned(*EXECUTE)
    assert (ended.code, scene.journal.stored) == (3, {})
    assert "west has no authorizer" in ended.stderr
    assert "leave out --promote-acls" in ended.stderr


def test_a_first_acl_that_would_lock_out_the_consumers_is_refused(planned, scene):
    scene.acls.allows_unruled = UNKNOWN
    ended = planned(*EXECUTE)
    assert (ended.code, scene.acls.rules) == (3, set())
    assert "the first ACL would lock out all other clients" in ended.stderr


# --- principals with other names --------------------------------------------------------------------------


@pytest.fixture
def names(tmp_path):
    def written(text):
        path = tmp_path / "names.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return written


def test_principals_have_their_names_of_the_target(planned, scene, names):
    assert planned("--principal-map", names("User:alice,User:west-alice\n"), *EXECUTE).code == 0
    assert {rule.principal for rule in scene.acls.rules} == {"User:west-alice"}


def test_a_map_of_a_spreadsheet_begins_with_its_first_line(planned, scene, names):
    assert planned("--principal-map", names("\ufeffUser:alice,User:west-alice\n"), *EXECUTE).code == 0
    assert {rule.principal for rule in scene.acls.rules} == {"User:west-alice"}


def test_a_wrong_map_is_one_line_with_its_place(planned, scene, names):
    ended = planned("--principal-map", names("User:alice,User:a\nUser:bob\n"), *EXECUTE)
    assert (ended.code, scene.journal.stored) == (2, {})
    assert "names.csv: line 2 has 1 column instead of 2" in ended.stderr


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file or directory"), (b"\xff\xfe", "not UTF-8 text")]
)
def test_a_map_that_cannot_be_read_is_named(planned, tmp_path, content, why):
    path = tmp_path / "names.csv"
    if content is not None:
        path.write_bytes(content)
    ended = planned("--principal-map", path)
    assert (ended.code, f"--principal-map {path}: {why}\n" in ended.stderr) == (2, True)


def test_a_map_without_a_promotion_is_refused(failover, names):
    ended = failover("planned", "-g", "app", "--principal-map", names("User:a,User:b\n"))
    assert (ended.code, "add --promote-acls" in ended.stderr) == (2, True)


# --- saved plans ------------------------------------------------------------------------------------------


def test_a_saved_plan_promotes_what_was_reviewed(planned, failover, scene, tmp_path):
    plan = tmp_path / "plan.json"
    assert planned("--out", plan).code == 0
    assert json.loads(plan.read_text())["acls"] == [list(TX), list(MAY[:-1])]
    ended = failover("planned", "--plan", plan, *EXECUTE)
    assert (ended.code, scene.acls.rules) == (0, {MAY, TX}), ended.stderr


def test_a_saved_plan_is_stale_when_another_producer_has_come(planned, failover, scene, tmp_path):
    plan = tmp_path / "plan.json"
    planned("--out", plan)
    scene.may_write("bob", "orders")
    ended = failover("planned", "--plan", plan, *EXECUTE)
    assert (ended.code, scene.acls.rules) == (5, set())
    assert "User:bob" in ended.stderr


def test_the_runbook_has_kafka_s_own_commands(planned, tmp_path):
    page = tmp_path / "runbook.md"
    assert planned("--runbook", page).code == 0
    rule = "--topic orders --allow-principal User:alice --allow-host '*' --operation Write"
    acls = "kafka-acls.sh --bootstrap-server west-1:9092 --command-config west.properties"
    assert f"{acls} --add {rule}" in page.read_text()
    assert f"# {acls} --remove --force {rule}" in page.read_text()


# --- a source that is lost --------------------------------------------------------------------------------


class Lost:
    """ACLs of a cluster that does not answer."""

    alias = "east"

    def acls(self):
        raise UnreachableError("east does not answer within 30 s")


@pytest.fixture
def lost(scene, monkeypatch):
    monkeypatch.setattr("mmtool.failover.service.connections.acls_to_read", lambda *_: Lost())


@pytest.mark.usefixtures("lost")
def test_an_emergency_with_a_dead_source_is_refused_and_the_way_out_is_said(emergency, scene):
    ended = emergency(*EXECUTE)
    assert (ended.code, scene.journal.stored, scene.acls.rules) == (3, {}, set())
    assert "east does not answer, so --promote-acls cannot read the ACLs of its producers" in ended.stderr
    assert (
        "run `mmtool failover emergency` without --promote-acls, then create the producers' ACLs on west"
        in ended.stderr
    )


@pytest.fixture
def left(planned, scene):
    """A failed operation whose ACLs could not be removed again."""
    commits = scene.target.groups.committed
    scene.acls.undeletable = {MAY, TX}
    scene.acls.after_create = lambda: commits.setdefault("app", {}).update({REMOTE: Commit(90)})
    ended = planned(*EXECUTE)
    assert (ended.code, scene.acls.rules) == (6, {MAY, TX}), ended.stderr
    commits.clear()
    scene.acls.after_create, scene.acls.undeletable = lambda: None, set()
    return row_of(ended)["operation_id"]


def test_what_could_not_be_removed_is_removed_by_a_cancel(failover, scene, left):
    assert (failover("cancel", left, *EXECUTE).code, scene.acls.rules) == (0, set())


def test_another_planned_failover_waits_until_that_is_decided(planned, scene, left):
    ended = planned(*EXECUTE)
    assert (ended.code, scene.acls.rules) == (3, {MAY, TX})
    assert f"operation {left} (planned)" in ended.stderr


def test_an_emergency_goes_on_and_says_that_they_stay(emergency, scene, left):
    ended = emergency(*EXECUTE)
    assert (ended.code, scene.acls.rules) == (0, {MAY, TX}), ended.stderr
    assert f"the producers' ACLs that operation {left} changed on west stay changed" in ended.stderr


def test_an_emergency_whose_source_dies_is_resumed_with_the_recorded_acls(
    emergency, failover, scene, monkeypatch
):
    commit = scene.target.groups.committed
    scene.acls.undeletable = {MAY, TX}  # a process that cannot undo leaves them, as one that is killed does
    scene.acls.after_create = lambda: commit.setdefault("app", {}).update({REMOTE: Commit(90)})
    ended = emergency(*EXECUTE)
    assert (ended.code, scene.acls.rules) == (6, {MAY, TX}), ended.stderr
    commit.clear()
    scene.acls.after_create = lambda: None
    monkeypatch.setattr("mmtool.failover.service.connections.acls_to_read", lambda *_: Lost())
    again = failover("resume", row_of(ended)["operation_id"], *EXECUTE)
    assert (again.code, scene.acls.rules) == (0, {MAY, TX}), again.stderr
