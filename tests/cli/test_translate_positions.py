"""``mmtool translate-offsets --positions`` as a script sees it, on clusters in memory."""

import io
import json

import pytest

from kit.scene import half_read
from mmtool.errors import UnreachableError

AWAY = UnreachableError("cluster east does not answer at east-1:9092: connection refused")


@pytest.fixture
def scene(tmp_path, wired):
    made = half_read(tmp_path)
    made.told("app", "orders", (12, 11))  # a checkpoint: the target knows the flow
    return wired(made)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "positions.csv"


@pytest.fixture
def translate(mmtool, scene, file):
    def run(text, *arguments):
        file.write_text(text)
        return mmtool("translate-offsets", "-c", scene.config, "--positions", file, *arguments)

    return run


def rows(answer, *keys):
    return [tuple(row[key] for key in keys) for row in answer.rows]


BOTH = "orders,1,10\norders,0,12\n"
BACK = "east.orders,1,10\neast.orders,0,11\n"


def test_each_line_is_a_row_without_a_group_in_the_files_order(translate):
    ended = translate(BOTH, "-o", "json")
    assert ended.code == 0
    keys = (
        "group",
        "partition",
        "upstream_offset",
        "target_topic",
        "downstream_offset",
        "exactness",
        "written",
    )
    assert rows(ended, *keys) == [
        (None, 1, 10, "east.orders", 10, "exact", False),
        (None, 0, 12, "east.orders", 11, "exact", False),
    ]


def test_the_table_has_no_columns_of_groups(translate):
    heading = translate(BOTH).stdout.splitlines()[0].split()
    assert heading[:3] == ["TOPIC", "PARTITION", "UPSTREAM-OFFSET"]
    assert "WRITTEN" not in heading


def test_in_reverse_topics_are_named_as_on_the_target(translate):
    ended = translate(BACK, "--reverse", "-o", "json")
    assert rows(ended, "topic", "partition", "upstream_offset") == [("orders", 1, 10), ("orders", 0, 12)]


def test_stdin_is_a_file_and_a_heading_may_be_there(translate, mmtool, scene, monkeypatch):
    text = "Topic, Partition, Offset\n" + BOTH
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    ended = mmtool("translate-offsets", "-c", scene.config, "--positions", "-", "-o", "json")
    assert ended.rows == translate(BOTH, "-o", "json").rows


def test_what_is_refused_has_its_reason_and_the_others_are_translated(translate):
    ended = translate("orders,1,10\norders,0,99\norders,7,0\nordrs,0,12\n", "-o", "json")
    reasons = ["", "beyond_source_end", "partition_missing", "not_mirrored"]
    assert (ended.code, rows(ended, "reason")) == (3, [(reason,) for reason in reasons])
    assert ended.rows[3]["detail"].endswith("; did you mean orders?")


@pytest.mark.parametrize("name", ["nope", "east.orders"])
@pytest.mark.parametrize("form", [(), ("-o", "json"), ("--as", "kafka"), ("--as", "connect")])
def test_a_file_of_which_no_line_is_of_the_flow_is_refused_with_the_names_that_count(translate, name, form):
    ended = translate(f"{name},0,5\n", *form)
    assert ended.code == 3
    assert "offsets refused: 1 not_mirrored" in ended.stderr + ended.stdout
    assert "name topics as on east (with --reverse, as on west)" in ended.stderr + ended.stdout


def test_topics_outside_the_flow_are_named_beside_the_offsets(translate):
    ended = translate("orders,1,10\nnope,0,5\n", "--as", "kafka")
    assert (ended.code, ended.stdout) == (0, "east.orders,1,10\n")
    assert (
        "1 position not translated: the flow does not mirror this topic from east: name topics"
        in ended.stderr
    )


def test_topics_outside_the_flow_do_not_change_the_exit_code(translate):
    ended = translate("orders,1,10\nlogs,0,1\n", "-o", "json")
    assert (ended.code, rows(ended, "reason")) == (0, [("",), ("not_mirrored",)])


def test_an_offset_whose_records_are_deleted_goes_on_at_the_next_one_if_that_is_allowed(translate, scene):
    for place, log in list(scene.target.logs.items()):
        scene.target.logs[place] = type(log)(5, log.log_end)
    assert translate("orders,1,2\n").code == 3
    ended = translate("orders,1,2\n", "--allow-skip", "-o", "json")
    assert (ended.code, rows(ended, "downstream_offset", "skip_max")) == (0, [(5, 3)])


