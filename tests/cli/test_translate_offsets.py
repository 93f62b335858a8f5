"""``mmtool translate-offsets`` as a script sees it, on clusters in memory."""

import io
import json

import pytest

from kit.maps import position_of
from kit.scene import Scene, half_read
from mmtool.config import load_settings
from mmtool.errors import UnreachableError, UsageError
from mmtool.insight.flow_now import FlowClusters
from mmtool.plan.groups.facts import Commit, Member
from mmtool.plan.records.documents import OwnerRecord, RefusedRecord, State
from mmtool.translation.types import TopicId, TopicPartition

KEYS = [
    "group",
    "topic",
    "partition",
    "upstream_offset",
    "target_topic",
    "downstream_offset",
    "exactness",
    "reread_max",
    "skip_max",
    "reason",
    "knowledge",
    "target_offset_before",
    "written",
    "proof",
    "detail",
    "offsets",
]
REMOTE = [TopicPartition("east.orders", n) for n in range(2)]


@pytest.fixture
def scene(tmp_path, wired):
    made = half_read(tmp_path)
    return wired(made)


@pytest.fixture
def translate(mmtool, scene):
    def run(*arguments):
        return mmtool("translate-offsets", "-c", scene.config, *arguments)

    return run


@pytest.fixture
def rows(translate):
    def run(*arguments, code=0):
        ended = translate("-o", "json", *arguments)
        assert ended.code == code, ended
        return json.loads(ended.stdout)["data"]

    return run


def offsets(data):
    return [
        (row["group"], row["partition"], row["upstream_offset"], row["downstream_offset"]) for row in data
    ]


def test_a_flow_whose_only_topic_is_the_canary_matches_none(mmtool, tmp_path, monkeypatch):
    scene = Scene(tmp_path)
    scene.has("mmtool-canary", 4)
    monkeypatch.setattr("mmtool.insight.flow_now.connect", lambda *_, **__: scene.clusters)
    ended = mmtool("translate-offsets", "-c", scene.config)
    assert (ended.code, "east->west matches no topic of east" in ended.stderr) == (2, True)


def test_rows_have_the_contracts_keys(rows):
    assert [list(row) for row in rows()] == [KEYS, KEYS]


def test_without_a_selector_every_group_is_read(rows, scene):
    scene.commits("other", "orders", 3)
    assert offsets(rows())[:2] == [("app", 0, 12, 11), ("app", 1, 10, 10)]
    assert offsets(rows())[2] == ("other", 0, 3, 3)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["-g", "fans"],
            3,
            "left out: fans (share groups, KIP-932): mmtool does not translate their share-partition start offsets",
        ),
        ([], 0, "left out: words (streams groups, KIP-1071): mmtool moves neither their offsets nor"),
    ],
)
def test_what_share_groups_and_streams_groups_are_is_said(translate, scene, arguments, code, said):
    scene.source.groups.others = {"fans": "share", "words": "streams", "workers": "connect"}
    ended = translate(*arguments)
    assert (ended.code, said in ended.stderr, "workers" in ended.stderr) == (code, True, False), ended.stderr


def test_a_rehearsal_writes_nothing(rows, scene):
    assert [row["written"] for row in rows("-g", "app")] == [False, False]
    assert scene.target.groups.committed == {}


def test_execute_writes_and_shows_what_was_there_before(rows, scene):
    scene.commits("app", "east.orders", 4, 4, cluster=scene.target)
    data = rows("-g", "app", "--execute", "--yes")
    assert [(row["target_offset_before"], row["written"]) for row in data] == [(4, True), (4, True)]
    assert scene.target.groups.committed["app"] == {REMOTE[0]: Commit(11), REMOTE[1]: Commit(10)}


def test_who_is_at_work_on_the_target_is_named_with_the_host(translate, scene):
    scene.target.groups.members["app"] = (Member("app-1", "/10.0.0.7"), Member("app-2", "/10.0.0.8"))
    ended = translate("-g", "app", "--execute", "--yes")
    assert (ended.code, scene.target.groups.committed) == (3, {})
    assert "group app is active on west (Stable: app-1 on 10.0.0.7, app-2 on 10.0.0.8)" in ended.stderr


