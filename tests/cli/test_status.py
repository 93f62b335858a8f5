"""``mmtool status`` as a script and an operator see it, on clusters in memory."""

import json
import re
import signal
import time
from dataclasses import replace

import pytest

from kit.clusters import FakeFlowWatch
from kit.maps import about_of, blocks_of, position_of
from kit.scene import Scene
from mmtool.config import load_settings
from mmtool.errors import RefusedError, UnreachableError
from mmtool.insight.status import WatchedFlow
from mmtool.kafka.ports import Bounds
from mmtool.kafka.state.control_view import ControlView
from mmtool.plan.flow.positions import PositionTrails
from mmtool.plan.flow.status import NOT_YET, FlowMember
from mmtool.plan.records.documents import FlowRecord, OwnerRecord, RefusedRecord, State
from mmtool.plan.topics.facts import missing_right, source_deleted
from mmtool.plan.topics.retention import Retention
from mmtool.translation.types import TopicId, TopicPartition

KEYS = [
    "source",
    "target",
    "topic",
    "partition",
    "target_topic",
    "upstream_position",
    "downstream_position",
    "records",
    "bytes",
    "lag_records",
    "lag_seconds",
    "state",
    "reason",
]
OWNER = OwnerRecord("me", "host-1", 4711, since_ms=1_000)
HOLDER = FlowMember("mmtool/0.1-owner-host-1-pid-4711", "/10.0.0.1", holds=True)


class Stood(Scene):
    """A scene whose flow has stored where it stands, and somebody who runs it, or nobody."""

    def __init__(self, directory):
        super().__init__(directory)
        self.watch = FakeFlowWatch()
        self.has("orders", 21, 10)

    def ran(self, *frontiers):
        """Orders was mirrored up to there, partition by partition; nobody runs the flow."""
        source, target = self.source.cluster_id, self.target.cluster_id
        self.watch.view.flow = FlowRecord(source, target, "east", "west", 32)
        self.watch.marked(OWNER)
        for partition, frontier in enumerate(frontiers):
            about = about_of(
                self.look().identity,
                TopicId("id-orders"),
                TopicPartition("orders", partition),
                "east.orders",
                TopicId("id-remote-orders"),
            )
            blocks = blocks_of(about, [(0, 0, frontier)] if frontier else [], frontier)
            self.watch.blocks[TopicId("id-orders"), partition] = blocks[-1]

    def runs(self, *frontiers):
        """Somebody runs the flow, whose pumps wrote these positions a moment ago."""
        self.ran(*frontiers)
        self.watch.present = (HOLDER,)
        for partition, frontier in enumerate(frontiers):
            self.stands(partition, frontier)

    def stands(self, partition, frontier, state=State.CAUGHT_UP, reason="", end=None, seconds_ago=0):
        now = int(time.time() * 1000) - seconds_ago * 1000
        position = position_of(
            TopicPartition("orders", partition),
            "id-orders",
            frontier,
            frontier if end is None else end,
            state,
            owner="me",
            records=frontier,
            mirrored_bytes=100 * frontier,
            reason=reason,
            observed_ms=now,
            at_end_ms=now if state is State.CAUGHT_UP else 0,
        )
        self.watch.view.apply(position.key, position.encode(), 0)
        if self.watch.view.trails is not None:
            self.watch.view.trails.note(position.key, position.encode(), now)

    def lost(self, topic="orders"):
        """The source has the topic no more."""
        self.source.forget_topic(topic)

    def wrote(self, partition, offset, seconds_ago):
        """The source's record at ``offset`` was written then."""
        self.watch.times["orders", partition, offset] = int((time.time() - seconds_ago) * 1000)


@pytest.fixture
def scene(tmp_path, monkeypatch):
    made = Stood(tmp_path)
    flows = [WatchedFlow(replace(made.clusters, state=made.watch), made.watch, on_target=made.mm2)]
    monkeypatch.setattr(
        "mmtool.commands._connections.watched_flows",
        lambda _, topics, _timeout: [replace(flow, topics=tuple(topics or ())) for flow in flows],
    )
    monkeypatch.setattr("mmtool.insight.status._PUMPS_WRITE_SECONDS", 0.0)
    made.flows = flows
    return made


