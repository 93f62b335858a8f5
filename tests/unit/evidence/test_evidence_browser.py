"""The pages in a real browser: both themes, on paper, and with thousands of partitions."""

import json
import re
import struct
import zlib

import pytest

from kit.browser import Browser, unpacked
from kit.debian import has_apt
from mmtool.evidence.page import page_bytes
from tests.unit.evidence.conftest import AT, compared, evidence_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not has_apt():
        pytest.skip("no apt-get here to fetch Chromium with")
    return Browser(unpacked(), tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="module")
def page(tmp_path_factory, ann):
    """2,000 partitions, two of which are not identical."""
    rows = [compared(number) for number in range(2000)]
    rows[7] = compared(7, "different", mutated=1, reason="first difference: a record has another value")
    rows[9] = compared(9, "incomplete", missing=20, topic="orders-<script>alert(1)</script>" + "x" * 120)
    path = tmp_path_factory.mktemp("page") / "evidence.html"
    path.write_bytes(page_bytes(evidence_of(rows).document(AT), ann))
    return path


def corner(png):
    """The colour of a picture's first pixel: of 8 bits a channel, with the first line's filter undone."""
    content = png.read_bytes()
    assert content[24] == 8
    channels = {2: 3, 6: 4}[content[25]]
    chunks, at = b"", 8
    while at < len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        if content[at + 4 : at + 8] == b"IDAT":
            chunks += content[at + 8 : at + 8 + length]
        at += length + 12
    return tuple(zlib.decompress(chunks)[1 : 1 + min(channels, 3)])


def test_it_is_light_and_it_is_dark(browser, page, tmp_path):
    browser.screenshot(page, tmp_path / "light.png")
    browser.screenshot(page, tmp_path / "dark.png", dark=True)
    assert corner(tmp_path / "light.png") == (255, 255, 255)
    assert max(corner(tmp_path / "dark.png")) < 40


def test_it_prints_on_a4_without_what_is_folded(browser, page, tmp_path):
    browser.print(page, tmp_path / "page.pdf")
    content = (tmp_path / "page.pdf").read_bytes()
    sizes = [
        tuple(map(float, found)) for found in re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", content)
    ]
    assert 1 <= len(sizes) <= 5
    assert all(abs(width - 595) < 2 and abs(height - 842) < 2 for width, height in sizes)


def test_the_browser_has_the_same_elements_as_were_written_and_runs_none_of_them(browser, page):
    document = browser.document(page)
    assert document.count("<script") == 1
    assert document.count("<tr>") >= 2000
    assert document.index("a record has another value") < document.index("1,998 identical partitions")


def urls(browser, page, to):
    """Without those of its maker, which the browser asks for by itself."""
    browser.network_log(page, to)
    events = json.loads(to.read_text())["events"]
    found = {str(event.get("params", {}).get("url", "")) for event in events}
    return {url for url in found if re.match(r"https?://(?![\w.-]*(google|gvt1))", url)}


def test_it_asks_nothing_of_the_network(browser, page, tmp_path):
    asking = tmp_path / "asking.html"
    asking.write_text('<img src="http://127.0.0.1:9/seen.png">')
    assert urls(browser, asking, tmp_path / "asking.json") == {"http://127.0.0.1:9/seen.png"}
    assert urls(browser, page, tmp_path / "page.json") == set()