def test_a_halt_that_a_commit_waits_behind_is_named(translate, scene):
    scene.commits("app", "orders", 12, 11)
    scene.source.add_topic("orders", "id-orders", 21, 11)
    for n, state in ((0, State.RUNNING), (1, State.HALTED)):
        scene.state.marked(position_of(TopicPartition("orders", n), "id-orders", 10, 11, state))
    ended = translate("-g", "app")
    assert (ended.code, "beyond_mirror" in ended.stdout) == (3, True), ended
    assert "orders-1 of east->west is halted: a record is too large" in ended.stderr
    assert "orders-0 of" not in ended.stderr


def test_a_topic_that_is_not_mirrored_at_all_is_named_where_a_commit_waits_for_it(translate, scene):
    scene.has("orders-new", 5)
    scene.commits("app", "orders-new", 3)
    for word in (OwnerRecord("me", "host-1", 4711, 1), RefusedRecord("me", "orders-new", "CREATE is denied")):
        scene.state.marked(word)
    assert "orders-new of east->west is halted: CREATE is denied" in translate("-g", "app").stderr


def test_a_topic_that_was_deleted_and_is_there_again_is_not_named_as_deleted(translate, scene):
    scene.has("orders-new", 5)
    scene.commits("app", "orders-new", 3)
    for word in (
        OwnerRecord("me", "host-1", 4711, 1),
        RefusedRecord("me", "orders-new", "deleted", gone=True),
    ):
        scene.state.marked(word)
    assert "orders-new of east->west is halted" not in translate("-g", "app").stderr


def test_execute_without_a_selector_is_a_usage_error(translate, scene):
    ended = translate("--execute", "--yes")
    assert (ended.code, scene.target.groups.committed) == (2, {})


NOTHING = "nothing was changed; add --execute to commit "


def test_a_rehearsal_says_that_it_is_one_and_what_it_comes_to(translate):
    assert translate("-g", "app").stderr == f"2 exact\n{NOTHING}2 offsets of group app on west\n"
    assert translate("-g", "app", "-q").stderr == ""


def test_a_rehearsal_of_all_groups_names_the_selector_that_execute_needs(translate, scene):
    words = "nothing was changed; add --all-groups --execute to commit 2 offsets of group app on west\n"
    assert translate().stderr.endswith(words)
    assert translate("--all-groups", "--execute", "--yes").code == 0
    assert list(scene.target.groups.committed) == ["app"]


def test_a_look_up_that_could_write_nothing_does_not_offer_to(translate, scene):
    scene.source.groups.committed.clear()
    scene.commits("idle", "orders")
    assert "nothing was changed" not in translate().stderr
    assert NOTHING not in translate("-g", "typo").stderr


def test_executed_it_says_what_was_written_and_no_rehearsal(translate):
    kept, command, said = translate("-g", "app", "--execute", "--yes").stderr.splitlines()
    assert (kept, said) == ("to restore the previous offsets:", "2 exact, 2 written")
    assert command.startswith("   mmtool groups import ")


def test_refused_rows_are_counted(translate, scene):
    scene.commits("ahead", "orders", 30)
    assert "2 exact, 2 refused\n" in translate().stderr


def at_a_terminal(monkeypatch, answer):
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)


@pytest.mark.parametrize("side", ["source", "target"])
def test_into_a_topic_that_was_made_anew_at_the_question_nothing_is_written(
    translate, scene, monkeypatch, side
):
    cluster, topic = (scene.source, "orders") if side == "source" else (scene.target, "east.orders")

    def meanwhile():
        cluster.forget_topic(topic)
        cluster.add_topic(topic, "id-of-another-one", 500, 500)
        return "y\n"

    at_a_terminal(monkeypatch, "")
    monkeypatch.setattr("sys.stdin.readline", meanwhile)
    assert (translate("-g", "app", "--execute").code, scene.target.groups.committed) == (3, {})


