"""Run the checks: clusters first, then flows whose clusters answer. A failed check affects its own row only.

A  every check of `CLUSTER_CHECKS` has at least one row for each cluster, and every check of `FLOW_CHECKS` for each
   flow that it is for, unless a cluster that it reads does not answer: then that cluster's ``reachability`` row stands
   for them
B  a check that cannot be made is a warning that says why, never ``ok``
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Generic, TypeVar

from mmtool.doctor.entrances import away_error
from mmtool.doctor.finding import MOST_ROWS, Check, Finding, by_severity, ok, problem, warning
from mmtool.errors import GateError, MmtoolError, UnreachableError
from mmtool.plan.records.identity import JOURNAL_TOPIC, PRODUCERS_TOPIC
from mmtool.plan.topics.configs import Origin
from mmtool.plan.words import counted, few
from mmtool.rights.needs import Kind
from mmtool.rights.scope import resources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from concurrent.futures import Future

    from mmtool.config import ClusterSettings, FlowSettings, Settings
    from mmtool.doctor.flow_view import FlowView
    from mmtool.insight.flow_now import FlowClusters
    from mmtool.kafka.admin.cluster_details import KafkaClusterDetails
    from mmtool.kafka.ports import ClusterPort, FlowWatchPort
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.plan.topics.configs import ConfigEntry
    from mmtool.rights.needs import Side
    from mmtool.translation.types import ClusterId


_AT_ONCE = 32
_NAMED = 3
X = TypeVar("X")


@dataclass(frozen=True)
class ExaminedCluster:
    """A cluster to check.

    Attributes:
        settings: As the properties file has it.
        port: The connection to it.
        details: Its brokers' answers about themselves.
        seconds: How long one request may take.
        settings_of_file: The whole file, for checks of its content.
    """

    settings: ClusterSettings
    port: ClusterPort
    details: KafkaClusterDetails
    seconds: float
    settings_of_file: Settings

    @property
    def alias(self) -> str:
        return self.settings.alias


@dataclass(frozen=True)
class ExaminedFlow:
    """A flow to check.

    Attributes:
        settings: As the properties file has it.
        clusters: The connections to its clusters.
        watch: Its stored state.
        source, target: The brokers' answers about themselves, of each side.
        seconds: How long one request may take.
        settings_of_file: The whole file, for checks of its content.
    """

    settings: FlowSettings
    clusters: FlowClusters
    watch: FlowWatchPort
    source: KafkaClusterDetails
    target: KafkaClusterDetails
    seconds: float
    settings_of_file: Settings

    @property
    def name(self) -> str:
        return self.settings.name

    @cached_property
    def view(self) -> FlowView:
        """Both clusters' answers about the flow, each read when it is needed; no error where no topic matches."""
        from mmtool.doctor.flow_view import FlowView

        return FlowView(self.clusters, self.watch)


@dataclass(frozen=True, slots=True)
class CheckOf(Generic[X]):
    """One line of a table of checks.

    Attributes:
        check: Its name.
        examine: Yields findings; none where all is well. `MmtoolError` becomes a warning.
        fine: The text of the ``ok`` row where it finds nothing.
        asks: The sides that have to answer (``source``, ``target``); empty where none has to.
        only: Whether it is made for a cluster or flow; it has no row otherwise.
    """

    check: Check
    examine: Callable[[X], Iterable[Finding]]
    fine: str
    asks: frozenset[str] = frozenset({"source", "target"})
    only: Callable[[X], bool] = lambda _: True

    def findings(self, examined: X, cluster: str, subject: str) -> list[Finding]:
        """The check's findings, at least one row (A, B); an error adds a warning to the findings before it."""
        found: list[Finding] = []
        try:
            found.extend(self.examine(examined))
        except MmtoolError as error:
            why = f"could not be checked: {error.message}"
            return [*found, warning(self.check, cluster, subject, why, error.remedy)]
        return found or [ok(self.check, cluster, self.fine, subject)]


@dataclass(frozen=True, slots=True)
class Examination:
    """The findings of all checks.

    Attributes:
        findings: Problems first.
    """

    findings: tuple[Finding, ...] = field(default=())

    @property
    def brief(self) -> list[Finding]:
        """Problems and warnings; of a check that finds the same kind in many places of a cluster, one row for all."""
        found = [finding for finding in self.findings if finding.severity != "ok"]
        kinds = groupby(found, key=lambda one: (one.severity, one.check, one.cluster))
        return [row for _, of_kind in kinds for row in _rolled_up(list(of_kind))]

    @property
    def summary(self) -> str:
        """How many findings of each severity there are, in one line."""
        of: Counter[str] = Counter(finding.severity for finding in self.findings)
        return f"{counted(of['problem'], 'problem')}, {counted(of['warning'], 'warning')}, {of['ok']} ok"

    @property
    def error(self) -> GateError | None:
        """The error that ends the command with exit code 4; None where no finding is a problem."""
        found = [finding for finding in self.findings if finding.severity == "problem"]
        if not found:
            return None
        first = ": " if len(found) == 1 else ", the first: "
        return GateError(
            f"{counted(len(found), 'problem')}{first}{found[0].message}",
            remedy=found[0].remedy
            or "do what the remedy of each row says, then run `mmtool doctor -c FILE` again",
            code="problems_found",
        )


