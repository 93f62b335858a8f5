"""``--html``, ``--sign`` and ``mmtool evidence verify`` as a script sees them, on clusters in memory."""

import json
import re
import subprocess
import sys

import pytest

from kit.processes import error_of
from kit.scene import Scene
from kit.terminal import on_a_terminal

CONTENTS = [f"record {n}" for n in range(20)]


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """``ann`` and ``eve``, and ``locked`` with the password ``changeit``."""
    folder = tmp_path_factory.mktemp("keys")
    for name, options in {"ann": [], "eve": [], "locked": ["-aes256", "-pass", "pass:changeit"]}.items():
        made = ["openssl", "genpkey", "-algorithm", "ed25519", *options, "-out", f"{name}.pem"]
        public = ["openssl", "pkey", "-in", f"{name}.pem", "-passin", "pass:changeit", "-pubout"]
        for line in (made, [*public, "-out", f"{name}.pub"]):
            subprocess.run(line, cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def scene(tmp_path, wired):
    """``app`` is at 12 of 20 records, mirrored to the end."""
    made = Scene(tmp_path)
    made.has("orders", 20)
    made.mirrored("orders", 0, [(0, 0, 20)], 20, source_end=20)
    made.commits("app", "orders", 12)
    made.told("app", "orders", (12, 12))
    made.holds(made.source, "orders", enumerate(CONTENTS))
    made.holds(made.target, "east.orders", enumerate(CONTENTS))
    return wired(made)


@pytest.fixture
def run(mmtool, scene):
    def call(verb, *arguments):
        return mmtool("failover", verb, *arguments, "-c", scene.config, "-o", "json")

    return call


@pytest.fixture
def drilled(run, tmp_path, keys):
    """A signed page of a drill, and what the drill printed."""
    page = tmp_path / "drill.html"
    line = ["drill", "-g", "app", "--execute", "--yes", "--reason", "May"]
    ended = run(*line, "--html", page, "--sign", keys / "ann.pem")
    assert ended.code == 0, ended.stderr
    return page, ended


@pytest.fixture
def check(mmtool, keys):
    def call(page, key="ann.pub", *options):
        return mmtool("evidence", "verify", page, "--key", keys / key, *options)

    return call


def test_a_signed_page_of_a_drill_is_valid_for_its_signer_s_key(drilled, check):
    page, ended = drilled
    told = check(page, "ann.pub", "-o", "json")
    (row,) = told.rows
    assert (told.code, row["verdict"], row["says"]) == (0, "valid", "completed"), told.stderr
    assert "Failover drill east-&gt;west" in page.read_text()
    assert f"evidence page: {page}, signed" in ended.stderr


def test_the_page_has_the_rows_that_the_command_printed(drilled):
    page, ended = drilled
    embedded = json.loads(re.search(r'id="evidence">([^<]*)</script>', page.read_text())[1])
    assert embedded["rows"] == ended.rows
    assert (embedded["kind"], embedded["schema_version"]) == ("drill", 1)


def test_another_key_and_an_unsigned_page_are_8(drilled, check, run, tmp_path):
    page, _ = drilled
    told = check(page, "eve.pub", "-o", "json")
    (row,) = told.rows
    assert (told.code, error_of(told)["code"], row["verdict"]) == (8, "not_authentic", "invalid")
    plain = tmp_path / "plain.html"
    assert run("drill", "-g", "app", "--execute", "--yes", "--html", plain).code == 0
    told = check(plain)
    assert (told.code, "not signed" in told.stderr) == (8, True)


def test_files_that_are_not_there_and_keys_that_are_none_are_2(drilled, check, mmtool, tmp_path):
    page, _ = drilled
    assert check(tmp_path / "none.html").code == 2
    assert check(page, "none.pub").code == 2
    assert check(page, "ann.pem").code == 2
    assert mmtool("evidence", "verify", page).code == 2


def test_an_operation_s_page_is_written_by_show(run, check, tmp_path, keys):
    moved = run("planned", "-g", "app", "--execute", "--yes", "--reason", "power <b>off</b>")
    assert moved.code == 0, moved.stderr
    page = tmp_path / "planned.html"
    shown = run("show", moved.rows[0]["operation_id"], "--html", page, "--sign", keys / "ann.pem")
    assert (shown.code, check(page).code) == (0, 0), shown.stderr
    assert "power &lt;b&gt;off&lt;/b&gt;" in page.read_text()


@pytest.mark.parametrize("password", ["changeit", "another-phrase", ""])
def test_the_password_of_a_key_comes_from_the_environment(run, check, tmp_path, keys, monkeypatch, password):
    monkeypatch.setenv("MMTOOL_SIGN_PASSWORD", password)
    page = tmp_path / "drill.html"
    line = ["drill", "-g", "app", "--execute", "--yes", "--html", page]
    ended = run(*line, "--sign", keys / "locked.pem")
    if password == "changeit":  # noqa: S105 - of a key made for this test
        assert (ended.code, check(page, "locked.pub").code) == (0, 0)
    else:
        assert (ended.code, page.exists()) == (2, False)
        assert ("wrong password" in ended.stderr) == (password != "")


@pytest.mark.parametrize(
    "options",
    [["--sign", "ann.pem"], ["--html", "{}/x.html", "--sign", "none.pem"], ["--html", "{}/none/x.html"]],
    ids=["no page", "no key", "no folder"],
)
def test_a_page_that_could_not_be_written_or_signed_stops_the_drill_before_it_begins(
    run, scene, keys, tmp_path, options
):
    words = [str(keys / word) if word.endswith(".pem") else word.format(tmp_path) for word in options]
    ended = run("drill", "-g", "app", "--execute", "--yes", *words)
    assert (ended.code, scene.journal.stored) == (2, {})
    assert len(json.loads(ended.stdout)["errors"]) == 1


def test_a_rehearsal_writes_no_page_and_leaves_an_older_one(run, tmp_path):
    page = tmp_path / "drill.html"
    page.write_text("older")
    assert run("drill", "-g", "app", "--html", page).code == 0
    assert page.read_text() == "older"


def test_a_failed_drill_has_a_page_as_well(run, scene, tmp_path):
    scene.holds(scene.target, "east.orders", [(n, "foreign") for n in range(20)])
    page = tmp_path / "drill.html"
    ended = run("drill", "-g", "app", "--execute", "--yes", "--html", page)
    assert ended.code == 3, ended.stderr
    assert "\u2717 failed" in page.read_text()


@pytest.mark.long
@pytest.mark.parametrize(("typed", "code"), [(b"changeit\n", 9), (b"another-phrase\n", 2), (b"\x04", 2)])
def test_the_password_is_asked_for_on_a_terminal(scene, keys, tmp_path, typed, code):
    """With it the command goes on to the clusters, which are not there."""
    line = [sys.executable, "-m", "mmtool", "failover", "show", "op-1", "-c", scene.config, "--timeout", "1s"]
    ended, said = on_a_terminal(
        [*line, "--html", tmp_path / "x.html", "--sign", keys / "locked.pem"], (b"password of ", typed)
    )
    assert ended == code, said
    assert b"changeit" not in said
    assert b"Traceback" not in said
