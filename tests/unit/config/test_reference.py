"""The reference page of keys; that it is fresh is a test of the house."""

from kit.reference import generated
from mmtool.config.keys import FLOW_KEYS


def test_every_key_is_on_the_page():
    assert [name for name in FLOW_KEYS if f"`{name}`" not in generated()["config.md"]] == []


def test_the_page_says_that_settings_about_connecting_do_not_reach_the_data_path():
    page = " ".join(generated()["config.md"].split())
    assert (
        "apply to reading stored state (topics of mmtool and MirrorMaker 2) and to administration only"
        in page
    )
    assert "not to fetching and writing batches: `client.dns.lookup`" in page