def test_on_the_way_back_the_headings_name_the_clusters(translate, scene):
    scene.commits("app", "east.orders", 11, 10, cluster=scene.target)
    heading = translate("--reverse", "-g", "app").stdout.splitlines()[0].split()
    named = [word for word in heading if word.endswith(("-ON-east", "-ON-west"))]
    assert named == ["OFFSET-ON-east", "TOPIC-ON-west", "OFFSET-ON-west", "OFFSET-BEFORE-ON-east"]


def test_warnings_of_the_properties_file_are_in_the_document(translate, scene):
    scene.config.write_text(scene.config.read_text() + "east->west.topic = x\n")
    ended = translate("-o", "json")
    (sentence,) = json.loads(ended.stdout)["warnings"]
    assert ("did you mean east->west.topics?" in sentence, ended.stderr.count(sentence)) == (True, 1)


def test_keys_that_only_connect_reads_are_not_spoken_of(translate, scene):
    scene.config.write_text(scene.config.read_text() + "config.storage.replication.factor = 1\n")
    ended = translate("-o", "json", "-q")
    assert (json.loads(ended.stdout)["warnings"], ended.stderr) == ([], "")


def test_an_unknown_group_is_a_row_and_three(rows):
    (row,) = rows("-g", "typo", code=3)
    assert (row["group"], row["exactness"], row["reason"]) == ("typo", "refused", "unknown_group")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--groups", "app["), "error: --groups app[: "),
        (("--groups", ""), "error: --groups is empty\n"),
        (("-g", ""), "error: -g/--group is empty\n"),
        (("-g", "app", "-g", ""), "error: -g/--group is empty\n"),
    ],
)
def test_a_selector_that_can_mean_no_group_is_a_usage_error(translate, arguments, message):
    ended = translate(*arguments)
    assert (ended.code, ended.stderr[: len(message)], len(ended.stderr.splitlines())) == (2, message, 2)


def test_one_refused_group_among_written_ones_is_six(rows, scene):
    scene.target.groups.members["busy"] = (Member("busy-1", "/10.0.0.7"),)
    scene.commits("busy", "orders", 1)
    data = rows("--all-groups", "--execute", "--yes", code=6)
    assert {(row["group"], row["written"]) for row in data} == {("app", True), ("busy", False)}


def test_a_flow_that_never_ran_is_three_with_its_reason(rows, scene):
    scene.state.stored.clear()
    assert {(row["exactness"], row["reason"]) for row in rows(code=3)} == {("refused", "never_ran")}


def test_a_refusal_says_which_reason_and_what_helps(translate, scene):
    scene.state.stored.clear()
    ended = translate()
    assert "error: offsets refused: 2 never_ran (group app)" in ended.stderr
    assert (
        f"start `mmtool replicate`; if it or MirrorMaker 2 already runs, `mmtool status -c {scene.config}`"
        in ended.stderr
    )


def test_commits_outside_the_flow_are_listed_and_change_no_exit_code(rows, scene):
    scene.source.add_topic("logs", "id-logs", 5)
    scene.commits("app", "logs", 5)
    outside = next(row for row in rows() if row["topic"] == "logs")
    assert (outside["exactness"], outside["reason"], outside["target_topic"]) == (
        "refused",
        "not_mirrored",
        None,
    )
    assert outside["detail"] == (
        "the flow from east to west does not mirror this topic, so its offsets are not moved: `mmtool groups audit"
        f" -c {scene.config}` shows why"
    )


def test_only_the_topics_that_were_asked_for_are_spoken_of(rows, scene):
    scene.has("orders-2", 5)
    scene.mirrored("orders-2", 0, [(0, 0, 5)], 5)
    scene.commits("app", "orders-2", 5)
    assert {row["topic"] for row in rows("--topic", "orders-2")} == {"orders-2"}


