"""The templates of pages: files of our packages that jinja2 fills."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from jinja2 import Template


@cache
def page_template(package: str, name: str, shown: Callable[[Any], Any] | None = None) -> Template:
    """A template of a package; one that is named ``.html.j2`` escapes every inserted value.

    Args:
        package: The package that holds the file, as ``mmtool.evidence``.
        name: The file's name.
        shown: Makes text of each inserted value, before it is escaped.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader(package, ""),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,  # a misspelt name is an error, and no empty place in a page
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=shown,
    )
    return environment.get_template(name)
