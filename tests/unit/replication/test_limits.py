"""What this version cannot do is said, or refused where silence would do harm."""

from __future__ import annotations

import pytest

from mmtool.config import load_settings
from mmtool.errors import UsageError
from mmtool.replication.limits import refuse_unsupported

_BASE = """
clusters = a, b
a.bootstrap.servers = localhost:1
b.bootstrap.servers = localhost:2
a->b.enabled = true
"""
_IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
_BOTH_WAYS = "b->a.enabled = true\n"


@pytest.fixture
def flows(tmp_path):
    def of(more=""):
        path = tmp_path / "mm2.properties"
        path.write_text(_BASE + more)
        return load_settings(path, {}).flows

    return of


@pytest.mark.parametrize(
    "line",
    [
        "mmtool.on.oversize = dead-letter",
        "mmtool.origins = local",
    ],
)
def test_a_setting_that_would_be_passed_over_is_refused_by_name(flows, line):
    with pytest.raises(UsageError, match=line.split(" =", maxsplit=1)[0].replace(".", r"\.")):
        refuse_unsupported(flows(line))


def test_identical_names_both_ways_are_refused(flows):
    with pytest.raises(UsageError, match="back and forth for ever"):
        refuse_unsupported(flows(_BOTH_WAYS + _IDENTITY))


def test_identical_names_one_way_and_prefixed_names_both_ways_are_fine(flows):
    refuse_unsupported(flows(_IDENTITY))
    refuse_unsupported(flows(_BOTH_WAYS))
