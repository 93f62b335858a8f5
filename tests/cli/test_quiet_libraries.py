"""What a library logs is not for the screen of somebody on call."""

import subprocess
import sys

import pytest

_LOGS = """
import logging, sys
from mmtool.commands import app

def run(_arguments):
    try:
        raise ConnectionResetError("reset by peer")
    except ConnectionResetError:
        logging.getLogger("asyncio").exception("Future exception was never retrieved")
    return 0

app._run = run
app.main(sys.argv[1:])
"""


@pytest.mark.parametrize(("arguments", "shown"), [([], False), (["--debug"], True)])
def test_a_traceback_that_a_library_logs_is_shown_with_debug_only(arguments, shown):
    ran = subprocess.run(
        [sys.executable, "-c", _LOGS, *arguments], capture_output=True, text=True, check=True
    )
    assert ("Traceback" in ran.stderr, bool(ran.stderr)) == (shown, shown)
