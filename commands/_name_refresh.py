"""``python -m mmtool.commands._name_refresh FILE``: ask the clusters of a file for the names that TAB offers.

A process of its own, which `mmtool.commands._completion` starts: it reports nothing, and ends after a minute.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from mmtool.commands._completion import keep_operations, remember_file
from mmtool.errors import MmtoolError
from mmtool.runtime import known_names as cache

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.config import Settings
    from mmtool.kafka.ports import ClusterPort

_TIMEOUT = timedelta(seconds=10)
_LONGEST_SECONDS = 60


def refresh(config: Path) -> None:
    """Ask every cluster of the enabled flows; one that does not answer keeps its names of before.

    Raises:
        MmtoolError: The file cannot be used, or enables no flow.
    """
    from mmtool.config import load_settings
    from mmtool.failover.service.lookup import find_operations
    from mmtool.runtime.threads import Unawaited

    settings = load_settings(config, os.environ)
    remember_file(config, settings)
    with Unawaited() as pool:
        for one in [pool.submit(_ask, settings, cluster) for cluster in _clusters(settings)]:
            with suppress(MmtoolError):
                one.result()
    found, _ = find_operations(settings, settings.select(None, None), _TIMEOUT)
    keep_operations(config, found)


def _clusters(settings: Settings) -> Iterable[ClusterPort]:
    """The clusters of the enabled flows, each once."""
    from mmtool.insight.flow_now import connect

    flows = [connect(flow, _TIMEOUT) for flow in settings.flows]
    return {side.alias: side for flow in flows for side in (flow.source, flow.target)}.values()


def _ask(settings: Settings, cluster: ClusterPort) -> None:
    cluster.probe()
    from mmtool.plan.groups.facts import OWN_GROUP_PREFIX

    groups = [name for name in cluster.groups.listing().consumers if not name.startswith(OWN_GROUP_PREFIX)]
    topics = _mirrored(settings, cluster.alias, cluster.topics())
    cache.remember(settings.path, cluster.alias, groups=groups, topics=topics)


def _mirrored(settings: Settings, source: str, topics: Iterable[str]) -> list[str]:
    """The topics of a cluster that a flow from it mirrors, or would if it were enabled."""
    flows = [flow for flow in settings.all_flows if flow.source.alias == source]
    return [name for name in topics if any(flow.mirrors_topic(name) for flow in flows)]


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
