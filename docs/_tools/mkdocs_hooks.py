"""MkDocs hooks: folders in the nav, files of the repository that pages link to, and state diagrams as text.

``mkdocs.yml`` names this file. A page may link to any file under version control. On the site each of them is a page
below `REPOSITORY`, so no link needs the address of a host. What git does not track is not shown: an operator's copies
have passwords in them.
"""

from __future__ import annotations

import posixpath
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
REPOSITORY = "repository"
"""The folder of the site with files from outside of ``docs/``."""

_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)")
_CODE = re.compile(r"`[^`\n]+`")
"""Repository browsers need a backslash before a bar in a table's code; Python-Markdown shows it."""

_NOTE = re.compile(r"\A(?:<!-- .* -->\s*)+")
"""Before the heading: MkDocs takes a page's title from it only if it comes first."""

_DIAGRAM = re.compile(r"^```mermaid\nstateDiagram-v2\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TRANSITION = re.compile(r" *(\S+) --> (\S+)(?: : (.*))?")
_ENDS = "[*]"
_LANGUAGES = {".py": "python", ".yml": "yaml", ".yaml": "yaml", ".json": "json", ".toml": "toml"}


def on_config(config: MkDocsConfig) -> None:
    """Replace ``FOLDER/*`` in the nav by the other pages of the folder, and set how headings are named in links."""
    config.nav = _expanded(config.nav, {*_names(config.nav)})
    config.mdx_configs["toc"]["slugify"] = anchor_of


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages link to outside of ``docs/``, and what is linked to from there."""
    left = [file.src_uri for file in files.documentation_pages()]
    while left:
        for path in targets_of(repository_path(left.pop())):
            at = site_path(path)
            if files.get_file_from_path(at) is None and at.startswith(f"{REPOSITORY}/"):
                files.append(File.generated(config, at, content=_page_of(path)))
                left.append(at)
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Point a page's links to where their targets are on the site, and draw its state diagrams."""
    path, at = repository_path(page.file.src_uri), page.file.src_uri

    def moved(link: re.Match[str]) -> str:
        target = _target(path, link[1])
        if not _is_published(target):
            return link[1]  # the strict build names it
        return posixpath.relpath(site_path(target), posixpath.dirname(at) or ".")

    if not _has_links(path):
        return markdown
    plain = _CODE.sub(lambda code: code[0].replace(r"\|", "|"), _NOTE.sub("", markdown))
    return _DIAGRAM.sub(lambda block: f"```text\n{drawn(block[1])}\n```", _LINK.sub(moved, plain))


def drawn(diagram: str) -> str:
    """The transitions of a Mermaid state diagram as lines of text, by state.

    Repository browsers draw Mermaid; MkDocs does not, and the library that would loads megabytes from another host.
    """
    leaving: dict[str, list[tuple[str, str]]] = {}
    for state, to, event in _TRANSITION.findall(diagram):
        if _ENDS not in {state, to}:
            leaving.setdefault(state, []).append((event, to))
    wide = max(map(len, leaving))
    longest = max(len(event) for arrows in leaving.values() for event, _ in arrows)
    return "\n".join(
        f"{state if not number else '':{wide}} {fork} {event} {'─' * (longest - len(event))}──▶ {to}"
        for state, arrows in leaving.items()
        for number, ((event, to), fork) in enumerate(zip(arrows, _forks(len(arrows)), strict=True))
    )


def _forks(count: int) -> list[str]:
    """How lines that leave one state begin."""
    return ["──"] if count == 1 else ["┬─", *["├─"] * (count - 2), "└─"]


def anchor_of(heading: str, _: str) -> str:
    """The anchor of a heading as repository browsers make it, so that a link holds in both places."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def targets_of(path: str) -> Iterator[str]:
    """The files and folders that a page links to, from the root of the repository."""
    if _has_links(path):
        targets = (_target(path, link) for link in _LINK.findall(_page_of(path)))
        yield from filter(_is_published, targets)


def site_path(path: str) -> str:
    """Where a file or folder of the repository is on the site, as MkDocs names a page's source."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"{REPOSITORY}/{path}" if path.endswith(".md") else f"{REPOSITORY}/{path}.md"


def repository_path(at: str) -> str:
    """The inverse of `site_path`."""
    if not at.startswith(f"{REPOSITORY}/"):
        return f"docs/{at}"
    path = at.removeprefix(f"{REPOSITORY}/")
    return path if (ROOT / path).exists() else path.removesuffix(".md")


def _target(path: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link))


def _has_links(path: str) -> bool:
    return path.endswith(".md") or (ROOT / path).is_dir()


def _is_published(path: str) -> bool:
    """Whether a link may lead there: to a page of the documentation, or to what git tracks."""
    if not (ROOT / path).exists():
        return False
    tracked = _tracked(ROOT)
    return tracked is None or path.startswith("docs/") or path in tracked


@cache
def _tracked(root: Path) -> frozenset[str] | None:
    """The files that git tracks and their folders; None where it tracks none, as in an unpacked source distribution."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    files = [Path(name) for name in listed.stdout.split("\0") if name]
    return frozenset(one.as_posix() for file in files for one in (file, *file.parents)) or None


def _listed(folder: str) -> list[str]:
    """The names that the page of a folder shows: without git none, for nobody knows what else lies there."""
    tracked = _tracked(ROOT) or frozenset()
    names = sorted(file.name for file in (ROOT / folder).iterdir() if not file.name.startswith((".", "__")))
    return [name for name in names if posixpath.normpath(posixpath.join(folder, name)) in tracked]


def _page_of(path: str) -> str:
    """Markdown that shows a file or folder of the repository; links start from its path."""
    place = ROOT / path
    if place.is_dir():
        return "\n".join(
            [f"# {path}", "", *(f"- [{name}]({place.name}/{name})" for name in _listed(path)), ""]
        )
    text = place.read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    return f"# {path}\n\n~~~~{_LANGUAGES.get(place.suffix, 'text')}\n{text}~~~~\n"


def _names(nav: Any) -> Iterator[str]:
    """Every page that a nav names."""
    if isinstance(nav, str):
        yield nav
    else:
        for item in nav.values() if isinstance(nav, dict) else nav:
            yield from _names(item)


def _expanded(nav: Any, named: set[str]) -> Any:
    """The nav with ``FOLDER/*`` replaced by the folder's pages that are not among ``named``; without empty sections."""
    if isinstance(nav, str):
        return _pages(nav, named) if nav.endswith("/*") else [nav]
    if isinstance(nav, list):
        return [each for item in nav for each in _expanded(item, named)]
    ((title, item),) = nav.items()
    if isinstance(item, str):
        return [nav]
    return [{title: pages}] if (pages := _expanded(item, named)) else []


def _pages(folder: str, named: set[str]) -> list[str]:
    place = ROOT / "docs" / folder.removesuffix("/*")
    pages = place.glob("*.md") if folder == "./*" else place.rglob("*.md")
    return sorted({path.relative_to(ROOT / "docs").as_posix() for path in pages} - named)
