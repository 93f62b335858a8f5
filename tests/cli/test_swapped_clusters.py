"""Commands that write refuse a flow that the file does not enable, before they connect to a cluster."""

import json

import pytest

from kit.scene import PROPERTIES, Scene

WRITING = [
    ["replicate"],
    ["replicate", "--until-caught-up"],
    ["groups", "sync", "-g", "app"],
    ["groups", "import", "FILE"],
    ["groups", "import", "FILE", "--execute", "--yes"],
    ["translate-offsets", "-g", "app", "--execute", "--yes"],
    ["translate-offsets", "-g", "app", "--reverse", "--execute", "--yes"],
    *(
        ["failover", mode, *more]
        for mode in ("planned", "emergency", "failback", "drill")
        for more in (["-g", "app"], ["-g", "app", "--execute", "--yes"])
    ),
    *(["failover", way, "some-id"] for way in ("resume", "cancel", "rollback")),
    ["failover", "release"],
    ["flow", "seek", "--to", "latest"],
    *(["flow", change] for change in ("forget", "rebuild", "pause", "resume")),
    ["smoke"],
]
"""Every command that can change something, also as a rehearsal: a plan that cannot be executed is refused as well."""

READING = [
    ["status"],
    ["verify"],
    ["doctor"],
    ["acls", "--principal", "User:mm"],
    ["config", "check"],
    ["groups", "audit"],
    ["groups", "export"],
    ["translate-offsets"],
    ["failover", "list"],
    ["smoke", "--read-only"],
]


@pytest.fixture
def swapped(mmtool, tmp_path):
    """A command with ``-s`` and ``-t`` swapped, on clusters that no host has."""
    file = tmp_path / "mm2.properties"
    file.write_text(PROPERTIES.replace("-1:9092", ".invalid:1"), encoding="utf-8")
    offsets = tmp_path / "offsets.csv"
    offsets.write_text("app,orders,0,1\n", encoding="utf-8")

    def run(words, source="west", target="east"):
        words = [str(offsets) if word == "FILE" else word for word in words]
        return mmtool(*words, "-c", file, "-s", source, "-t", target), file

    return run


@pytest.mark.parametrize("words", WRITING, ids=" ".join)
def test_a_command_that_writes_refuses_the_flow_that_the_file_does_not_enable(swapped, words):
    ended, file = swapped(words)
    assert ended.code == 2, ended.stderr
    assert "west->east is not enabled; did you swap -s and -t?" in ended.stderr
    assert "-s east -t west" in ended.stderr
    assert f"west->east.enabled = true in {file}" in ended.stderr


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_command_that_reads_takes_it(swapped, words):
    timeout = [] if words[0] in {"acls", "config"} else ["--timeout", "100ms"]
    ended, _ = swapped([*words, *timeout])
    assert "is not enabled" not in ended.stderr


def test_where_neither_direction_is_enabled_nothing_was_swapped(mmtool, tmp_path):
    file = tmp_path / "mm2.properties"
    file.write_text(PROPERTIES.replace("enabled = true", "enabled = false"), encoding="utf-8")
    ended = mmtool("flow", "pause", "-c", file, "-s", "west", "-t", "east", "-o", "json")
    (error,) = json.loads(ended.stdout)["errors"]
    assert (ended.code, error["message"]) == (2, "west->east is not enabled")
    assert error["remedy"] == f"set west->east.enabled = true in {file}"


def test_a_translation_along_a_flow_that_is_not_enabled_does_not_offer_to_write(
    mmtool, tmp_path, monkeypatch
):
    scene = Scene(tmp_path)
    scene.has("orders", 100)
    scene.mirrored("orders", 0, [(0, 0, 60)], 60)
    scene.commits("app", "orders", 20)
    monkeypatch.setattr("mmtool.insight.flow_now.connect", lambda *_, **__: scene.clusters)
    scene.config.write_text(PROPERTIES.replace("enabled = true", "enabled = false"), encoding="utf-8")
    ended = mmtool("translate-offsets", "-g", "app", "-c", scene.config, "-s", "east", "-t", "west")
    assert ended.code == 0, ended.stderr
    assert "--execute" not in ended.stderr
