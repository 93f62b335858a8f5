"""The pages about Kubernetes, systemd and releases name what is there."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from kit.command_tree import parsed
from kit.kustomize import build
from mmtool import __version__

ROOT = Path(__file__).parents[3]
HOW_TO = ROOT / "docs" / "how-to"
PAGES = [HOW_TO / "run-on-kubernetes.md", HOW_TO / "run-as-a-systemd-service.md"]
KINDS = {"deploy": "Deployment", "cronjob": "CronJob", "job": "Job"}


def typed(page):
    """The command lines of a page's shell blocks, as words."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.replace("\\\n", " ").splitlines()]


@pytest.fixture(scope="module")
def manifests():
    return build(ROOT / "deploy" / "kubernetes" / "overlays" / "plain")


def of_mmtool(words):
    """What a line types after the program: in a pod, or on a host."""
    starts = {n for n, word in enumerate(words) if word == "/opt/mmtool/bin/mmtool"}
    starts |= {n + 1 for n in range(len(words)) if words[n : n + 2] == ["--", "mmtool"]}
    starts |= {n for n, word in enumerate(words) if words[1] == "run" and word.startswith("mmtool:")}
    return words[max(starts) + 1 :] if starts else []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_mmtool_has_each_command_of_a_page(page):
    commands = [command for words in typed(page) if (command := of_mmtool(words)) not in ([], ["--version"])]
    assert commands
    assert all(parsed(command) for command in commands)


def test_each_object_that_the_page_names_is_in_the_manifests(manifests):
    named = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests}
    created = {("Job", "smoke-now")}
    words = [word for line in typed(PAGES[0]) for word in line]
    found = re.findall(r"\b(deploy|cronjob|job)/(mmtool-\w+|\w+-now)\b", " ".join(words))
    assert len(found) == 6
    assert {(KINDS[kind], name) for kind, name in found} <= named | created
    rows = re.findall(
        r"^\| (Deployment|CronJob|Service) `(\S+)`", PAGES[0].read_text(encoding="utf-8"), re.MULTILINE
    )
    assert set(rows) == {one for one in named if one[0] in {"Deployment", "CronJob", "Service"}}


def test_the_secret_of_the_page_has_the_files_that_the_example_reads(manifests):
    (text,) = [m["data"]["mm2.properties"] for m in manifests if m["kind"] == "ConfigMap"]
    read = set(re.findall(r"/run/secrets/mmtool[:/]([\w.-]+)", text))
    (create,) = [line for line in typed(PAGES[0]) if "secret" in line]
    assert {word.removeprefix("--from-file=") for word in create if word.startswith("--from-file=")} == read
    assert create[create.index("generic") + 1] == "mmtool-credentials"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_file_of_deploy_that_a_command_names_is_there(page):
    paths = [word for line in typed(page) for word in line if re.match("deploy/(?!mmtool)", word)]
    copies = {line[3] for line in typed(page) if line[:2] == ["cp", "-r"]}
    assert paths
    assert [path for path in paths if path not in copies and not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    "page", [*PAGES, HOW_TO / "install.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem
)
def test_a_page_names_this_version(page):
    found = re.findall(r"\bmmtool[-:](\d+\.\d+\.\d+)", page.read_text(encoding="utf-8"))
    assert set(found) == {__version__}


def test_the_page_lists_every_extra_that_a_user_may_want():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (HOW_TO / "install.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert sorted(listed) == sorted(set(project["optional-dependencies"]) - {"dev", "docs"})
