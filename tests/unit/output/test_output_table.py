import json
import re

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


def test_off_a_terminal_every_line_has_the_same_number_of_words(capsys):
    emit(Result("x", ROWS), OutputFormat.TABLE)
    assert {len(line.split()) for line in capsys.readouterr().out.splitlines()} == {4}


def test_headings_are_written_as_kafkas_tools_write_them():
    assert Column("log_end_offset").heading == "LOG-END-OFFSET"


def test_a_wide_terminal_shows_every_column(capsys, terminal):
    terminal(200)
    emit(Result("x", ROWS, COLUMNS), OutputFormat.TABLE)
    out, err = capsys.readouterr()
    assert (LONG in out, "REASON" in out, err) == (True, True, "")


def test_a_narrow_terminal_leaves_out_the_unessential_and_says_so(capsys, terminal):
    terminal(80)
    emit(Result("x", ROWS, COLUMNS), OutputFormat.TABLE)
    out, err = capsys.readouterr()
    said = "columns left out at this terminal width: reason; -o json or a pipe shows them\n"
    assert ("REASON" in out, err) == (False, said)


def test_names_are_text_never_markup(capsys, terminal):
    terminal(80)
    emit(Result("x", [{"group": "[red]app[/red]"}]), OutputFormat.TABLE)
    assert "[red]app[/red]" in capsys.readouterr().out


def test_verdicts_are_coloured_on_a_terminal(capsys, terminal):
    terminal(80)
    emit(Result("x", [{"exactness": "exact"}]), OutputFormat.TABLE)
    assert "\x1b[32mexact" in capsys.readouterr().out


def test_no_color_leaves_no_colour(capsys, terminal, monkeypatch):
    terminal(80)
    monkeypatch.setenv("NO_COLOR", "1")
    emit(Result("x", [{"exactness": "exact"}]), OutputFormat.TABLE)
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", capsys.readouterr().out)


def test_people_read_human_numbers_and_scripts_raw_ones(capsys):
    result = Result("x", [{"bytes": 1536}], [Column("bytes", human=lambda n: f"{n / 1024} KiB")])
    emit(result, OutputFormat.TABLE)
    emit(result, OutputFormat.JSON)
    table, document = capsys.readouterr().out.split("{", 1)
    assert (table, json.loads("{" + document)["data"]) == ("  BYTES\n1.5 KiB\n", [{"bytes": 1536}])


def test_an_address_is_no_number_and_stands_on_the_left(capsys):
    emit(Result("x", [{"subject": "-"}, {"subject": "127.0.0.1:9092"}]), OutputFormat.TABLE)
    assert capsys.readouterr().out.splitlines()[1] == "-"


def test_no_rows_print_no_table(capsys):
    emit(Result("x", [], COLUMNS, warnings=["nothing is mirrored yet"]), OutputFormat.TABLE)
    assert capsys.readouterr() == ("", "warning: nothing is mirrored yet\n")
