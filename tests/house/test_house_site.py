"""The documentation as a site: what `make site` writes."""

import html
import json
import re
import runpy
import subprocess
import sys
from urllib.parse import unquote

import pytest


@pytest.fixture(scope="module")
def built(root, reference, tmp_path_factory):
    """The folder of the site, and what MkDocs said while it was built."""
    to = tmp_path_factory.mktemp("site")
    line = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", root / "mkdocs.yml"]
    done = subprocess.run([*line, "--site-dir", to], capture_output=True, text=True, check=False, cwd=root)
    return to, done


@pytest.fixture(scope="module")
def pages(built):
    """The text of each page, by its path on the site."""
    site, _ = built
    return {path.relative_to(site): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}


@pytest.fixture(scope="module")
def hooks(root):
    return runpy.run_path(str(root / "docs" / "_tools" / "mkdocs_hooks.py"), run_name="site_hooks")


def addresses(text):
    return [html.unescape(found) for found in re.findall(r'\b(?:href|src)="([^"]*)"', text)]


def test_it_builds_without_a_warning(built):
    _, done = built
    warned = [line for line in done.stderr.splitlines() if not line.startswith("INFO")]
    assert (done.returncode, warned) == (0, [])


def test_every_link_leads_to_a_file_and_a_heading_of_the_site(built, pages):
    site, _ = built
    links = {(page, address) for page, text in pages.items() for address in addresses(text)}
    local = {(page, link) for page, link in links if not re.match(r"\w+:|/", link)}
    assert len(local) > 1_000
    assert sorted(f"{page}: {link}" for page, link in local if not _is_there(site, page, link, pages)) == []


def _is_there(site, page, link, pages):
    path, _, anchor = unquote(link).partition("#")
    target = (site / page.parent / path).resolve() if path else site / page
    if not target.is_file():
        return False
    text = pages.get(target.relative_to(site.resolve()) if path else page, "")
    return not anchor or f'id="{anchor}"' in text


def test_it_loads_nothing_from_another_host(pages):
    loaded = re.compile(r'<(?:link|script|img)\b[^>]*\b(?:href|src)="((?:https?:)?//[^"]*)"')
    assert sorted({found for text in pages.values() for found in loaded.findall(text)}) == []


def test_a_file_outside_of_the_documentation_is_shown_where_a_page_links_to_it(root, pages):
    at = "deploy/prometheus/mmtool.rules.yml"
    page = next(text for page, text in pages.items() if str(page) == f"repository/{at}.html")
    assert (root / at).read_text(encoding="utf-8") in html.unescape(page)


@pytest.fixture
def folder(hooks, tmp_path, monkeypatch):
    """A tree with a page that links to a folder and to both files in it."""
    (tmp_path / "overlays").mkdir()
    for name in ("example.yaml", "password"):
        (tmp_path / "overlays" / name).write_bytes(b"secret \xff" if name == "password" else b"a: 1\n")
    links = "[a](overlays) [b](overlays/example.yaml) [c](overlays/password)\n"
    (tmp_path / "README.md").write_text(links, encoding="utf-8")
    monkeypatch.setitem(hooks["_page_of"].__globals__, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    return tmp_path


def test_a_file_that_git_does_not_track_is_not_shown(hooks, folder):
    """An operator's copy of an overlay has passwords and keys beside its manifests."""
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    subprocess.run(["git", "add", "README.md", "overlays/example.yaml"], cwd=folder, check=True)
    assert [*hooks["targets_of"]("README.md")] == ["overlays", "overlays/example.yaml"]
    assert [*hooks["targets_of"]("overlays")] == ["overlays/example.yaml"]
    assert "password" not in hooks["_page_of"]("overlays")


def test_without_git_no_folder_shows_what_is_in_it(hooks, folder):
    assert "overlays/example.yaml" in [*hooks["targets_of"]("README.md")]
    assert [*hooks["targets_of"]("overlays")] == []


def test_the_title_of_a_page_is_its_heading(pages):
    heads = {
        page: re.findall(r"<title>(.*?) - mmtool</title>|<h1[^>]*>(.*?)<a", text)
        for page, text in pages.items()
    }
    both = {page: (found[0][0], found[1][1]) for page, found in heads.items() if len(found) == 2}
    assert len(both) > 90
    unlike = [page for page, (title, heading) in both.items() if title != re.sub(r"<[^>]+>", "", heading)]
    assert [str(page) for page in unlike] == ["reference/runbook-example.html"]  # its heading is a plan's


def test_the_search_finds_pages_by_what_they_say(built):
    site, _ = built
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    found = {entry["location"].partition("#")[0] for entry in index if "would_rewind" in entry["text"]}
    assert "reference/refusals.html" in found


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("Exit code 6", "exit-code-6"),
        ("From the target back - `--reverse`", "from-the-target-back-----reverse"),
        ("The group's offset, again", "the-groups-offset-again"),
    ],
)
def test_a_heading_has_the_anchor_that_a_repository_browser_gives_it(hooks, heading, anchor):
    assert hooks["anchor_of"](heading, "-") == anchor


def test_a_state_diagram_is_drawn_by_state(hooks):
    arrows = (
        "[*] --> idle",
        "idle --> running : claim",
        "running --> lost : doubt",
        "running --> idle : end",
    )
    assert hooks["drawn"]("\n".join(arrows)).splitlines() == [
        "idle    ── claim ──▶ running",
        "running ┬─ doubt ──▶ lost",
        "        └─ end ────▶ idle",
    ]


def test_no_page_shows_a_diagram_as_its_source(pages):
    assert [str(page) for page, text in pages.items() if "language-mermaid" in text] == []


def test_a_folder_in_the_nav_stands_for_its_pages_that_the_nav_does_not_name(hooks):
    nav = [{"FAQ": "faq.md"}, {"Evidence": ["evidence/*"]}]
    assert hooks["_expanded"](nav, set()) == [{"FAQ": "faq.md"}, {"Evidence": ["evidence/README.md"]}]
    assert hooks["_expanded"](nav, {"evidence/README.md"}) == [{"FAQ": "faq.md"}]
