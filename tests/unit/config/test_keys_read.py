"""A key that is documented has an effect: loading a file reads it."""

import pytest

from mmtool.config import load_settings
from mmtool.config.flows import FlowReader
from mmtool.config.keys import FLOW_KEYS

BASE = """
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""


@pytest.fixture
def read(tmp_path, monkeypatch):
    """The keys that are asked for while a file is loaded."""
    found, find = set(), FlowReader.find

    def note(self, name):
        found.add(name)
        return find(self, name)

    monkeypatch.setattr(FlowReader, "find", note)
    path = tmp_path / "mm2.properties"
    path.write_text(BASE)
    load_settings(path, {})
    return found


def test_every_key_of_the_table_is_read_when_a_flow_is_loaded(read):
    assert FLOW_KEYS.keys() - read == set()
