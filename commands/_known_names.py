"""Keep names that a command has read anyway, so that a shell can offer them."""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError
from mmtool.output.console import stderr_is_tty
from mmtool.runtime import known_names as cache

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from mmtool.config import Settings
    from mmtool.failover.service.lookup import FlowOperation


def remember_settings(settings: Settings) -> None:
    """Keep what a properties file says, where a person runs the command."""
    if stderr_is_tty():
        remember_file(settings.path, settings)


def remember_file(config: Path, settings: Settings) -> None:
    """Keep the aliases of a properties file, and which of them are sources of enabled flows."""
    sources = {flow.source.alias for flow in settings.flows}
    cache.remember(config, aliases=settings.clusters, sources=sources)


def remember_rows(config: Path | None, rows: Iterable[Mapping[str, object]]) -> None:
    """Keep the groups and topics of rows that name their flow: those of its source."""
    path = _path(config)
    if path is None:
        return
    seen: dict[str, dict[str, set[str]]] = defaultdict(lambda: {cache.GROUPS: set(), cache.TOPICS: set()})
    for row in rows:
        for key, kind in (("group", cache.GROUPS), ("topic", cache.TOPICS)):
            if isinstance(name := row.get(key), str):
                seen[str(row["source"])][kind].add(name)
    for alias, names in seen.items():
        cache.add(path, alias, **names)


def remember_operations(config: Path | None, found: Iterable[FlowOperation]) -> None:
    """Keep the ids of recorded operations, where a person runs the command."""
    path = _path(config)
    if path is not None:
        keep_operations(path, found)


def keep_operations(path: Path, found: Iterable[FlowOperation]) -> None:
    """Add ids of recorded operations to those that are known: a journal forgets none."""
    seen: dict[str, set[str]] = defaultdict(set)
    for one in found:
        seen[one.flow.target.alias].add(one.found.operation_id)
    for alias, ids in seen.items():
        cache.add(path, alias, operations=ids)


def _path(config: Path | None) -> Path | None:
    """The properties file, where a person runs the command: nobody presses TAB in a job."""
    from mmtool.config.load import config_path

    if stderr_is_tty():
        with suppress(MmtoolError):
            return config_path(config, os.environ)
    return None