# --- as files of other tools -------------------------------------------------------------------------------


def connect(*offsets):
    return {
        "offsets": [
            {
                "partition": {"kafka_topic": topic, "kafka_partition": partition},
                "offset": {"kafka_offset": offset},
            }
            for topic, partition, offset in offsets
        ]
    }


def test_as_kafka_is_a_reset_file_without_a_group(translate):
    assert translate(BOTH, "--as", "kafka").stdout == "east.orders,1,10\neast.orders,0,11\n"
    assert translate(BACK, "--reverse", "--as", "kafka").stdout == "orders,1,10\norders,0,12\n"


def test_as_connect_is_the_body_that_sets_a_sinks_offsets(translate):
    both = connect(("east.orders", 0, 11), ("east.orders", 1, 10))
    assert json.loads(translate(BOTH, "--as", "connect").stdout) == both
    one = translate("east.orders,1,10\n", "--reverse", "--as", "connect")
    assert json.loads(one.stdout) == connect(("orders", 1, 10))


def test_as_spark_has_every_partition_of_a_topic(translate, file):
    assert json.loads(translate(BOTH, "--as", "spark").stdout) == {"east.orders": {"0": 11, "1": 10}}
    one = translate("orders,1,10\n", "--as", "spark")
    assert json.loads(one.stdout) == {"east.orders": {"0": -2, "1": 10}}
    assert one.stderr == (
        f"warning: {file} has no position in east.orders-0: Spark starts there at the earliest record\n"
    )


def test_as_spark_has_the_partitions_that_the_mirror_has_and_no_others(translate, scene):
    scene.target.add_topic("east.orders", scene.target.ids["east.orders"], 20, 10, 0)
    found = json.loads(translate(BOTH, "--as", "spark").stdout)
    assert found == {"east.orders": {"0": 11, "1": 10, "2": -2}}
    scene.source.add_topic("orders", scene.source.ids["orders"], 21, 10, 0, 0)
    assert json.loads(translate(BOTH, "--as", "spark").stdout) == found
    back = translate(BACK, "--reverse", "--as", "spark")
    assert json.loads(back.stdout) == {"orders": {"0": 12, "1": 10, "2": -2, "3": -2}}


@pytest.mark.parametrize("tool", ["connect", "spark"])
@pytest.mark.parametrize("refused", ["orders,0,99", "logs,0,1", "orders,7,0"])
def test_a_document_for_all_offsets_is_not_written_if_one_is_refused(translate, tool, refused):
    ended = translate(f"orders,1,10\n{refused}\n", "--as", tool)
    assert (ended.code, ended.stdout) == (3, "")
    assert ended.stderr.startswith("error: offsets refused: 1 ")


def test_kafkas_file_leaves_refused_lines_out_and_says_so(translate):
    ended = translate("orders,1,10\norders,0,99\n", "--as", "kafka")
    assert (ended.code, ended.stdout) == (3, "east.orders,1,10\n")
    assert "the file has no line for 1 refused row: 1 beyond_source_end" in ended.stderr


def test_a_groups_offsets_are_exported_for_connect_as_well(mmtool, scene):
    ended = mmtool("groups", "export", "-c", scene.config, "-g", "app", "--format", "connect")
    assert json.loads(ended.stdout) == connect(("east.orders", 0, 11), ("east.orders", 1, 10))


# --- without the source ------------------------------------------------------------------------------------


def test_without_the_source_the_target_alone_translates_in_both_directions(translate, scene):
    scene.source.go_away(AWAY)
    ended = translate(BOTH, "-o", "json")
    assert (ended.code, rows(ended, "downstream_offset")) == (0, [(10,), (11,)])
    (warning,) = json.loads(ended.stdout)["warnings"]
    assert warning == f"{AWAY}; the offsets are translated by what west has stored"
    assert rows(translate(BACK, "--reverse", "-o", "json"), "upstream_offset") == [(10,), (12,)]


def test_without_the_source_only_what_needs_it_is_refused(translate, scene):
    scene.source.go_away(AWAY)
    ended = translate("orders,1,10\norders,7,0\norders-new,0,0\norders,0,99\nlogs,0,1\n", "-o", "json")
    reasons = ["", "source_unreachable", "source_unreachable", "beyond_mirror", "not_mirrored"]
    assert (ended.code, rows(ended, "reason")) == (3, [(reason,) for reason in reasons])


