"""The background collector: polls real clusters and flows continuously, so that a scrape never waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Generic, Protocol, Self, TypeVar

from mmtool import __version__
from mmtool.config import ClusterSettings, FlowSettings
from mmtool.errors import MmtoolError, UsageError, is_away, with_remedy
from mmtool.failover.operation.records import in_journal_order
from mmtool.insight.group_status import group_status
from mmtool.insight.status import WatchedFlow, watched_flow
from mmtool.kafka.admin.cluster_facts import KafkaCluster
from mmtool.kafka.state.journal import JournalReader
from mmtool.keystores.certificates import first_expiry
from mmtool.metrics import families
from mmtool.metrics.families import Level
from mmtool.metrics.samples import (
    Lines,
    Sample,
    format_of,
    lines_of,
    render,
    samples_of_flow,
    samples_of_groups,
    samples_of_operations,
)
from mmtool.plan.groups.status import summaries
from mmtool.plan.records.journal import EntryKind

_PROBE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class KafkaProbes:
    """Polls real clusters; see `mmtool.metrics.collector.Probes`.

    Attributes:
        level: How detailed the metrics are.
        seconds: How long one request may take.
    """

    level: Level
    seconds: float

    def cluster(self, settings: ClusterSettings) -> Callable[[], object]:
        return KafkaCluster(settings, min(self.seconds, _PROBE_SECONDS)).probe

    def certificates(self, settings: ClusterSettings) -> list[Sample]:
        """Samples of a cluster's certificates, from its configuration alone: no cluster is asked."""
        chains = (settings.security, *settings.role_security.values())
        texts = [chain.certificate.text.get_secret_value() for chain in chains if chain.certificate]
        found = [expires for text in texts if (expires := first_expiry(text)) is not None]
        labels = {"cluster": settings.alias}
        return [Sample(families.CERTIFICATE_EXPIRY, labels, min(found).timestamp())] if found else []

    def flow(self, settings: FlowSettings) -> Callable[[], list[Sample]]:
        flow = self._watched(settings)

        def look() -> list[Sample]:
            try:
                return samples_of_flow(flow.status(), self.level)
            except UsageError as error:
                if error.code != UsageError.code:
                    raise
                return []  # no topic is matched: there is nothing to measure yet

        return look

    def groups(self, settings: FlowSettings) -> Callable[[], list[Sample]]:
        if self.level is not Level.GROUP:
            return list
        flow = self._watched(settings)
        return lambda: samples_of_groups(_labels(settings), summaries(group_status(flow).rows))

    def operations(self, settings: FlowSettings) -> Callable[[], list[Sample]]:
        journal = JournalReader(settings.target, self.seconds, without={EntryKind.GROUP, EntryKind.OUTCOME})
        return lambda: samples_of_operations(_labels(settings), in_journal_order(journal.entries()))

    def _watched(self, settings: FlowSettings) -> WatchedFlow:
        """A flow to watch, with clients of its own: each flow is polled in a thread of its own."""
        flow = watched_flow(settings, timedelta(seconds=self.seconds))
        # the reverse flow's stored state is read as a whole each time: too much for every few seconds
        return replace(flow, clusters=replace(flow.clusters, back=None))


def _labels(settings: FlowSettings) -> dict[str, str]:
    return {"source": settings.source.alias, "target": settings.target.alias}


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
            alias: Lookout(alias, Reopened(partial(self._settings_of, alias), probes.cluster), every)
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

    def _settings_of(self, alias: str) -> ClusterSettings:
        return self._settings()[alias]

    def _lines(
        self, name: str, open_with: Callable[[FlowSettings], Callable[[], list[Sample]]]
    ) -> Callable[[], Lines]:
        ask = Reopened(lambda: next(flow for flow in self._flows() if flow.name == name), open_with)
        return lambda: lines_of(ask())

    # --- what scrapes get -----------------------------------------------------------------------------------

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """The metrics in the format that an ``Accept`` header asks for, and its content type."""
        content_type = format_of(accept)
        with self._rendering:
            state = [(look.version, look.latest is None) for look in self._lookouts()]
            if state != self._rendered_of:
                self._rendered, self._rendered_of = {}, state
            if content_type not in self._rendered:
                self._rendered[content_type] = render(self._known(), content_type)
            return self._rendered[content_type], content_type

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
        found = [Sample(families.BUILD_INFO, {"version": __version__}, 1)]
        for alias, settings in self._settings().items():
            found += self._probes.certificates(settings)
            cluster = self._clusters[alias]
            if cluster.version:
                is_up = int(cluster.latest is not None)
                found.append(Sample(families.CLUSTER_UP, {"cluster": alias}, is_up))
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