@pytest.fixture
def status(mmtool, scene):
    return lambda *arguments: mmtool("status", "-c", scene.config, *arguments)


@pytest.fixture
def rows(status):
    def run(*arguments, code=0):
        ended = status("-o", "json", *arguments)
        assert ended.code == code, ended
        return json.loads(ended.stdout)["data"]

    return run


def test_rows_have_the_contract_s_keys_and_say_who_runs_the_flow(rows, scene):
    scene.runs(21, 10)
    found = rows()
    assert [list(row)[: len(KEYS)] for row in found] == [KEYS, KEYS]
    assert [(row["state"], row["lag_records"], row["lag_seconds"]) for row in found] == [
        ("caught_up", 0, 0.0)
    ] * 2
    assert (found[0]["owner_host"], found[0]["owner_pid"]) == ("host-1", 4711)
    assert found[0]["owner_since"] == "1970-01-01T00:00:01.000Z"


def test_a_flow_that_never_ran_is_one_row(rows):
    (row,) = rows()
    assert (row["state"], row["topic"], row["partition"], row["lag_seconds"]) == (
        "never_ran",
        None,
        None,
        None,
    )


def test_a_pump_that_has_passed_the_end_within_a_second_is_not_behind(rows, scene):
    """It had not written so when it was first looked at."""
    scene.runs(15, 10)
    looks = iter([15, 21])
    scene.watch.heard = lambda: scene.stands(0, next(looks))
    assert rows()[0]["lag_records"] == 0


def test_one_topic_may_be_asked_for(rows, status, scene):
    scene.runs(21, 10)
    scene.has("orders-new", 4)
    assert {row["topic"] for row in rows("--topic", "orders")} == {"orders"}
    assert status("--topic", "nosuch").code == 2


@pytest.mark.parametrize(
    ("seconds_ago", "limit", "code"), [(60, "90", 0), (60, "30", 4), (None, "90", 4), (0, "0", 4)]
)
def test_the_gate_is_about_the_lag(rows, scene, seconds_ago, limit, code):
    """One that nobody can tell does not pass."""
    scene.ran(15, 10)
    if seconds_ago is not None:
        scene.wrote(0, 15, seconds_ago)
    assert len(rows("--max-lag-seconds", limit, code=code)) == 2


def test_a_full_log_that_is_about_to_delete_what_is_not_mirrored_is_told_of(rows, scene):
    """Its first record of now, 2,000 s older, is deleted next."""
    scene.ran(15, 10)
    scene.wrote(0, 15, seconds_ago=3_000)
    scene.wrote(0, 5, seconds_ago=5_000)
    scene.source.logs[TopicPartition("orders", 0)] = Bounds(5, 21)
    scene.watch.keeps["orders"] = Retention(bytes=1 << 30)
    waiting, _ = rows()
    assert waiting["reason"].endswith(
        "in 33 minutes, the source may delete records that are not mirrored yet (retention.bytes): raise"
        " retention.bytes on the source, at least until the lag is 0"
    )


def test_a_halt_that_names_what_the_source_deleted_is_not_said_twice(rows, scene):
    scene.runs(5, 10)
    scene.source.logs[TopicPartition("orders", 0)] = Bounds(15, 21)
    said = "the source deleted offsets 5 to 14 before they were mirrored: set mmtool.on.data.loss = continue"
    scene.stands(0, 5, State.HALTED, said)
    assert rows()[0]["reason"] == said


def test_a_mirror_that_has_not_begun_has_lost_nothing(rows, scene):
    """It begins where the source's log does by then, as its pump will have it."""
    scene.ran(0, 10)
    scene.source.logs[TopicPartition("orders", 0)] = Bounds(15, 21)
    assert rows()[0]["reason"] == "replicate is not running"