def test_without_the_source_the_checkpoint_of_a_query_is_translated_too(mmtool, scene, tmp_path):
    for folder, text in (("offsets", 'v1\n{}\n{"orders":{"0":12,"1":7}}'), ("commits", "v1\n{}")):
        (tmp_path / "query" / folder).mkdir(parents=True)
        (tmp_path / "query" / folder / "3").write_text(text)
    scene.source.go_away(AWAY)
    words = ("--in", "spark-checkpoint", tmp_path / "query", "--format", "spark")
    ended = mmtool("groups", "export", "-c", scene.config, *words)
    assert json.loads(ended.stdout) == {"east.orders": {"0": 11, "1": 7}}
    other = mmtool("groups", "export", "-c", scene.config, *words, "--topic", "payments")
    assert (other.code, "query has no offsets of payments" in other.stderr) == (2, True)


def test_records_are_not_compared_without_the_source(translate, scene):
    scene.source.go_away(AWAY)
    assert translate(BOTH, "--refine").code == 9


def test_a_target_that_knows_nothing_of_the_flow_does_not_answer_for_the_source(translate, scene):
    scene.source.go_away(AWAY)
    scene.state.stored.clear()
    ended = translate(BOTH)
    assert (ended.code, ended.stdout) == (9, "")


def test_without_the_target_nothing_is_translated(translate, scene):
    scene.target.go_away(UnreachableError("cluster west does not answer"))
    assert translate(BOTH).code == 9


def test_of_a_flow_that_never_ran_nothing_is_translated(translate, scene):
    scene.state.stored.clear()
    ended = translate(BOTH, "-o", "json")
    assert (ended.code, rows(ended, "reason")) == (3, [("never_ran",), ("never_ran",)])


# --- what users mistype ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file has no offsets"),
        ("topic,partition,offset\n", "the file has no offsets"),
        ("orders,0,1\norders,0,-5\n", "line 2 is 'orders,0,-5': expected topic,partition,offset"),
        ("orders,0,one\n", "line 1 is 'orders,0,one': expected topic,partition,offset"),
        ("orders,0,1.5\n", "line 1 is 'orders,0,1.5': expected topic,partition,offset"),
        ("orders,-1,5\n", "line 1 is 'orders,-1,5': expected topic,partition,offset"),
        ("orders;0;5\n", "line 1 is 'orders;0;5': expected topic,partition,offset"),
        ("app,orders,0,5\n", "line 1 has a fourth column"),
        ("orders,0,1\norders,1,1\norders,0,1\n", "line 3: orders-0 has two offsets, 1 and 1"),
        ('{"orders":{"0":5}}\n', "line 1 is "),
    ],
)
def test_what_is_no_position_is_named_with_file_and_line(translate, file, text, said):
    ended = translate(text)
    assert (ended.code, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"error: --positions {file}: {said}")


def test_a_file_that_cannot_be_read_is_named(translate, file, mmtool, scene):
    ended = mmtool("translate-offsets", "-c", scene.config, "--positions", file)
    assert (ended.code, str(file) in ended.stderr) == (2, True)
    file.write_bytes(b"\xff\xfe")
    ended = mmtool("translate-offsets", "-c", scene.config, "--positions", file)
    assert (ended.code, "not UTF-8 text" in ended.stderr) == (2, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-g", "app"], "--positions and --group exclude each other"),
        (["--groups", ".*"], "--positions and --groups exclude each other"),
        (["--all-groups"], "--positions and --all-groups exclude each other"),
        (["--execute", "--yes"], "--positions and --execute exclude each other"),
        (["--topic", "orders"], "--positions and --topic exclude each other"),
        (["--csv", "out.csv"], "--positions and --csv exclude each other"),
        (["--as", "spark", "-o", "json"], "--as and --output exclude each other"),
        (["--as", "flink"], "'flink' is not one of 'kafka', 'connect', 'spark'"),
    ],
)
def test_options_that_contradict_positions_are_usage_errors(translate, options, said):
    ended = translate(BOTH, *options)
    assert ended.code == 2
    assert said in ended.stderr


def test_as_needs_positions(mmtool, scene):
    ended = mmtool("translate-offsets", "-c", scene.config, "--as", "spark")
    assert (ended.code, "--as has no effect without --positions" in ended.stderr) == (2, True)
