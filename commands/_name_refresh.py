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
from typing import TYPE_CHECKING

from mmtool.commands._known_names import remember_file
from mmtool.errors import MmtoolError
from mmtool.runtime import known_names as cache

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.config import FlowSettings, Settings

_TIMEOUT = timedelta(seconds=10)
_LONGEST_SECONDS = 60


def refresh(config: Path) -> None:
    """Ask every cluster of the enabled flows; one that does not answer keeps its names of before.

    Raises:
        MmtoolError: The file cannot be used.
    """
    from mmtool.config import load_settings
    from mmtool.runtime.threads import Unawaited

    settings = load_settings(config, os.environ)
    remember_file(config, settings)
    with Unawaited() as pool:
        asked = [pool.submit(_ask, config, settings, flow) for flow in settings.flows]
        for one in asked:
            with suppress(MmtoolError):
                one.result()


def _ask(config: Path, settings: Settings, flow: FlowSettings) -> None:
    from mmtool.insight.flow_now import connect

    clusters = connect(flow, _TIMEOUT)
    for cluster in (clusters.source, clusters.target):
        with suppress(MmtoolError):
            cluster.probe()
            cache.remember(
                config, cluster.alias, groups=cluster.groups.list_groups(), topics=_visible(cluster.topics())
            )
    with suppress(MmtoolError):
        _remember_operations(config, settings, flow)


def _visible(topics: Iterable[str]) -> list[str]:
    """Topics that a flow could mirror."""
    return [name for name in topics if not name.startswith("__") and not name.endswith(".internal")]


def _remember_operations(config: Path, settings: Settings, flow: FlowSettings) -> None:
    from mmtool.failover.service.lookup import find_operations

    found, _ = find_operations(settings, flow.source.alias, flow.target.alias, _TIMEOUT)
    cache.remember(config, flow.target.alias, operations=[one.found.operation_id for one in found])


if __name__ == "__main__":
    signal.alarm(_LONGEST_SECONDS)
    os.nice(10)
    with suppress(MmtoolError):
        refresh(Path(sys.argv[1]))
