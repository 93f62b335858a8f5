"""How the process ends: after Python's own handlers, before those of native libraries."""

import signal
import subprocess
import sys

import pytest

ABORTS = "import ctypes; libc = ctypes.CDLL(None); libc.__cxa_atexit(libc.abort, None, None)\n"
"""A native library whose exit handler ends the process, as OpenSSL's does below a thread in a handshake."""
ENDS = "from mmtool.runtime.process import ends_after_python\nwith ends_after_python():\n    {}\n"


def ended(code):
    return subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)


def test_without_it_a_native_handler_ends_the_process():
    assert ended(ABORTS + "raise SystemExit(9)").returncode == -signal.SIGABRT


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("raise SystemExit(9)", 9),
        ("raise SystemExit", 0),
        ("raise SystemExit('no')", 1),
        ("pass", 1),
        ("1 / 0", 1),
    ],
    ids=["a code", "none", "a message", "no end", "an error"],
)
def test_the_process_ends_with_the_code_of_its_body_before_native_handlers(body, code):
    assert ended(ABORTS + ENDS.format(body)).returncode == code


def test_the_handler_of_mmtool_is_registered_before_its_commands_are_loaded():
    loaded = "any(name.startswith('mmtool.commands') for name in sys.modules)"
    assert ended(f"import sys, mmtool.__main__; sys.exit({loaded})").returncode == 0


def test_python_s_handlers_and_threads_come_first_and_what_they_print_is_kept():
    body = (
        "import atexit, threading, time; atexit.register(print, 'handler', end='');"
        " threading.Thread(target=lambda: (time.sleep(0.1), print('thread', end=' '))).start(); raise SystemExit(0)"
    )
    ran = ended(ENDS.format(body))
    assert (ran.stdout, ran.stderr, ran.returncode) == ("thread handler", "", 0)


def test_a_process_whose_output_nobody_reads_ends_with_its_code():
    ran = ended(ENDS.format("import os, sys; print('x'); os.close(1); raise SystemExit(4)"))
    assert (ran.returncode, ran.stderr) == (4, "")
