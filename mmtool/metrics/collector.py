"""The background collector: polls clusters and flows continuously, so that a scrape never has to.

A  a scrape sends no request to a cluster: it gets the results of the last polls
B  each cluster, and each flow, is polled by itself: an unreachable or hung one does not affect the series of others
C  while a cluster of a flow does not answer, earlier results of the flow are not shown; groups and operations need
   the target alone
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self

from mmtool import __version__
from mmtool.metrics.exposition import format_of, lines_of, render
from mmtool.metrics.lookout import Lookout
from mmtool.metrics.reopen import Reopened
from mmtool.metrics.samples import sample_of_build, sample_of_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mmtool.config import ClusterSettings, FlowSettings
    from mmtool.metrics.exposition import Lines
    from mmtool.metrics.samples import Sample

LOOK_SECONDS = 5.0
SLOW_LOOK_SECONDS = 30.0


class Probes(Protocol):
    """The functions that poll clusters and flows. Each method opens its clients and returns the function to poll."""

    def cluster(self, settings: ClusterSettings) -> Callable[[], object]:
        """A function that asks a cluster for an answer, and raises where it does not answer."""

    def certificates(self, settings: ClusterSettings) -> list[Sample]:
        """Samples of a cluster's certificates, from its configuration alone."""

    def flow(self, settings: FlowSettings) -> Callable[[], list[Sample]]:
        """A function that samples a flow's status."""

    def groups(self, settings: FlowSettings) -> Callable[[], list[Sample]]:
        """A function that samples a flow's groups, where the level has them; a lost source does not stop it."""

    def operations(self, settings: FlowSettings) -> Callable[[], list[Sample]]:
        """A function that samples a flow's failover operations, from its target."""


class Collector:
    """Polls flows and their clusters in threads of its own; a context manager.

    Args:
        flows: The settings in force now, always of the same flows.
        probes: How they are asked.
        say: Called with why a poll fails, unless a cluster does not answer.
        every: Seconds from one poll of a cluster or flow to the next.
        slow_every: The same for operations and groups, which cost more.
    """

    def __init__(
        self,
        flows: Callable[[], Sequence[FlowSettings]],
        probes: Probes,
        *,
        say: Callable[[str], None],
        every: float = LOOK_SECONDS,
        slow_every: float = SLOW_LOOK_SECONDS,
    ) -> None:
        self._flows = flows
        self._probes = probes
        self._clusters = {
            alias: Lookout(alias, Reopened(partial(self._cluster, alias), probes.cluster), every)
            for alias in self._settings()
        }
        self._looks = {
            flow.name: Lookout(flow.name, self._lines(flow.name, probes.flow), every, say) for flow in flows()
        }
        self._slow = {
            flow.name: [
                Lookout(f"{what} of {flow.name}", self._lines(flow.name, ask), slow_every, say)
                for what, ask in (("groups", probes.groups), ("operations", probes.operations))
            ]
            for flow in flows()
        }
        self._rendering = threading.Lock()
        self._rendered: dict[str, bytes] = {}
        self._rendered_of: object = None

    def __enter__(self) -> Self:
        for lookout in self._lookouts():
            lookout.start()
        return self

    def __exit__(self, *_: object) -> None:
        for lookout in self._lookouts():
            lookout.stop()

    def _lookouts(self) -> Iterator[Lookout[object]]:
        yield from self._clusters.values()
        yield from self._looks.values()  # type: ignore[misc]  # what they found does not matter here
        for some in self._slow.values():
            yield from some  # type: ignore[misc]  # likewise

    def _settings(self) -> dict[str, ClusterSettings]:
        return {side.alias: side for flow in self._flows() for side in (flow.source, flow.target)}

    def _lines(
        self, name: str, open_with: Callable[[FlowSettings], Callable[[], list[Sample]]]
    ) -> Callable[[], Lines]:
        ask = Reopened(partial(self._flow, name), open_with)
        return lambda: lines_of(ask())

    def _cluster(self, alias: str) -> ClusterSettings:
        return self._settings()[alias]

    def _flow(self, name: str) -> FlowSettings:
        return next(flow for flow in self._flows() if flow.name == name)

    # --- what scrapes get -----------------------------------------------------------------------------------

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """The metrics in the format that an ``Accept`` header asks for, and its content type."""
        wanted = format_of(accept)
        with self._rendering:
            state = self._state()
            if state != self._rendered_of:
                self._rendered, self._rendered_of = {}, state
            if wanted.content_type not in self._rendered:
                self._rendered[wanted.content_type] = render(self._known(), wanted)
            return self._rendered[wanted.content_type], wanted.content_type

    def _state(self) -> object:
        return [(look.version, look.latest is None) for look in self._lookouts()]

    def _known(self) -> Iterator[Lines]:
        """The lines of all present answers; flows of an unreachable cluster are left out."""
        yield lines_of(self._of_clusters())
        for flow in self._flows():
            if not any(self._is_away(side.alias) for side in (flow.source, flow.target)):
                yield self._looks[flow.name].latest or {}
            if not self._is_away(flow.target.alias):
                for slow in self._slow[flow.name]:
                    yield slow.latest or {}

    def _of_clusters(self) -> list[Sample]:
        found = [sample_of_build(__version__)]
        for alias, settings in self._settings().items():
            found += self._probes.certificates(settings)
            cluster = self._clusters[alias]
            if cluster.version:
                found.append(sample_of_cluster(alias, is_up=cluster.latest is not None))
        return found

    def _is_away(self, alias: str) -> bool:
        """Whether a cluster's last poll failed; False before the first poll has ended."""
        cluster = self._clusters[alias]
        return bool(cluster.version) and cluster.latest is None

    # --- readiness ------------------------------------------------------------------------------------------

    def away(self) -> list[str]:
        """The clusters that do not answer, each with the reason."""
        return [f"{alias}: {look.problem}" for alias, look in self._clusters.items() if look.problem]

    def unseen(self) -> list[str]:
        """The flows without a recent successful poll, each with the reason."""
        return [f"{name}: {look.problem}" for name, look in self._looks.items() if look.problem]
