"""``mmtool groups export`` and ``import`` as a script sees them, on clusters in memory."""

import io
import json

import pytest

from kit.scene import half_read
from mmtool.plan.groups.facts import Commit, Member
from mmtool.translation.types import TopicPartition

REMOTE = [TopicPartition("east.orders", n) for n in range(2)]


@pytest.fixture
def scene(tmp_path, monkeypatch):
    made = half_read(tmp_path)
    monkeypatch.setattr("mmtool.insight.flow_now.connect", lambda flow, timeout, **_: made.clusters)
    return made


@pytest.fixture
def groups(mmtool, scene):
    def run(verb, *arguments):
        return mmtool("groups", verb, "-c", scene.config, *arguments)

    return run


def committed(scene, group="app"):
    return {place.partition: commit.offset for place, commit in scene.target.groups.committed[group].items()}


# --- export ----------------------------------------------------------------------------------------------


def test_one_group_is_three_columns_and_several_are_four(groups, scene):
    assert groups("export", "-g", "app").stdout == "east.orders,0,11\neast.orders,1,10\n"
    scene.commits("other", "orders", 3)
    assert groups("export", "-g", "app", "-g", "other").stdout.splitlines() == [
        "app,east.orders,0,11",
        "app,east.orders,1,10",
        "other,east.orders,0,3",
    ]


def test_refused_partitions_are_left_out_and_end_with_3(groups, scene):
    scene.commits("late", "orders", 22, 10)
    ended = groups("export", "-g", "late")
    assert (ended.code, ended.stdout) == (3, "east.orders,1,10\n")
    assert "the file has no line for 1 refused row: 1 beyond_source_end" in ended.stderr


def test_for_spark_it_is_one_object_in_which_uncommitted_partitions_begin_at_the_beginning(groups, scene):
    assert groups("export", "-g", "app", "--format", "spark").stdout == '{"east.orders":{"0":11,"1":10}}\n'
    scene.commits("half", "orders", 12)
    assert json.loads(groups("export", "-g", "half", "--format", "spark").stdout) == {
        "east.orders": {"0": 11, "1": -2}
    }


def test_spark_takes_a_topic_whole_or_not_at_all(groups, scene):
    scene.commits("late", "orders", 22, 10)
    ended = groups("export", "-g", "late", "--format", "spark")
    assert (ended.code, ended.stdout) == (3, "")


def test_spark_s_option_is_about_one_reader(groups, scene):
    scene.commits("other", "orders", 3)
    assert groups("export", "--format", "spark").code == 2


def checkpoint(directory, finished, begun):
    for folder, batches in (("commits", finished), ("offsets", {**finished, **begun})):
        (directory / folder).mkdir(parents=True)
        for batch, offsets in batches.items():
            text = "v1\n{}\n-\n" + json.dumps({"orders": offsets}) if folder == "offsets" else "v1\n{}"
            (directory / folder / str(batch)).write_text(text)


def test_a_spark_query_goes_on_behind_its_last_finished_batch(groups, tmp_path):
    """One that has begun and not finished is read again, on either cluster."""
    finished = {9: {"0": 5, "1": 5}, 10: {"0": 12, "1": 7}}
    checkpoint(tmp_path / "query", finished, {11: {"0": 21, "1": 10}})
    ended = groups("export", "--in", "spark-checkpoint", tmp_path / "query", "--format", "spark")
    assert json.loads(ended.stdout) == {"east.orders": {"0": 11, "1": 7}}


def test_a_spark_query_with_offsets_by_source_is_read_as_well(groups, tmp_path):
    """Version 2 of the log, as Spark 4.3 writes it for a query with named sources; one of them has no offsets yet."""
    checkpoint(tmp_path / "query", {10: {}}, {})
    lines = [
        "v2",
        '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{},"sourceMetadataInfo":{},"version":2}',
        'billing:{"orders":{"0":12,"1":7}}',
        "1:-",
        'files:{"logOffset":3}',
    ]
    (tmp_path / "query" / "offsets" / "10").write_text("\n".join(lines))
    ended = groups("export", "--in", "spark-checkpoint", tmp_path / "query", "--format", "spark")
    assert json.loads(ended.stdout) == {"east.orders": {"0": 11, "1": 7}}


def test_where_two_sources_of_a_query_read_a_partition_the_one_behind_counts(groups, tmp_path):
    checkpoint(tmp_path / "query", {10: {}}, {})
    for log in (
        'v2\n{}\na:{"orders":{"0":5,"1":7}}\nb:{"orders":{"0":12,"1":7}}',
        'v1\n{}\n{"orders":{"0":5,"1":7}}\n{"orders":{"0":12,"1":7}}',
    ):
        (tmp_path / "query" / "offsets" / "10").write_text(log)
        ended = groups("export", "--in", "spark-checkpoint", tmp_path / "query", "--format", "spark")
        assert json.loads(ended.stdout) == {"east.orders": {"0": 5, "1": 7}}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--in", "spark-checkpoint", "none", "--format", "spark"], "none is no folder"),
        (["--in", "spark-checkpoint", "none"], "--in spark-checkpoint needs --format spark"),
        (["--in", "flink", "none", "--format", "spark"], "--in flink: only spark-checkpoint is known"),
        (
            ["--in", "spark-checkpoint", "none", "--format", "spark", "-g", "app"],
            "--in and --group exclude each other",
        ),
    ],
)
def test_what_cannot_be_exported_is_a_usage_error(groups, arguments, said):
    ended = groups("export", *arguments)
    assert (ended.code, ended.stdout) == (2, "")
    assert said in ended.stderr