def test_a_source_topic_that_was_deleted_with_records_unmirrored_is_halted_and_what_was_mirrored_waits(
    rows, scene
):
    """Whatever its pumps have said last, and whether it was the only topic or not."""
    scene.ran(15, 10)
    scene.stands(0, 15, State.HALTED, "topic orders was deleted on the source", end=21)
    scene.stands(1, 10)
    scene.lost()
    short, whole = rows("--max-lag-seconds", "3600", code=4)
    assert (short["state"], short["upstream_position"], short["lag_records"], short["lag_seconds"]) == (
        "halted",
        15,
        6,
        None,
    )
    assert short["reason"] == (
        "source topic orders was deleted, with 6 offsets or more that were not mirrored and are lost; to remove the"
        " topic from `mmtool status` when no group needs its offsets any more, stop `mmtool replicate`, run `mmtool"
        f" flow forget -c {scene.config} --topic orders --execute`, and start `mmtool replicate` again"
    )
    assert (whole["state"], whole["lag_records"], whole["lag_seconds"]) == ("idle", 0, 0.0)
    assert whole["reason"] == (
        "source topic orders was deleted; all its known records are on the target, and nothing has to be done; to"
        " remove the topic from `mmtool status` when no group needs its offsets any more, stop `mmtool replicate`,"
        f" run `mmtool flow forget -c {scene.config} --topic orders --execute`, and start `mmtool replicate` again"
    )


def test_a_source_topic_that_was_mirrored_to_its_end_and_deleted_does_not_close_the_gate(rows, scene):
    scene.runs(21, 10)
    scene.has("orders-new", 0)
    scene.lost()
    scene.source.forget_topic("orders-new")
    scene.has("orders-live", 0)
    found = rows("--topic", "orders", "--max-lag-seconds", "0")
    assert [(row["topic"], row["partition"], row["state"]) for row in found] == [
        ("orders", 0, "waiting"),
        ("orders", 1, "waiting"),
    ]


@pytest.mark.parametrize("why", ["left the filter", "forgotten"])
def test_of_a_deleted_topic_that_nobody_means_any_more_nothing_is_told(rows, status, scene, why):
    scene.runs(15, 10)
    scene.has("orders-live", 0)
    scene.lost()
    if why == "forgotten":
        scene.watch.blocks.clear()
        scene.watch.view = ControlView(flow=scene.watch.view.flow, owner=OWNER)
    else:
        changed = scene.config.read_text() + "east->west.topics.exclude = orders\n"
        scene.config.write_text(changed)
        settings = load_settings(scene.config, {}).flows[0]
        scene.flows[0] = replace(scene.flows[0], clusters=replace(scene.flows[0].clusters, settings=settings))
    assert {row["topic"] for row in rows()} == {"orders-live"}
    assert status("--topic", "orders").code == 2


def test_a_topic_that_its_owner_does_not_mirror_at_all_is_halted_with_the_reason(rows, scene):
    """Also one of which some was mirrored; what an earlier owner refused is over."""
    scene.ran(21)
    scene.watch.present = (HOLDER,)
    for topic in ("new", "old"):
        scene.has(f"orders-{topic}", 0)
    for word in (
        RefusedRecord("me", "orders", "target topic east.orders has 1 partition, 2 are needed"),
        RefusedRecord("me", "orders-new", "target topic east.orders-new cannot be created"),
        RefusedRecord("an earlier one", "orders-old", "it could not be created"),
    ):
        scene.watch.marked(word)
    assert [(row["state"], row["reason"][:40]) for row in rows()] == [
        ("halted", "target topic east.orders has 1 partition"),
        ("halted", "target topic east.orders has 1 partition"),
        ("halted", "target topic east.orders-new cannot be c"),
        ("never_ran", "not mirrored yet: replicate starts this "),
    ]


def test_a_topic_that_was_deleted_and_is_there_again_is_not_called_deleted_until_its_owner_looks(rows, scene):
    scene.ran(21, 21)
    scene.watch.present = (HOLDER,)
    scene.has("orders-new", 0)
    scene.watch.marked(RefusedRecord("me", "orders-new", source_deleted("orders-new", 0), gone=True))
    (row,) = [row for row in rows() if row["topic"] == "orders-new"]
    assert (row["state"], row["reason"]) == ("never_ran", NOT_YET)


def test_a_topic_that_the_source_only_hides_is_not_called_deleted(rows, scene):
    scene.runs(21, 10)
    scene.lost()
    scene.source.hidden.add("orders")
    assert {(row["state"], row["reason"]) for row in rows()} == {
        ("halted", missing_right("DESCRIBE on source topic orders"))
    }


