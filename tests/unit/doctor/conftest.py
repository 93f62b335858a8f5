"""One file for all judgements: two clusters and the flow between them."""

import pytest

from mmtool.config import load_settings

FILE = """
clusters = A, B
A.bootstrap.servers = localhost:1
B.bootstrap.servers = localhost:2
A->B.enabled = true
"""


@pytest.fixture
def file(tmp_path):
    """``file("A->B.topics = x")``: the settings of a file with more lines."""

    def load(*lines):
        path = tmp_path / "mm2.properties"
        path.write_text(FILE + "\n".join(lines))
        return load_settings(path, {})

    return load


@pytest.fixture
def flow(file):
    """The same of the flow ``A->B``."""
    return lambda *lines: file(*lines).one("A", "B")
