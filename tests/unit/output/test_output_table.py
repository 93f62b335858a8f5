import json

from mmtool.output import Column, OutputFormat, Result, emit

LONG = "a.very.long.topic.name.that.no.terminal.of.eighty.columns.can.hold.in.one.line.together.with.more"
ROWS = [
    {"topic": LONG, "partition": 0, "offset": 1_234_567_890, "reason": ""},
    {"topic": "short", "partition": 11, "offset": None, "reason": "beyond_mirror"},
]
COLUMNS = [Column("topic"), Column("partition"), Column("offset"), Column("reason", essential=False)]


def test_off_a_terminal_nothing_is_cut(capsys):
    emit(Result("x", ROWS), OutputFormat.TABLE)
    assert capsys.readouterr().out == (
        f"{'TOPIC':{len(LONG)}}  PARTITION      OFFSET  REASON\n"
        f"{LONG}          0  1234567890  -\n"
        f"{'short':{len(LONG)}}         11           -  beyond_mirror\n"
    )


def test_names_are_text_never_markup(capsys, terminal):
    terminal(80)
    emit(Result("x", [{"group": "[red]app[/red]"}]), OutputFormat.TABLE)
    assert "[red]app[/red]" in capsys.readouterr().out


def test_people_read_human_numbers_and_scripts_raw_ones(capsys):
    result = Result("x", [{"bytes": 1536}], [Column("bytes", human=lambda n: f"{n / 1024} KiB")])
    emit(result, OutputFormat.TABLE)
    emit(result, OutputFormat.JSON)
    table, document = capsys.readouterr().out.split("{", 1)
    assert (table, json.loads("{" + document)["data"]) == ("  BYTES\n1.5 KiB\n", [{"bytes": 1536}])


def test_no_rows_print_no_table(capsys):
    emit(Result("x", [], COLUMNS, warnings=["nothing is mirrored yet"]), OutputFormat.TABLE)
    assert capsys.readouterr() == ("", "warning: nothing is mirrored yet\n")
