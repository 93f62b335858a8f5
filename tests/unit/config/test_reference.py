"""The reference page is what the key table says."""

from pathlib import Path

from mmtool.config.keys import FLOW_KEYS
from mmtool.config.reference import reference_page

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "config.md"


def test_the_page_is_fresh():
    """Otherwise: ``make docs``."""
    assert PAGE.read_text(encoding="utf-8") == reference_page()


def test_every_key_is_on_the_page():
    assert [name for name in FLOW_KEYS if f"`{name}`" not in reference_page()] == []


def test_the_page_says_that_settings_about_connecting_do_not_reach_the_data_path():
    page = " ".join(reference_page().split())
    assert (
        "apply to reading stored state (topics of mmtool and MirrorMaker 2) and to administration only"
        in page
    )
    assert "not to fetching and writing batches: `client.dns.lookup`" in page
