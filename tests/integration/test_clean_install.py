"""What a newcomer installs, in clean environments: the steps of the Dockerfile, and the files of a release."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kit.dockerfile import stages, values
from mmtool import __version__

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
PROPERTIES = """\
clusters = east, west
east.bootstrap.servers = east-1:9092
west.bootstrap.servers = west-1:9092
east->west.enabled = true
"""


def run(*command, **how):
    ended = subprocess.run(command, capture_output=True, text=True, check=False, **how)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """The last commit, as somebody else would have it."""
    folder = tmp_path_factory.mktemp("clone") / "mmtool"
    run("git", "clone", "--quiet", ROOT, folder)
    return folder


@pytest.fixture(scope="module")
def image(clone, tmp_path_factory):
    """The folder that the image has as /opt/mmtool, made by the Dockerfile's own steps without a container."""
    build, _ = stages(clone / "deploy" / "docker" / "Dockerfile")
    root = tmp_path_factory.mktemp("image")
    (root / "src").mkdir()
    for one in build:
        if one.name == "COPY":
            *sources, destination = one.value.split()
            for source in sources:
                copy(clone / source, root / "src" / destination)
        elif one.name == "RUN":
            script = one.value.replace("/opt/mmtool", str(root / "mmtool"))
            path = f"{Path(sys.base_prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"
            run("sh", "-ec", script, cwd=root / "src", env={**os.environ, "PATH": path})
    return root / "mmtool"


def copy(source, destination):
    if source.is_dir():
        shutil.copytree(source, destination, symlinks=True)
    else:
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, destination)


@pytest.fixture
def outside(image, tmp_path):
    """Runs the image's programs elsewhere, without this checkout and without this user's files."""
    environ = {
        "PATH": f"{image}/bin{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        **{name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ},
    }
    return lambda *command: run(*command, cwd=tmp_path, env=environ)


@pytest.mark.chaos
def test_mmtool_of_the_image_runs_without_the_checkout(outside, tmp_path):
    assert outside("mmtool", "--version") == f"mmtool {__version__}\n"
    assert "replicate" in outside("mmtool", "--help")
    assert "--keep" in outside("mmtool", "demo", "--help")
    (tmp_path / "mm2.properties").write_text(PROPERTIES, encoding="utf-8")
    checked = outside("mmtool", "config", "check", "-c", "mm2.properties")
    assert checked == "mm2.properties can be used; flows: east->west\n"


@pytest.mark.chaos
def test_the_extras_of_the_image_bring_spark_connect_and_the_signer_of_msk(outside):
    imports = "import pyspark.sql.connect.session, aws_msk_iam_sasl_signer"
    assert outside("python", "-c", imports) == ""


@pytest.mark.chaos
def test_the_class_archive_of_the_image_is_made_by_its_own_step(outside, clone, tmp_path):
    _, final = stages(clone / "deploy" / "docker" / "Dockerfile")
    (step,) = [value for value in values(final, "RUN") if value.startswith("python ")]
    made = Path(outside(*step.split()).strip())
    assert made.is_relative_to(tmp_path / "cache")
    assert made.exists()


@pytest.fixture(scope="module")
def dist(clone):
    run(sys.executable, clone / "deploy" / "_tools" / "release.py")
    return clone / "dist"


@pytest.mark.chaos
def test_a_release_has_its_files_and_their_checksums(dist):
    name = f"mmtool-{__version__}"
    lines = (dist / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    sums = {file: digest for digest, file in (line.split("  ") for line in lines)}
    files = [f"{name}-py3-none-any.whl", f"{name}.cdx.json", f"{name}.licences.txt", f"{name}.tar.gz"]
    assert sorted(sums) == files
    assert sorted(path.name for path in dist.iterdir()) == ["SHA256SUMS", *files]
    assert sums == {file: hashlib.sha256((dist / file).read_bytes()).hexdigest() for file in files}


@pytest.mark.chaos
def test_the_sbom_lists_each_package_of_the_constraints_that_a_user_gets_and_no_other(dist, clone, image):
    document = json.loads((dist / f"mmtool-{__version__}.cdx.json").read_text(encoding="utf-8"))
    listed = {f"{one['name']}=={one['version']}" for one in document["components"]}
    constraints = (clone / "constraints.txt").read_text(encoding="utf-8").split()
    assert listed - set(constraints) == set()
    frozen = run(image / "bin" / "python", "-m", "pip", "freeze", "--exclude", "mmtool").split()
    assert listed == set(frozen) - {line for line in frozen if line.startswith("setuptools==")}
    (pyspark,) = (one for one in document["components"] if one["name"] == "pyspark")
    assert any(part["name"] == "log4j-core" for part in pyspark["components"])


@pytest.mark.chaos
def test_the_licences_name_no_licence_that_binds_those_who_link(dist):
    text = (dist / f"mmtool-{__version__}.licences.txt").read_text(encoding="utf-8")
    declared = {first.splitlines()[2] for first in text.split("\n\n\n") if len(first.splitlines()) > 2}
    assert "Apache License" in text
    assert [one for one in declared if "GPL" in one] == []


def refused(folder):
    tool = folder / "deploy" / "_tools" / "release.py"
    ended = subprocess.run([sys.executable, tool], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    return ended.stderr


@pytest.mark.chaos
def test_a_release_is_not_mixed_with_files_of_an_older_one(dist):
    assert refused(dist.parent) == f"error: {dist} is not empty: remove its files first\n"


def test_a_release_is_made_of_a_commit_and_not_of_files_beside_it(tmp_path):
    run("git", "clone", "--quiet", ROOT, tmp_path / "clone")
    (tmp_path / "clone" / "README.md").write_text("changed\n", encoding="utf-8")
    expected = "error: the checkout has changes: commit them first, a release is made of a commit\n"
    assert refused(tmp_path / "clone") == expected
    assert not (tmp_path / "clone" / "dist").exists()
