"""Which Java is taken, and what is said when none will do."""

from __future__ import annotations

import pytest

from mmtool.errors import UsageError
from mmtool.java import java_binary, major_version


@pytest.fixture
def java_home(tmp_path, monkeypatch):
    """A JAVA_HOME whose java tells the given version."""

    def make(version: str):
        binary = tmp_path / version / "bin" / "java"
        binary.parent.mkdir(parents=True)
        binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        binary.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / version))
        return binary

    return make


@pytest.mark.parametrize(
    ("said", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025-09-16 LTS', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx=1\nopenjdk version "21.0.1-ea"', 21),
    ],
)
def test_the_major_version_is_read_from_old_and_new_ways_of_writing_it(said, major):
    assert major_version(said) == major


def test_java_home_wins_over_path_as_in_sparks_launcher(java_home):
    binary = java_home("21.0.2")
    assert java_binary() == binary


def test_a_java_that_is_too_old_is_named_with_its_version(java_home):
    java_home("11.0.22")
    with pytest.raises(UsageError, match="is Java 11, and mmtool needs Java 17 or later") as failure:
        java_binary()
    assert "install Java 17" in failure.value.remedy


def test_a_java_that_does_not_run_is_told_of_in_its_own_words(java_home):
    binary = java_home("21.0.2")
    echoed = "echo 'Picked up JAVA_TOOL_OPTIONS: -Dx=1' >&2"
    binary.write_text(f"#!/bin/sh\n{echoed}\necho 'Unable to locate a Java Runtime.' >&2\nexit 1\n")
    with pytest.raises(UsageError) as failure:
        java_binary()
    assert failure.value.message == f"`{binary} -version` failed: Unable to locate a Java Runtime."


def test_no_java_at_all_is_a_usage_error_in_one_line(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError) as failure:
        java_binary()
    assert failure.value.exit_code == 2
    assert failure.value.message.startswith("no java is on PATH")


def test_a_java_home_without_java_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="has no executable bin/java"):
        java_binary()
