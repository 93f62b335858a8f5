"""What TAB offers for aliases, groups, topics and operation ids: names from the cache, while a process asks."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections import defaultdict
from contextlib import redirect_stderr, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from mmtool.errors import MmtoolError
from mmtool.output.console import stderr_is_tty
from mmtool.runtime import known_names as cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mmtool.config import Settings
    from mmtool.failover.service.lookup import FlowOperation
    from mmtool.kafka.ports import ClusterPort


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


VARIABLE = "_MMTOOL_COMPLETE"
"""Set by the shell's function when it asks for completions."""

_PLAIN = re.compile(r"[\w.,@%+/][\w.,@%+/-]*", re.ASCII)
"""A name that is one word in bash, zsh and fish as it stands: not quoted, not split at a colon, and no option."""

_MOST = 1_000
_RENEW_SECONDS = 60.0


def _names(
    kind: str, otherwise: str, *options: str, newest_first: bool = False
) -> Callable[[typer.Context, str], list[str]]:
    """What TAB offers of a kind.

    Args:
        kind: Which names.
        otherwise: Whose names where no option says it: the clusters of this kind, or, if empty, the file's own.
        options: Parameters that name a cluster.
        newest_first: The order.
    """

    def offered(ctx: typer.Context, incomplete: str) -> list[str]:
        config = _config(ctx)
        if config is None:
            return []
        if _is_trusted(config) and cache.is_due(config, _RENEW_SECONDS):
            _renew(config)
        given = [one for option in options if isinstance(one := ctx.params.get(option), str) and one]
        clusters = given or (cache.known_names(config).get(otherwise, []) if otherwise else [""])
        names = {name for alias in clusters for name in cache.known_names(config, alias).get(kind, ())}
        found = [name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)]
        return sorted(found, reverse=newest_first)[:_MOST]

    return offered


aliases = _names(cache.ALIASES, "")
"""The aliases of the properties file."""
groups = _names(cache.GROUPS, cache.ALIASES, "source", "target")
"""The groups of the clusters that ``-s`` and ``-t`` name, or else of all clusters."""
topics = _names(cache.TOPICS, cache.SOURCES, "source")
"""The topics of the source: of the cluster that ``-s`` names, or else of each flow's."""
operations = _names(cache.OPERATIONS, cache.ALIASES, newest_first=True)
"""The ids of recorded operations, the newest first."""


def quietly(run: Callable[[], int]) -> int:
    """Answer a shell: whatever fails, nothing is written on stderr, and the exit code is 0."""
    if "rich" not in sys.modules:  # Typer would load it to remove markup from help, which has none
        sys.modules["rich"] = None  # type: ignore[assignment]
    with suppress(Exception), Path(os.devnull).open("w") as nowhere, redirect_stderr(nowhere):
        return run()
    return 0


def _config(ctx: typer.Context) -> Path | None:
    """The properties file of the command line, or of the environment; None without one that is there."""
    named: Any = ctx.params.get("config") or os.environ.get("MMTOOL_CONFIG", "").strip()
    path = Path(named).expanduser() if named else None
    return path if path is not None and path.is_file() else None


def _is_trusted(config: Path) -> bool:
    """Whether the file is this user's or root's: TAB sends no credentials where a file of another user says so."""
    return config.stat().st_uid in {0, os.getuid()}


def _renew(config: Path) -> None:
    """Start the process that asks the clusters; the shell does not wait for it."""
    import subprocess

    with suppress(OSError):
        subprocess.Popen(
            [sys.executable, "-P", "-m", "mmtool.commands._completion", os.path.realpath(config)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if name != VARIABLE},
        )


# --- ``python -m mmtool.commands._completion FILE``: ask the clusters of a file for the names that TAB offers --------
# A process of its own, which `_renew` starts: it reports nothing, and ends after a minute.

_TIMEOUT = timedelta(seconds=10)
_LONGEST_SECONDS = 60


def refresh(config: Path) -> None:
    """Ask every cluster of the enabled flows; one that does not answer keeps its names of before.

    Raises:
        MmtoolError: The file cannot be used, or enables no flow.
    """
    from mmtool.config import load_settings
    from mmtool.failover.service.lookup import find_operations
    from mmtool.insight.flow_now import connect
    from mmtool.runtime.threads import Unawaited

    settings = load_settings(config, os.environ)
    remember_file(config, settings)
    flows = [connect(flow, _TIMEOUT) for flow in settings.flows]
    clusters = {side.alias: side for flow in flows for side in (flow.source, flow.target)}
    with Unawaited() as pool:
        for one in [pool.submit(_ask, settings, cluster) for cluster in clusters.values()]:
            with suppress(MmtoolError):
                one.result()
    found, _ = find_operations(settings, settings.select(None, None), _TIMEOUT)
    keep_operations(config, found)


def _ask(settings: Settings, cluster: ClusterPort) -> None:
    cluster.probe()
    from mmtool.plan.groups.facts import OWN_GROUP_PREFIX

    of_groups = [name for name in cluster.groups.listing().states if not name.startswith(OWN_GROUP_PREFIX)]
    # the topics that a flow from the cluster mirrors, or would if it were enabled
    flows = [flow for flow in settings.all_flows if flow.source.alias == cluster.alias]
    mirrored = [name for name in cluster.topics() if any(flow.mirrors_topic(name) for flow in flows)]
    cache.remember(settings.path, cluster.alias, groups=of_groups, topics=mirrored)


def main() -> NoReturn:
    """Refresh the names of the file that the process is given, and end the process with exit code 0."""
    from mmtool.runtime.process import ends_after_python

    signal.alarm(_LONGEST_SECONDS)
    os.nice(10)
    with ends_after_python():  # a client of a cluster that does not answer may be left behind
        with suppress(MmtoolError):
            refresh(Path(sys.argv[1]))
        raise SystemExit(0)


if __name__ == "__main__":
    main()
