"""The Dockerfile of ``deploy/docker``: a user without rights, no secret in a layer, and a command that mmtool has.

Its install steps are run by ``tests/integration/test_clean_install.py``.
"""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import yaml

from kit.command_tree import parsed
from kit.dockerfile import stages, values
from mmtool.metrics.server import MetricsServer

ROOT = Path(__file__).parents[3]
DOCKERFILE = ROOT / "deploy" / "docker" / "Dockerfile"
BASE = ROOT / "deploy" / "kubernetes" / "base"
BUILD, FINAL = stages(DOCKERFILE)


def last(name):
    return values(FINAL, name)[-1]


def test_the_image_holds_what_the_first_stage_installed_and_no_source():
    assert len(values(BUILD, "COPY")) == 6
    assert values(FINAL, "COPY") == ["--from=build /opt/mmtool /opt/mmtool"]


def test_each_file_that_ships_beside_the_packages_is_copied():
    """All but the manual page: an image has no reader for it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    shipped = project["tool"]["setuptools"]["data-files"]
    files = [file for folder, some in shipped.items() if not folder.startswith("share/man") for file in some]
    copied = [word for value in values(BUILD, "COPY") for word in value.split()[:-1]]
    assert [file for file in files if not any(f"{file}/".startswith(f"{one}/") for one in copied)] == []


def test_each_stage_starts_from_an_official_image_that_the_builder_may_replace():
    assert [values(stage, "FROM")[0].split()[0] for stage in (BUILD, FINAL)] == ["${PYTHON_IMAGE}"] * 2
    (image,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", image)


def test_the_process_runs_as_the_user_that_the_manifests_name():
    assert last("USER") == "10001:10001"
    assert "useradd --uid 10001" in values(FINAL, "RUN")[0]
    text = (BASE / "replicate.yaml").read_text(encoding="utf-8")
    pod = next(yaml.safe_load_all(text))["spec"]["template"]["spec"]
    assert f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" == last("USER")


def test_the_folders_that_mmtool_writes_are_volumes_of_the_pod():
    environ = " ".join(values(FINAL, "ENV"))
    assert "HOME=/var/lib/mmtool" in environ
    assert last("WORKDIR") == "/var/lib/mmtool"
    assert "mountPath: /var/lib/mmtool" in (BASE / "replicate.yaml").read_text(encoding="utf-8")


def test_mmtool_reads_the_file_that_the_pod_mounts():
    assert "MMTOOL_CONFIG=/etc/mmtool/mm2.properties" in " ".join(values(FINAL, "ENV"))
    for manifest in BASE.glob("*.yaml"):
        text = manifest.read_text(encoding="utf-8")
        assert text.count("image: mmtool\n") == text.count("mountPath: /etc/mmtool\n")
    assert (BASE.parent / "overlays" / "plain" / "mm2.properties").exists()


def test_the_java_runtime_is_a_headless_one_that_mmtool_accepts():
    assert re.search(r"--no-install-recommends default-jre-headless\b", values(FINAL, "RUN")[0])


def test_no_layer_keeps_a_secret():
    """pip's login comes as a mount, which ends with its step; and no name of a secret is set to a value."""
    assert [one.options for one in BUILD if one.name == "RUN"] == [
        ("--mount=type=secret,id=pip,target=/etc/pip.conf",)
    ] * 2
    said = " ".join(one.value for stage in (BUILD, FINAL) for one in stage if one.name in {"ARG", "ENV"})
    assert not re.search(r"(?i)password|secret|token|api_?key", said)


def test_the_default_command_is_the_one_of_the_deployment():
    assert json.loads(last("ENTRYPOINT")) == ["tini", "--", "mmtool"]
    command, image = parsed(json.loads(last("CMD")))
    text = (BASE / "replicate.yaml").read_text(encoding="utf-8")
    (container,) = next(yaml.safe_load_all(text))["spec"]["template"]["spec"]["containers"]
    podded, pod = parsed(container["args"])
    assert (command, {**image, "every": None}) == (podded, {**pod, "every": None})
    assert last("EXPOSE") == str(image["metrics_port"])


def test_the_health_check_tells_whether_the_process_works():
    _, command = last("HEALTHCHECK").split("CMD ", 1)
    assert "127.0.0.1:9464" in command
    with MetricsServer("127.0.0.1", 0, "--port") as server:
        server.serve(lambda _: (b"", ""), unready=tuple)
        words = json.loads(command.replace("127.0.0.1:9464", server.url.split("//")[1].split("/")[0]))
        assert subprocess.run(words, capture_output=True, check=False).returncode == 0
    assert subprocess.run(words, capture_output=True, check=False).returncode == 1


def test_everything_that_is_copied_passes_the_ignore_file_and_no_properties_file_does():
    lines = DOCKERFILE.with_name("Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    copied = {word for value in values(BUILD, "COPY") for word in value.split()[:-1]}
    shipped = {str(path.relative_to(ROOT)) for path in (ROOT / "mmtool").rglob("*.properties")}
    assert {rule[1:] for rule in rules if rule.startswith("!")} == copied | shipped
    assert "**/*.properties" in rules
