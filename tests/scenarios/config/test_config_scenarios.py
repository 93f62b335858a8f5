"""A folder per file: ``given.properties`` is read as ``expect.json`` or ``expect_failure`` says."""

import json
from pathlib import Path

import pytest

from mmtool.config import load_settings
from mmtool.errors import ConfigError

SCENARIOS = Path(__file__).parent
GOOD = sorted(path.parent.name for path in SCENARIOS.glob("*/expect.json"))
BAD = sorted(path.parent.name for path in SCENARIOS.glob("*/expect_failure"))
CANARY = "canary-5eCr3t"


@pytest.fixture
def given(monkeypatch):
    """Read a scenario's file; messages name it as ``given.properties``."""

    def read(name):
        monkeypatch.chdir(SCENARIOS / name)
        return load_settings(Path("given.properties"), {"CANARY": CANARY})

    return read


@pytest.mark.parametrize("name", GOOD)
def test_a_usable_file_gives_these_flows_and_warnings(name, given):
    settings = given(name)
    expected = json.loads((SCENARIOS / name / "expect.json").read_text())
    flows = {flow.name: json.loads(flow.model_dump_json()) for flow in settings.flows}
    seen = {flow: {key: flows[flow][key] for key in keys} for flow, keys in expected["flows"].items()}
    assert (list(flows), seen) == (list(expected["flows"]), expected["flows"])
    assert list(settings.warnings) == expected["warnings"]


@pytest.mark.parametrize("name", BAD)
def test_an_unusable_file_names_every_problem_at_once(name, given):
    with pytest.raises(ConfigError) as caught:
        given(name)
    assert caught.value.message == (SCENARIOS / name / "expect_failure").read_text().strip()
    assert CANARY not in repr(caught.value) + caught.value.message + caught.value.remedy


def test_every_scenario_expects_something():
    folders = sorted(path.parent.name for path in SCENARIOS.glob("*/given.properties"))
    assert sorted(GOOD + BAD) == folders