@pytest.mark.parametrize("kind", ["halted", "never ran", "new topic"])
def test_the_gate_is_closed_for_what_is_not_mirrored(rows, scene, kind):
    if kind != "never ran":
        scene.runs(21, 10)
    if kind == "halted":
        scene.stands(0, 21, State.HALTED, "too large")
    if kind == "new topic":
        scene.has("orders-new", 0)
    rows("--max-lag-seconds", "3600", code=4)


def test_the_gate_names_the_worst_partition_in_one_line(status, scene):
    scene.runs(21, 10)
    scene.stands(1, 10, State.HALTED, "too large")
    error, remedy = [
        line
        for line in status("--max-lag-seconds", "5").stderr.splitlines()
        if "error" in line or "remedy" in line
    ]
    assert error == "error: --max-lag-seconds 5 is not met by 1 of 2 partitions: orders-1 is halted"
    assert remedy.startswith("remedy: ")


def test_on_a_terminal_what_needs_attention_comes_first_and_the_rest_is_counted(status, scene, monkeypatch):
    monkeypatch.setattr("mmtool.commands.status.stdout_is_tty", lambda: True)
    monkeypatch.setattr("mmtool.commands.status.rows_that_fit", lambda _: 1)
    scene.runs(21, 10)
    scene.stands(1, 10, State.HALTED, "too large")
    ended = status()
    assert ("too large" in ended.stdout, "caught_up" in ended.stdout) == (True, False)
    assert ended.stderr.splitlines()[-1].startswith("1 more row (1 caught_up): show ")


@pytest.mark.parametrize("options", [[], ["--max-lag-seconds", "5"], ["--watch"]])
def test_a_cluster_that_does_not_answer_is_9_and_one_document(status, scene, options):
    scene.runs(21, 10)
    scene.source.go_away(UnreachableError("cluster east does not answer", remedy="check the network"))
    ended = status("-o", "json", *options)
    assert (ended.code, json.loads(ended.stdout)["errors"][0]["code"]) == (9, "unreachable")


def test_with_a_lost_source_the_rows_are_what_the_target_knows(status, scene):
    scene.runs(21, 10)
    scene.stands(1, 10, state=State.RUNNING, end=17, seconds_ago=3)
    scene.source.go_away(UnreachableError("cluster east does not answer", remedy="check the network"))
    ended = status("-o", "json")
    document = json.loads(ended.stdout)
    (error,) = document["errors"]
    assert (ended.code, error["code"]) == (9, "unreachable")
    assert error["remedy"] == (
        f"check the network; if east is lost, `mmtool failover emergency -c {scene.config} -s east -t west"
        " --all-groups` shows how its groups can move to west"
    )
    rows = document["data"]
    assert [(row["upstream_position"], row["lag_records"], row["lag_seconds"]) for row in rows] == [
        (21, None, None),
        (10, None, None),
    ]
    assert {row["state"] for row in rows} == {"waiting"}
    assert re.fullmatch(
        r"east does not answer; \S+, when it was last seen, it had 7 offsets that west lacks",
        rows[1]["reason"],
    )
    assert "east->west: east does not answer, west knows: run by host-1, pid 4711" in status().stderr


def test_with_a_lost_source_only_the_topics_asked_for_have_rows(status, scene):
    scene.ran(21, 10)
    scene.source.go_away(UnreachableError("cluster east does not answer"))
    ended = status("-o", "json", "--topic", "others")
    assert (ended.code, json.loads(ended.stdout)["data"]) == (9, [])
    assert {row["state"] for row in json.loads(status("-o", "json").stdout)["data"]} == {"idle"}


def test_a_flow_that_never_ran_has_no_rows_without_its_source(status, scene):
    scene.source.go_away(UnreachableError("cluster east does not answer"))
    ended = status("-o", "json")
    assert (ended.code, json.loads(ended.stdout)["data"]) == (9, [])


def test_a_dead_cluster_hides_no_other_flow(status, scene, tmp_path):
    scene.runs(21, 10)
    (tmp_path / "other").mkdir()
    other = Scene(tmp_path / "other")
    other.source.go_away(UnreachableError("cluster south does not answer"))
    watch = FakeFlowWatch()
    scene.flows.append(WatchedFlow(replace(other.clusters, state=watch), watch, on_target=other.mm2))
    ended = status("-o", "json")
    document = json.loads(ended.stdout)
    assert (ended.code, len(document["data"]), len(document["errors"])) == (9, 2, 1)