@pytest.mark.parametrize(
    "log", ["", "v3\n{}\n{}", "v2\n{}\n{}", "v2\n{}\n0:7", 'v1\n{}\n{"files": 3}', "v1\n{}\n-\n7"]
)
def test_a_checkpoint_that_is_none_of_kafka_s_is_named(groups, tmp_path, log):
    checkpoint(tmp_path / "query", {3: {"0": 1}}, {})
    (tmp_path / "query" / "offsets" / "3").write_text(log)
    ended = groups("export", "--in", "spark-checkpoint", tmp_path / "query", "--format", "spark")
    assert ended.code == 2
    assert f"{tmp_path}/query/offsets/3: " in ended.stderr


# --- import ----------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "reset.csv"
    path.write_text("east.orders,0,7\neast.orders,1,10\n")
    return path


def test_stdin_is_a_file_as_well(groups, file, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    ended = groups("import", "-", "-g", "app", "-o", "json")
    assert [row["offset"] for row in ended.rows] == [7, 10]


def test_a_group_without_a_name_is_a_usage_error(groups, file):
    assert "-g/--group is empty" in groups("import", file, "-g", "").stderr
    file.write_text(",east.orders,0,7\n")
    ended = groups("import", file)
    assert (ended.code, "line 1: the group's name is empty" in ended.stderr) == (2, True)


def test_a_rehearsal_shows_what_would_be_committed_and_commits_nothing(groups, file, scene):
    ended = groups("import", file, "-g", "app", "-o", "json")
    assert ended.rows == [
        {
            "group": "app",
            "topic": "east.orders",
            "partition": partition,
            "offset": offset,
            "reason": "",
            "offset_before": None,
            "written": False,
            "detail": "",
        }
        for partition, offset in ((0, 7), (1, 10))
    ]
    assert "app" not in scene.target.groups.committed


def test_execute_commits_and_says_what_stands(groups, file, scene):
    ended = groups("import", file, "-g", "app", "--execute", "--yes", "-o", "json")
    assert (ended.code, [row["written"] for row in ended.rows]) == (0, [True, True])
    assert committed(scene) == {0: 7, 1: 10}


def test_what_was_exported_can_be_imported(groups, tmp_path, scene):
    scene.commits("b, c", "orders", 3)
    path = tmp_path / "all.csv"
    path.write_text(groups("export").stdout)
    assert groups("import", path, "--execute", "--yes").code == 0
    assert (committed(scene), committed(scene, "b, c")) == ({0: 11, 1: 10}, {0: 3})


def test_of_four_columns_one_group_can_be_taken(groups, tmp_path, scene):
    path = tmp_path / "all.csv"
    path.write_text("app,east.orders,0,1\nother,east.orders,0,2\n")
    groups("import", path, "-g", "other", "--execute", "--yes")
    assert list(scene.target.groups.committed) == ["other"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("east.orders,0,21", "beyond_mirror"),
        ("east.orders,7,0", "partition_missing"),
        ("east.orders,1,4", "would_rewind"),
    ],
)
def test_one_line_that_cannot_be_kept_keeps_its_group_from_being_written(
    groups, tmp_path, scene, line, reason
):
    scene.commits("app", "east.orders", 0, 5, cluster=scene.target)
    path = tmp_path / "reset.csv"
    path.write_text(f"east.orders,0,9\n{line}\n" if "orders,0" not in line else f"{line}\neast.orders,1,9\n")
    ended = groups("import", path, "-g", "app", "--execute", "--yes", "-o", "json")
    assert (ended.code, {row["reason"] for row in ended.rows}) == (3, {"", reason})
    assert committed(scene) == {0: 0, 1: 5}


def test_a_rewind_is_written_where_it_is_allowed(groups, file, scene):
    scene.target.groups.committed["app"] = {REMOTE[0]: Commit(9)}
    assert groups("import", file, "-g", "app", "--allow-rewind", "--execute", "--yes").code == 0
    assert committed(scene) == {0: 7, 1: 10}


def test_a_group_with_members_is_left_alone(groups, file, scene):
    scene.target.groups.members["app"] = (Member("app-1", "/10.0.0.7"),)
    ended = groups("import", file, "-g", "app", "--execute", "--yes", "-o", "json")
    assert (ended.code, ended.rows[0]["reason"]) == (3, "active_on_target")
    assert "group app is active on west (Stable: app-1 on 10.0.0.7)" in ended.stderr


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("a,0,1\n", [], "names no group: it has three columns"),
        ("a,0\n", ["-g", "app"], "line 1 is 'a,0': expected topic,partition,offset"),
        ("mmtool.x,a,0,1\n", [], "mmtool.x is an internal group of mmtool, whose offsets are not imported"),
        (
            "a,0,1\n",
            ["-g", "mmtool.x"],
            "mmtool.x is an internal group of mmtool, whose offsets are not imported",
        ),
        ("app,a,0,1\n", ["-g", "other"], "names no group other"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_nothing_is_asked(groups, tmp_path, text, arguments, said):
    path = tmp_path / "reset.csv"
    path.write_text(text)
    ended = groups("import", path, *arguments)
    assert ended.code == 2
    assert said in ended.stderr


def test_a_file_that_is_not_there_is_named(groups):
    assert "none.csv: No such file or directory" in groups("import", "none.csv", "-g", "app").stderr
