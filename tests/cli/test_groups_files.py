"""``mmtool groups export`` and ``import`` as a script sees them, on clusters in memory."""

import io
import json

import pytest

from kit.scene import half_read


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
        (["--in", "spark-checkpoint", "none"], "--in has no effect without --format"),
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


def test_what_was_exported_can_be_imported(groups, tmp_path, scene):
    scene.commits("b, c", "orders", 3)
    path = tmp_path / "all.csv"
    path.write_text(groups("export").stdout)
    assert groups("import", path, "--execute", "--yes").code == 0
    assert (committed(scene), committed(scene, "b, c")) == ({0: 11, 1: 10}, {0: 3})
