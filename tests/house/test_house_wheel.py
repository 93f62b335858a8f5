"""What ships. The two linked folders are where a build backend goes wrong without a word."""

import runpy
import subprocess
import sys
import zipfile

import pytest

from mmtool import __version__

pytestmark = pytest.mark.long

LINKS = ("mmtool/commands", "mmtool/translation")


@pytest.fixture(scope="module")
def wheel(root, tracked, tmp_path_factory):
    """A wheel of the tracked tree, links kept as links; no network, and the checkout stays as it is."""
    tree = tmp_path_factory.mktemp("tree")
    names = b"\0".join(bytes(path.relative_to(root)) for path in (*tracked, *(root / link for link in LINKS)))
    archive = subprocess.run(
        ["tar", "--null", "-C", root, "-T", "-", "-c"], check=True, capture_output=True, input=names
    ).stdout
    subprocess.run(["tar", "-C", tree, "-x"], check=True, input=archive)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(root / "deploy" / "_tools")
        runpy.run_path(str(root / "deploy" / "_tools" / "release.py"))["write_reference"](tree)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w"]
    subprocess.run([*command, tree / "dist", tree], check=True, capture_output=True)
    (built,) = (tree / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_every_module_of_the_tree_is_in_the_wheel_and_nothing_else(contents, modules, tracked):
    shipped = {name for name in contents if name.endswith(".py")}
    ours = {m.name for m in modules if m.path in set(tracked) and m.name.split(".")[0] == "mmtool"}
    assert {importable(name) for name in shipped} == ours


def importable(name):
    return name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def test_the_linked_rooms_are_real_packages(contents):
    assert {"mmtool/commands/__init__.py", "mmtool/translation/__init__.py"} <= contents


def test_every_other_file_of_a_package_is_in_the_wheel(contents, root, tracked):
    rooms = {"mmtool": "mmtool", "commands": "mmtool/commands", "translation": "mmtool/translation"}
    paths = [path.relative_to(root) for path in tracked if path.suffix != ".py"]
    ours = {f"{rooms[p.parts[0]]}/{'/'.join(p.parts[1:])}" for p in paths if p.parts[0] in rooms}
    assert ours - contents == set()


def test_nothing_generic_lands_in_site_packages(contents):
    assert {name.split("/")[0] for name in contents} == {
        "mmtool",
        f"mmtool-{__version__}.dist-info",
        f"mmtool-{__version__}.data",
    }


def test_types_completions_the_manual_page_and_the_licence_ship(contents):
    data, info = f"mmtool-{__version__}.data/data/share", f"mmtool-{__version__}.dist-info"
    expected = {
        "mmtool/py.typed",
        f"{data}/bash-completion/completions/mmtool",
        f"{data}/zsh/site-functions/_mmtool",
        f"{data}/fish/vendor_completions.d/mmtool.fish",
        f"{data}/man/man1/mmtool.1",
        f"{info}/licenses/LICENSE",
        f"{info}/entry_points.txt",
    }
    assert expected <= contents


def test_the_wheel_runs_without_the_checkout(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = "import mmtool.commands.app as app, mmtool; print(mmtool.__file__); app.main(['--version'])"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        check=True, capture_output=True, text=True, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert ran.stdout == f"{tmp_path}/mmtool/__init__.py\nmmtool {__version__}\n"


STARTED_BY_NAME = {
    "mmtool.replication.spark.archive": "make test",
    "mmtool.replication.pyspark.daemon": "Spark",
    "mmtool.lab.leash": "each broker of the lab, by its path",
    "mmtool.lab.supervisor": "mmtool lab up",
}


def test_no_module_of_the_wheel_is_used_by_tests_alone(modules, benchmarks):
    """Such a module belongs into tests/kit. Commands are named by their table."""
    shipped = [module for module in modules if module.name.startswith("mmtool.")]
    used = {name for module in [*shipped, *benchmarks] for name in module.imports}
    used |= {name.rpartition(".")[0] for name in used}
    own = {m.name for m in shipped if m.path.name not in {"__init__.py", "__main__.py"}}
    assert {name for name in own - used if not name.startswith("mmtool.commands.")} == set(STARTED_BY_NAME)