def test_a_flow_without_topics_beside_one_with_some_is_only_warned_of(status, scene, tmp_path):
    """As the way back of an active/passive pair."""
    scene.runs(21, 10)
    (tmp_path / "other").mkdir()
    other, watch = Scene(tmp_path / "other"), FakeFlowWatch()
    scene.flows.append(WatchedFlow(replace(other.clusters, state=watch), watch))
    ended = status("-o", "json")
    document = json.loads(ended.stdout)
    assert (ended.code, len(document["data"]), len(document["warnings"]), document["errors"]) == (0, 2, 1, [])


def test_how_fast_a_partition_is_mirrored_and_how_long_it_is_in_its_state_are_the_rows_last_keys(
    rows, status, scene
):
    scene.runs(21, 10)
    scene.watch.view.trails = PositionTrails()
    scene.stands(0, 1, State.RUNNING, seconds_ago=20)
    scene.stands(0, 11, State.CAUGHT_UP, seconds_ago=10)
    scene.stands(0, 21, State.CAUGHT_UP)
    first, second = rows()
    assert list(first)[-3:] == ["records_per_second", "bytes_per_second", "state_seconds"]
    rates = (first["records_per_second"], first["bytes_per_second"])
    assert rates == pytest.approx((1.0, 100.0), rel=0.01)  # the scene's clock is the machine's
    assert 10 <= first["state_seconds"] < 15
    assert (second["records_per_second"], second["state_seconds"]) == (None, None)
    said = status().stderr
    assert "2 partitions: 2 caught_up for 10s; 1 rec/s, 0.1 kB/s; lag 0" in said


def test_watching_says_how_the_lag_changes_and_when_it_is_caught_up(status, scene, monkeypatch):
    scene.runs(1, 10)
    frontiers = iter([6, 11, 11])
    now = [1_000_000.0]

    def sleep(seconds):
        if not seconds:  # for pumps that may not have written yet
            return
        frontier = next(frontiers, None)
        if frontier is None:
            raise KeyboardInterrupt
        now[0] += 5
        scene.stands(0, frontier, State.RUNNING)

    monkeypatch.setattr("mmtool.output.render.time.sleep", sleep)
    monkeypatch.setattr("mmtool.insight.status.time.time", lambda: now[0])
    scene.stands(0, 1, State.RUNNING)
    said = [line for line in status("--watch").said if "; lag " in line]
    lags = [re.search(r"lag [^,;]*(?:, caught[^)]*\))?", line)[0] for line in said]
    assert lags == [
        "lag 20 records",
        "lag 15 records (-1/s, caught up in 15s)",
        "lag 10 records (-1/s, caught up in 10s)",
        "lag 10 records (-1/s, caught up in 15s)",
    ]


def test_watching_is_one_document_per_line_until_it_is_stopped(status, scene, monkeypatch):
    scene.runs(21, 10)
    looks = iter([None, None, signal.SIGTERM])

    def sleep(_):
        if (signum := next(looks)) is not None:
            signal.raise_signal(signum)

    monkeypatch.setattr("mmtool.output.render.time.sleep", sleep)
    ended = status("--watch", "-o", "json")
    assert (ended.code, [len(json.loads(line)["data"]) for line in ended.stdout.splitlines()]) == (
        143,
        [2, 2, 2],
    )


def test_watching_outlives_a_cluster_that_is_away_for_a_while(status, scene, monkeypatch):
    scene.runs(21, 10)
    away = RefusedError("gone for a moment", code="wrong_cluster")
    steps = iter([lambda: scene.source.go_away(away), lambda: scene.source.go_away(None), None])

    def sleep(_):
        step = next(steps)
        if step is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr("mmtool.output.render.time.sleep", sleep)
    ended = status("--watch", "-o", "json")
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert (ended.code, [len(document["data"]) for document in found]) == (130, [2, 0, 2])
    assert "stopped by SIGINT" in ended.said
    assert not [line for line in ended.said if line.startswith("error: stopped")]
    assert [error["code"] for error in found[1]["errors"]] == ["wrong_cluster"]


def test_a_gate_is_not_watched(status):
    assert status("--watch", "--max-lag-seconds", "5").code == 2
