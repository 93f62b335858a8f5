"""``config check`` is right about files that people run MirrorMaker 2 with (tests/scenarios/config/cases).

``expected.toml`` of a folder says of each check of its file what is put right in it before, which words the errors and
the warnings of each key have, line by line, and what is said or not said beside.
"""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

CASES = Path(__file__).parents[1] / "scenarios" / "config" / "cases"
CHECKS = [
    pytest.param(folder / "given.properties", expected, id=f"{folder.name[:2]}, {expected['learns']}")
    for folder in sorted(CASES.iterdir())
    for expected in tomllib.loads((folder / "expected.toml").read_text())["checks"]
]
STORE = re.compile(r"(?m)^\s*\S+\.ssl\.(truststore|keystore)\.location\s*=\s*\S+\.(jks|pfx)\s*$|"
                   r"^\s*\S*ssl\.truststore\.(location|type)\s*=\s*(\S+\.jks|JKS)\s*$")  # fmt: skip
"""Lines about Java's stores, which are not there."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A certificate in PEM."""
    directory = tmp_path_factory.mktemp("authority")
    make = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=authority -keyout key.pem -out cert.pem"
    subprocess.run(make.split(), cwd=directory, check=True, capture_output=True)
    return str(directory / "cert.pem")


@pytest.mark.parametrize(("given", "expected"), CHECKS)
def test_a_file_is_checked_as_its_folder_says(given, expected, mmtool, authority, tmp_path):
    text = given.read_text()
    if not expected["has_stores"]:
        text = STORE.sub("", text).replace("/kafka-secrets/ca.crt", authority)
    for old, new in expected.get("put_right", {}).items():
        text = re.sub(old, new, text)
    path = tmp_path / "case.properties"
    path.write_text(text)
    ended = mmtool("config", "check", "-c", path, "-o", "json", *expected.get("options", ()))
    found = {"error": {}, "warning": {}}
    for row in ended.rows:
        found[row["severity"]].setdefault(row["key"] or "", []).append(row["message"])
    assert (ended.code, list(found["error"])) == (expected["exit"], list(expected.get("errors", {})))
    assert (ended.code == 2) == bool(json.loads(ended.stdout)["errors"])
    assert found["error"].keys().isdisjoint(found["warning"])
    for severity in ("error", "warning"):
        for key, lines in expected.get(f"{severity}s", {}).items():
            told = found[severity][key]
            missing = [words for line, words in zip(told, lines, strict=True) if not has_all(line, words)]
            assert missing == [], (key, told)
    assert [words for words in expected.get("says", ()) if words not in ended.stderr] == []
    lacks = ["changeit", *expected.get("says_not", ())]
    assert [words for words in lacks if words in ended.stdout + ended.stderr] == []


def has_all(line, words):
    return all(word in line for word in ([words] if isinstance(words, str) else words))
