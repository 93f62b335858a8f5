"""Command lines, run in this process through the one way in that users have."""

from dataclasses import dataclass

import pytest

from mmtool.commands.app import main


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command line left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def mmtool(capsys):
    """``mmtool("status", "-o", "json")`` as a shell would run it, without a terminal."""

    def run(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ended(caught.value.code, captured.out, captured.err)

    return run