def test_a_topic_that_the_flow_does_not_mirror_is_a_usage_error(translate, scene):
    scene.source.add_topic("logs", "id-logs", 5)
    assert translate("--topic", "logs").code == 2


def test_the_reverse_of_a_one_way_flow_leads_to_the_option_for_it(mmtool, scene, monkeypatch):
    back = FlowClusters(
        load_settings(scene.config, {}).select("west", "east")[0], scene.target, scene.source, scene.state
    )
    monkeypatch.setattr("mmtool.insight.flow_now.connect", lambda flow, timeout, **_: back)
    ended = mmtool("translate-offsets", "-c", scene.config, "-s", "west", "-t", "east")
    assert (ended.code, ended.stderr.splitlines()) == (
        2,
        [
            "error: west->east matches no topic of west: topics that were mirrored from east are not mirrored back",
            (
                "remedy: select the flow that mirrors topics of east: -s east -t west (with `mmtool translate-offsets`,"
                " add --reverse to translate commits on west); or check `topics` and `topics.exclude` of west->east"
            ),
        ],
    )


def test_reverse_leads_from_the_target_back(rows, scene):
    scene.commits("app", "east.orders", 11, 10, cluster=scene.target)
    data = rows("--reverse", "-g", "app", "--execute", "--yes", "--allow-rewind")
    assert [(row["topic"], row["upstream_offset"], row["downstream_offset"]) for row in data] == [
        ("orders", 12, 11),
        ("orders", 10, 10),
    ]
    assert scene.source.groups.committed["app"][TopicPartition("orders", 0)] == Commit(12)


@pytest.mark.parametrize("options", [(), ("--reverse",)], ids=["forward", "reverse"])
def test_a_mirror_that_was_made_anew_answers_nothing(rows, scene, options):
    scene.commits("app", "east.orders", 11, 10, cluster=scene.target)
    scene.target.ids["east.orders"] = TopicId("another topic under the old name")
    data = rows("-g", "app", *options, code=3)
    assert {row["reason"] for row in data} == {"partition_missing"}


def test_the_reset_file_for_one_group_has_three_columns(translate, tmp_path):
    translate("-g", "app", "--csv", tmp_path / "reset.csv")
    assert (tmp_path / "reset.csv").read_text() == "east.orders,0,11\neast.orders,1,10\n"


def test_the_reset_file_for_more_has_the_group_first_and_no_refused_rows(translate, scene, tmp_path):
    scene.commits("ahead", "orders", 30)
    translate("--csv", tmp_path / "reset.csv")
    assert (tmp_path / "reset.csv").read_text() == "app,east.orders,0,11\napp,east.orders,1,10\n"


def test_the_reset_file_says_what_it_leaves_out(translate, scene, tmp_path):
    scene.commits("ahead", "orders", 30)
    path = tmp_path / "reset.csv"
    ended = translate("--csv", path, "-o", "json")
    sentence = f"{path} has no line for 2 refused rows: 1 beyond_source_end, 1 no_commit"
    assert f"warning: {sentence}\n" in ended.stderr
    assert json.loads(ended.stdout)["warnings"] == [sentence]


def test_a_cluster_that_does_not_answer_is_nine_before_anything_else(translate, scene):
    scene.state.stored.clear()
    scene.target.go_away(UnreachableError("cluster west does not answer"))
    assert translate().code == 9


def test_an_alias_clash_is_a_usage_error(translate, scene):
    scene.state.clash = UsageError("east is another cluster there", code="alias_clash")
    assert translate().code == 2


def test_both_aliases_on_one_cluster_is_a_configuration_error(translate, scene):
    scene.target.cluster_id = scene.source.cluster_id
    assert translate().code == 2


def test_several_flows_are_listed(mmtool, scene):
    scene.config.write_text(scene.config.read_text() + "west->east.enabled = true\n")
    ended = mmtool("translate-offsets", "-c", scene.config)
    assert (ended.code, "east->west, west->east" in ended.stderr) == (2, True)
