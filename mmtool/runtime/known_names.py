"""Names that a shell's TAB offers: read from a cache at once, because a cluster may be away.

One file holds what a properties file says, and one for each of its clusters what that cluster answered last. Nothing
here is needed for anything else: a cache that cannot be read is empty, and one that cannot be written stays as it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from mmtool.runtime.files import cache_root, write_whole
from mmtool.translation.connect_offsets import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    Names = Mapping[str, list[str]]

ALIASES: Final = "aliases"
SOURCES: Final = "sources"
GROUPS: Final = "groups"
TOPICS: Final = "topics"
OPERATIONS: Final = "operations"
"""The kinds of names."""

_MOST = 20_000
"""Names of a kind that are kept for a cluster: reading more would delay every TAB."""


def known_names(config: Path, alias: str = "") -> Names:
    """The names by kind: those of a properties file, or those of one of its clusters; empty where none is known."""
    try:
        return names_in(_file(config, alias).read_bytes())
    except OSError:
        return {}


def names_in(content: bytes) -> Names:
    """The names of a file by kind; none of a damaged one."""
    try:
        found = parse_json(content)
        return {str(kind): [name for name in names if isinstance(name, str)] for kind, names in found.items()}
    except (ValueError, AttributeError, TypeError):
        return {}


def remember(config: Path, alias: str = "", **names: Iterable[str]) -> None:
    """Replace the names of some kinds, without those that are too many; the file is its owner's alone."""
    known = dict(known_names(config, alias))
    # ids of operations begin with their time: newest first
    kept = {kind: sorted(set(some), reverse=kind == OPERATIONS)[:_MOST] for kind, some in names.items()}
    now = {**known, **kept}
    if now == known:
        return
    with contextlib.suppress(OSError):
        write_whole(_file(config, alias), json.dumps(now).encode())


def add(config: Path, alias: str, **names: Iterable[str]) -> None:
    """Add names to those that are known, for a command that has seen only some."""
    known = known_names(config, alias)
    remember(config, alias, **{kind: {*known.get(kind, ()), *some} for kind, some in names.items()})


def is_due(config: Path, seconds: float) -> bool:
    """Whether the names were last asked for longer ago than this; if so, they count as asked for now."""
    tried = _file(config, "").with_suffix(".asked")
    try:
        if 0 <= time.time() - tried.stat().st_mtime < seconds:
            return False
    except OSError:
        pass
    try:
        write_whole(tried, b"")
    except OSError:
        return False
    return True


def _file(config: Path, alias: str) -> Path:
    key = f"{os.path.realpath(config)}\0{alias}".encode(errors="surrogateescape")
    return cache_root() / "names" / f"{sha256(key).hexdigest()[:32]}.json"
