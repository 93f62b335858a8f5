"""A new file is there as a whole or not at all, and overwrites nothing that nobody asked for."""

import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mmtool.errors import RefusedError, UsageError
from mmtool.runtime.files import new_file


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mm2.properties"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_only_its_owner_can_read_it(path):
    with new_file(path) as file:
        file.write(b"clusters = a, b\n")
        file.publish()
    assert (path.read_bytes(), mode(path)) == (b"clusters = a, b\n", 0o600)


def test_without_publishing_nothing_is_left(path):
    with new_file(path) as file:
        file.write(b"half")
    assert list(path.parent.iterdir()) == []


def test_nothing_is_left_beside_it(path):
    with new_file(path) as file:
        file.write(b"first")
        file.write(b"second")
        file.publish()
    assert [(one.name, one.read_bytes()) for one in path.parent.iterdir()] == [("mm2.properties", b"second")]


def test_an_existing_file_is_refused_before_any_work(path):
    path.write_text("mine")
    with pytest.raises(RefusedError, match="exists and was not changed"), new_file(path):
        pytest.fail("the work began")
    assert path.read_text() == "mine"


def test_a_file_that_appeared_meanwhile_is_not_overwritten(path):
    with new_file(path) as file:
        file.write(b"new")
        path.write_text("somebody's")
        with pytest.raises(RefusedError, match="exists and was not changed"):
            file.publish()
    assert [one.read_text() for one in path.parent.iterdir()] == ["somebody's"]


def test_a_link_to_nowhere_counts_as_a_file(path):
    path.symlink_to(path.with_name("elsewhere"))
    with pytest.raises(RefusedError), new_file(path):
        pytest.fail("the work began")


def test_forced_it_keeps_the_mode_and_the_link_of_what_it_overwrites(path):
    real = path.with_name("real.properties")
    real.write_text("old")
    real.chmod(0o640)
    path.symlink_to(real)
    with new_file(path, force=True) as file:
        file.write(b"new")
        file.publish()
    assert (path.is_symlink(), real.read_text(), mode(real)) == (True, "new", 0o640)


def test_forced_a_link_to_nowhere_stays_and_leads_to_the_new_file(path):
    real = path.with_name("real.properties")
    path.symlink_to(real)
    with new_file(path, force=True) as file:
        file.write(b"new")
        file.publish()
    assert (path.is_symlink(), real.read_bytes(), mode(real)) == (True, b"new", 0o600)
    assert sorted(path.parent.iterdir()) == [path, real]


@pytest.fixture
def elsewhere(tmp_path):
    """A folder in another file system."""
    memory = Path("/dev/shm")  # noqa: S108  a folder of its own is made there
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second file system")
    with TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


def test_forced_a_link_into_another_file_system_is_followed(path, elsewhere):
    real = elsewhere / "real.properties"
    real.write_text("old")
    path.symlink_to(real)
    with new_file(path, force=True) as file:
        file.write(b"new")
        file.publish()
    assert (path.is_symlink(), [one.read_bytes() for one in elsewhere.iterdir()]) == (True, [b"new"])


def test_a_folder_that_is_not_there_is_reported_before_any_work(tmp_path):
    with pytest.raises(UsageError, match="cannot be written"), new_file(tmp_path / "no" / "mm2.properties"):
        pytest.fail("the work began")


def test_a_folder_is_not_overwritten(tmp_path):
    with new_file(tmp_path, force=True) as file:
        file.write(b"")
        with pytest.raises(UsageError, match="cannot be written"):
            file.publish()
