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
