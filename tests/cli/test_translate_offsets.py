"""``mmtool translate-offsets`` as a script sees it, on clusters in memory."""

import io
import json

import pytest

from kit.scene import Scene, half_read
from mmtool.config import load_settings
from mmtool.errors import UsageError
from mmtool.insight.flow_now import FlowClusters
from mmtool.plan.records.documents import OwnerRecord, RefusedRecord

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
    "kind",
    "target_group",
]


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


def test_a_flow_whose_only_topic_is_the_canary_matches_none(mmtool, tmp_path, monkeypatch):
    scene = Scene(tmp_path)
    scene.has("mmtool-canary", 4)
    monkeypatch.setattr("mmtool.insight.flow_now.connect", lambda *_, **__: scene.clusters)
    ended = mmtool("translate-offsets", "-c", scene.config)
    assert (ended.code, "east->west matches no topic of east" in ended.stderr) == (2, True)


def test_rows_have_the_contracts_keys(rows):
    assert [list(row) for row in rows()] == [KEYS, KEYS]


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
    reasons = "1 beyond_source_end, 1 no_commit (ahead orders-0, ahead orders-1)"
    sentence = f"{path} has no line for 2 refused rows: {reasons}"
    assert f"warning: {sentence}\n" in ended.stderr
    assert json.loads(ended.stdout)["warnings"] == [sentence]


def test_an_alias_clash_is_a_usage_error(translate, scene):
    scene.state.clash = UsageError("east is another cluster there", code="alias_clash")
    assert translate().code == 2


def test_several_flows_are_listed(mmtool, scene):
    scene.config.write_text(scene.config.read_text() + "west->east.enabled = true\n")
    ended = mmtool("translate-offsets", "-c", scene.config)
    assert (ended.code, "east->west, west->east" in ended.stderr) == (2, True)