def _rolled_up(findings: list[Finding]) -> list[Finding]:
    """The findings of one kind; one row with the first of them in place of more than `MOST_ROWS`."""
    if len(findings) <= MOST_ROWS:
        return findings
    first, subjects = findings[0], [finding.subject for finding in findings]
    return [
        first._replace(
            subject=few(subjects, _NAMED),
            message=f"{len(findings):,} times, the first: {first.message} (--all shows the others)",
        )
    ]


def examine(
    clusters: Sequence[ExaminedCluster],
    flows: Sequence[ExaminedFlow],
    cluster_checks: Sequence[CheckOf[ExaminedCluster]],
    flow_checks: Sequence[CheckOf[ExaminedFlow]],
) -> Examination:
    """Run every check whose clusters answer, several at a time.

    Args:
        clusters: Each cluster once.
        flows: The flows between them.
        cluster_checks: Run for each cluster that answers; checks with empty ``asks`` run for every cluster.
        flow_checks: Run for each flow whose clusters answer, as far as ``asks`` names them.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        reaching = {cluster.alias: pool.submit(_reach, cluster) for cluster in clusters}
        jobs = _submit(pool, clusters, [line for line in cluster_checks if not line.asks])
        reached = {alias: job.result() for alias, job in reaching.items()}
        away = {alias for alias, finding in reached.items() if finding.severity == "problem"}
        here = [cluster for cluster in clusters if cluster.alias not in away]
        jobs += _submit(pool, here, [line for line in cluster_checks if line.asks])
        jobs += [
            pool.submit(line.findings, flow, "", flow.name)
            for flow in flows
            for line in flow_checks
            if line.only(flow) and not _asked(flow, line) & away
        ]
        found = [*reached.values(), *(finding for job in jobs for finding in job.result())]
    return Examination(tuple(sorted(found, key=by_severity)))


def _submit(
    pool: ThreadPoolExecutor,
    clusters: Iterable[ExaminedCluster],
    lines: Sequence[CheckOf[ExaminedCluster]],
) -> list[Future[list[Finding]]]:
    return [pool.submit(line.findings, cluster, cluster.alias, "") for cluster in clusters for line in lines]


def _asked(flow: ExaminedFlow, line: CheckOf[ExaminedFlow]) -> set[str]:
    sides = {"source": flow.settings.source.alias, "target": flow.settings.target.alias}
    return {sides[side] for side in line.asks}


def _reach(cluster: ExaminedCluster) -> Finding:
    """The ``reachability`` row of a cluster; listeners, authentication and certificates have rows of their own."""
    alias = cluster.alias
    try:
        found = _probe(cluster)
    except MmtoolError as error:
        check = Check.REACHABILITY if isinstance(error, UnreachableError) else Check.CLUSTER_ID
        skipped = f"checks that need {alias} were skipped"
        return problem(check, alias, "", f"{error.message}; {skipped}", error.remedy)
    return ok(Check.REACHABILITY, alias, f"cluster {alias} answers, with id {found}")


def _probe(cluster: ExaminedCluster) -> ClusterId:
    """The cluster's id. Listeners are probed first: a client retries an unreachable listener until its time is up."""
    away = away_error(cluster.alias, cluster.details.listeners())
    if away is not None:
        raise away
    return cluster.port.probe()


@dataclass(frozen=True, slots=True)
class Answer:
    """A cluster that answered, and lets mmtool in.

    Attributes:
        cluster_id: The id that its brokers report.
        brokers: How many are alive.
    """

    cluster_id: str
    brokers: int


def ask_each(clusters: Sequence[ExaminedCluster]) -> dict[str, Answer | MmtoolError]:
    """Ask all clusters at the same time; by alias, the answer or the reason why there is none."""
    with ThreadPoolExecutor(max(1, len(clusters))) as pool:
        answers = pool.map(_ask, clusters)
        return {cluster.alias: answer for cluster, answer in zip(clusters, answers, strict=True)}


def _ask(cluster: ExaminedCluster) -> Answer | MmtoolError:
    try:
        return Answer(_probe(cluster), len(cluster.details.brokers()))
    except MmtoolError as error:
        return error


def reset_by_sync(settings: FlowSettings, entries: Mapping[str, ConfigEntry]) -> frozenset[str]:
    """Properties whose overrides the config sync removes from a mirror, since the source topic has none of its own.

    Args:
        settings: The flow's settings.
        entries: The source topic's properties.
    """
    from mmtool.replication.topics.mirror_topics import config_rules

    rules = config_rules(settings)
    if not settings.sync_topic_configs or rules.defaults_from == "source":
        return frozenset()
    return frozenset(
        name
        for name, entry in entries.items()
        if entry.origin is Origin.DEFAULT and entry.carried and rules.accepts(name)
    )


def by_config_sync(mirror: str) -> str:
    """The clause that says why a property has to be set on the source topic, and not on its mirror."""
    return (
        f"config sync copies only values that are set on the source topic, and removes others from {mirror}"
    )


def own_topics(identity: FlowIdentity) -> tuple[str, ...]:
    """The names of mmtool's internal topics on the target."""
    return (identity.control_topic, identity.runs_topic, PRODUCERS_TOPIC, JOURNAL_TOPIC)


def mm2_topics(flow: ExaminedFlow, side: Side) -> tuple[str, ...]:
    """MM2's internal topics that the flow writes on one side, as the file switches them on."""
    kinds = (Kind.OFFSET_SYNCS,) if side == "source" else (Kind.OFFSET_SYNCS, Kind.CHECKPOINTS)
    return tuple(name for kind in kinds for name, _ in resources(flow.settings, side, kind))
