"""A private key is under a path for as long as OpenSSL reads it, and is left nowhere."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mmtool.errors import UsageError
from mmtool.kafka.key_files import pem_path, remove_abandoned

HOLDING = """
import os, time
def none(*_): raise OSError
os.memfd_create = none
from mmtool.kafka.key_files import pem_path
from mmtool.runtime.process import ended_by_signals
with ended_by_signals(), pem_path("secret") as path:
    print(path, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home of our own, on a system without files in memory."""

    def none(*_):
        raise OSError

    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "memfd_create", none)
    return tmp_path


@pytest.fixture
def holder(home):
    """A process that holds a key file; (process, file)."""
    process = subprocess.Popen([sys.executable, "-c", HOLDING], stdout=subprocess.PIPE, text=True)
    yield process, Path(process.stdout.readline().strip())
    process.kill()
    process.wait()
    process.stdout.close()


def test_on_linux_no_file_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pem_path("secret") as path:
        assert (Path(path).read_text(), path.startswith("/proc/self/fd/")) == ("secret", True)
    assert list(tmp_path.rglob("*")) == []


def test_a_key_file_is_for_its_user_alone_and_gone_afterwards(home):
    with pem_path("secret") as path:
        file = Path(path)
        assert (file.read_text(), file.stat().st_mode & 0o777) == ("secret", 0o600)
        assert (file.is_relative_to(home), file.parent.stat().st_mode & 0o777) == (True, 0o700)
    assert not file.exists()


def test_an_error_leaves_no_key_file(home):
    with pytest.raises(ZeroDivisionError), pem_path("secret") as path:
        raise ZeroDivisionError
    assert not Path(path).exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda n: n.name)
def test_a_signal_leaves_no_key_file(number, holder):
    process, file = holder
    assert file.read_text() == "secret"
    process.send_signal(number)
    process.wait(10)
    assert not file.exists()


def test_what_a_killed_process_left_is_removed_by_the_next_one(holder):
    process, file = holder
    process.kill()
    process.wait()
    assert file.exists()
    with pem_path("other"):
        assert not file.exists()


def test_a_key_file_that_is_in_use_is_left_alone(holder):
    _, file = holder
    remove_abandoned()
    assert file.exists()


def test_a_folder_that_others_may_enter_is_not_used(home, monkeypatch):
    (home / "mmtool" / "keys").mkdir(parents=True)
    (home / "mmtool" / "keys").chmod(0o755)
    monkeypatch.setattr("tempfile.tempdir", str(home))
    with pem_path("secret") as path:
        assert Path(path).parent == home / f"mmtool-keys-{os.getuid()}"


def test_a_system_without_a_folder_of_its_own_is_told_what_to_set(home, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/none")
    monkeypatch.setattr("tempfile.tempdir", "/proc/none")
    with (
        pytest.raises(UsageError, match="none of these folders can hold it"),
        pem_path("secret"),
    ):
        pass
