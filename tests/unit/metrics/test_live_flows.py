"""Settings of an exporter that runs for long: their credentials follow the files, their flows stay."""

import pytest

from mmtool.config import load_settings
from mmtool.config.live import Chosen, LiveFile
from mmtool.config.read_files import ReadFiles
from mmtool.metrics.server import LiveFlows

TEXT = """
clusters = a, b
a.bootstrap.servers = localhost:1
b.bootstrap.servers = localhost:2
a->b.enabled = true
a.security.protocol = SASL_PLAINTEXT
a.sasl.mechanism = PLAIN
a.sasl.username = me
"""


@pytest.fixture
def scene(tmp_path):
    path, secret, files, warned = tmp_path / "mm2.properties", tmp_path / "password", ReadFiles(), []
    secret.write_text("first")
    path.write_text(f"{TEXT}a.sasl.password = ${{directory:{tmp_path}:password}}\n")

    def load():
        files.forget()
        return Chosen(load_settings(path, {}, files).flows)

    return LiveFlows(LiveFile(path, load, files), warned.append), path, secret, warned


def looks(flows):
    for _ in range(3):
        flows.look()
    (flow,) = flows.settings
    return flow.source.security.sasl.password.get_secret_value()


def test_a_changed_secret_is_used_and_a_missing_one_is_said_once(scene):
    flows, _, secret, warned = scene
    assert looks(flows) == "first"
    secret.write_text("second")
    assert looks(flows) == "second"
    secret.unlink()
    assert (looks(flows), looks(flows), len(warned)) == ("second", "second", 1)
    assert warned[0].endswith("the old configuration stays in force")
    secret.write_text("third")
    assert (looks(flows), len(warned)) == ("third", 1)


def test_flows_that_the_file_no_longer_has_stay(scene):
    flows, path, _, _ = scene
    path.write_text(path.read_text().replace("a->b", "b->a"))
    assert looks(flows) == "first"
    assert [flow.name for flow in flows.settings] == ["a->b"]
