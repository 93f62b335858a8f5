"""A table that was shown before a question is not shown again, unless the work went otherwise."""

import pytest

from mmtool.errors import CheckFailedError
from mmtool.output import Column, OutputFormat, Result, emit, human, preview

COLUMNS = (Column("group"), Column("offset"), Column("age", human=human.age), Column("written"))


def result(offset=7, age=1.0, *, applied, errors=()):
    rows = [{"group": "app", "offset": offset, "age": age, "written": applied}]
    return Result("x", rows, COLUMNS, applied=applied, errors=errors)


@pytest.fixture
def shown_after(terminal, capsys):
    def run(done, output=OutputFormat.TABLE):
        terminal(80)
        preview(result(applied=False))
        capsys.readouterr()
        emit(done, output)
        return capsys.readouterr().out

    return run


def test_the_table_is_printed_once_where_the_work_went_as_shown(shown_after):
    assert shown_after(result(age=2.5, applied=True)) == ""


@pytest.mark.parametrize(
    "done",
    [
        pytest.param(result(offset=8, applied=True), id="another-offset"),
        pytest.param(result(applied=True, errors=[CheckFailedError("read back: differs")]), id="an-error"),
        pytest.param(result(applied=False), id="nothing-applied"),
    ],
)
def test_the_table_is_printed_again_where_it_did_not(shown_after, done):
    assert "app" in shown_after(done)


def test_json_is_always_written(shown_after):
    assert '"offset": 7' in shown_after(result(applied=True), OutputFormat.JSON)
