"""``mmtool.mirror = external``: what it needs, and what it switches off."""

import pytest

from mmtool.config import load_settings
from mmtool.errors import ConfigError

BASE = """\
clusters = a, b
a.bootstrap.servers = h1:9092
b.bootstrap.servers = h2:9092
a->b.enabled = true
mmtool.mirror = external
"""


@pytest.fixture
def settings_of(tmp_path):
    def read(more):
        path = tmp_path / "mm2.properties"
        path.write_text(BASE + more)
        return load_settings(path, {})

    return read


@pytest.fixture
def flow_of(settings_of):
    return lambda more: settings_of(more).flows[0]


def test_it_writes_neither_mirrors_nor_their_configs_and_acls(flow_of):
    flow = flow_of("mmtool.offsets = same\ntopics = orders\n")
    written = (
        flow.writes_same_offsets,
        flow.emit_offset_syncs,
        flow.sync_topic_configs,
        flow.sync_topic_acls,
    )
    mirrored = [flow.mirrors_topic(name) for name in ("orders", "heartbeats", "mmtool-canary")]
    assert (flow.is_external, written, mirrored) == (True, (False,) * 4, [True, False, False])


@pytest.mark.parametrize("more", ["", "mmtool.offsets = translated\n"])
def test_it_is_refused_without_the_sources_offsets(flow_of, more):
    with pytest.raises(
        ConfigError, match=r"mmtool\.mirror = external: expected mmtool\.offsets = same beside external"
    ):
        flow_of(more)


START, HOOK = "mmtool.start = latest\n", "mmtool.hook.promote = /bin/true\n"
BOTH_WAYS = "b->a.enabled = true\nb->a.mmtool.mirror = own\n"


@pytest.mark.parametrize(
    ("more", "keys"),
    [
        (START + HOOK, ["mmtool.start"]),
        (f"a->b.mmtool.mirror = own\n{START}{HOOK}", ["mmtool.hook.promote"]),
        (f"{BOTH_WAYS}{START}{HOOK}", []),
        (f"{BOTH_WAYS}a->b.mmtool.on.oversize = dead-letter\n", ["a->b.mmtool.on.oversize"]),
    ],
)
def test_a_key_that_no_enabled_flow_can_use_is_named(settings_of, more, keys):
    warnings = settings_of(f"mmtool.offsets = same\n{more}").warnings
    found = [said for said in warnings if "has no effect where mmtool.mirror is" in said]
    assert [said.split(": ")[1].split()[0] for said in found] == keys