# --- poll a question in a background thread, and keep its last answer, or why there is none --------------

T = TypeVar("T")


_STALE_LOOKS = 3
_STALE_SECONDS = 30.0
_IDLE_SHARE = 20.0
"""A poll is followed by a pause of at least this many times its CPU time: at most a 20th of a core is used."""


@dataclass
class Lookout(Generic[T]):
    """Polls in a daemon thread of its own: a hung poll blocks neither other threads nor the end of the process.

    A. `latest` is the answer of the last poll, or None: a poll that failed, or that has not been answered for long,
       leaves no older answer in force.

    Attributes:
        name: What is asked, for threads and sentences.
        look: Asks; raises what keeps it from being answered.
        every: Seconds from one answer to the next question, at the least.
        say: Called with each new problem, unless a cluster does not answer, which others report.
        clock: Seconds that only go forward.
        version: How many polls have ended.
    """

    name: str
    look: Callable[[], T]
    every: float
    say: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    version: int = 0
    _said: str = ""
    _told: tuple[float, T] | None = None
    _error: str = ""
    _stopped: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._pause, self._asked_at = self.every, self.clock()

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"metrics {self.name}", daemon=True).start()

    def stop(self) -> None:
        """Stop polling; a poll in progress is not waited for."""
        self._stopped.set()

    @property
    def latest(self) -> T | None:
        """The answer of the last poll; None where it failed or is too old."""
        told = self._told
        return None if told is None or self.clock() - told[0] > self._patience else told[1]

    @property
    def _patience(self) -> float:
        return max(_STALE_LOOKS * self._pause, _STALE_SECONDS)

    @property
    def problem(self) -> str:
        """Why there is no answer; empty where there is one."""
        if self.latest is not None:
            return ""
        if self._error:
            return self._error
        seconds = self.clock() - self._asked_at
        return (
            f"a cluster has not answered for {seconds:.0f} s"
            if self._told or seconds > self._patience
            else "not asked yet"
        )

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._asked_at, used = self.clock(), time.thread_time()
            self.ask()
            self._pause = max(self.every, _IDLE_SHARE * (time.thread_time() - used))
            self._stopped.wait(self._pause)

    def ask(self) -> None:
        """Poll once, and keep the answer or the error."""
        try:
            found = self.look()
        except MmtoolError as error:
            self._told, self._error = None, error.message
            if not is_away(error):
                self._tell(with_remedy(error))
        except Exception as error:  # noqa: BLE001  whatever it is, it may pass, and metrics go on meanwhile
            self._told, self._error = None, f"{type(error).__name__}: {error}"
            self._tell(self._error)
        else:
            self._told, self._error = (self.clock(), found), ""
            self._said = ""
        self.version += 1

    def _tell(self, problem: str) -> None:
        """Report a problem once, until a poll has succeeded."""
        if problem != self._said:
            self._said = problem
            self.say(f"no metrics of {self.name}: {problem}; mmtool keeps trying")


# --- A polled question that reopens its Kafka clients when settings change, and every ten minutes --------

S = TypeVar("S")

_KEPT_SECONDS = 600.0
"""Seconds until clients are reopened, which then read a recreated internal topic from its beginning."""


@dataclass(slots=True)
class Reopened(Generic[S, T]):
    """Polls with the settings in force; opens nothing before the first poll.

    Attributes:
        settings: Those in force.
        open_with: Opens the clients, and returns the question.
        clock: Seconds that only go forward.
    """

    settings: Callable[[], S]
    open_with: Callable[[S], Callable[[], T]]
    clock: Callable[[], float] = time.monotonic
    _opened: tuple[S, float, Callable[[], T]] | None = None

    def __call__(self) -> T:
        settings, now = self.settings(), self.clock()
        opened = self._opened
        if opened is None or opened[0] is not settings or now - opened[1] > _KEPT_SECONDS:
            self._opened = opened = (settings, now, self.open_with(settings))
        return opened[2]()
