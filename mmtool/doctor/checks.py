"""All checks, and how they are run: clusters first, then flows whose clusters answer.

A  every check has at least one row for each cluster or flow that it is for, unless a cluster that it reads does not
   answer: then that cluster's ``reachability`` row stands for them
B  a check that cannot be made is a warning that says why, never ``ok``; it affects its own row only
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby

from mmtool.doctor import (
    brokers,
    entrances,
    groups,
    limits,
    mirror_maker,
    retention,
    rights,
    same_offsets,
    spark,
    topics,
    transactions,
)
from mmtool.doctor.examination import ExaminedCluster, ExaminedFlow
from mmtool.doctor.finding import MOST_ROWS, ClusterCheck, Finding, FlowCheck, Severity
from mmtool.errors import GateError
from mmtool.plan.words import counted, few

_MODULES = (
    entrances,
    brokers,
    rights,
    limits,
    topics,
    same_offsets,
    retention,
    transactions,
    groups,
    spark,
    mirror_maker,
)
CHECKS = tuple(
    check
    for module in _MODULES
    for check in vars(module).values()
    if isinstance(check, ClusterCheck | FlowCheck)
)
"""All checks, in the order of their rows: each is a decorated function of one of the modules above."""
NAMES = tuple(dict.fromkeys(check.name for check in CHECKS))
_AT_ONCE = 32
_NAMED = 3
_SEVERITIES = (Severity.PROBLEM, Severity.WARNING, Severity.OK)


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
        rows: list[Finding] = []
        found = [finding for finding in self.findings if finding.severity != "ok"]
        for _, of_kind in groupby(found, key=lambda one: (one.severity, one.check, one.cluster)):
            kind = list(of_kind)
            if len(kind) > MOST_ROWS:
                message = f"{len(kind):,} times, the first: {kind[0].message} (--all shows the others)"
                subject = few([finding.subject for finding in kind], _NAMED)
                kind = [kind[0]._replace(subject=subject, message=message)]
            rows += kind
        return rows

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


def examine(clusters: Sequence[ExaminedCluster], flows: Sequence[ExaminedFlow]) -> Examination:
    """Run every check whose clusters answer, several at a time.

    Args:
        clusters: Each cluster once.
        flows: The flows between them.
    """
    first = entrances.check_reachability
    of_clusters = [check for check in CHECKS if isinstance(check, ClusterCheck) and check is not first]
    of_flows = [check for check in CHECKS if isinstance(check, FlowCheck)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        reaching = {one.alias: pool.submit(first.findings, one, one.alias, "") for one in clusters}
        jobs = [
            pool.submit(check.findings, one, one.alias, "")
            for one in clusters
            for check in of_clusters
            if not check.asks
        ]
        reached = [finding for job in reaching.values() for finding in job.result()]
        away = {finding.cluster for finding in reached if finding.severity == "problem"}
        jobs += [
            pool.submit(check.findings, one, one.alias, "")
            for one in clusters
            for check in of_clusters
            if check.asks and one.alias not in away
        ]
        for flow in flows:
            aliases = {"source": flow.settings.source.alias, "target": flow.settings.target.alias}
            jobs += [
                pool.submit(check.findings, flow, "", flow.name)
                for check in of_flows
                if check.only(flow) and away.isdisjoint(aliases[side] for side in check.asks)
            ]
        found = [*reached, *(finding for job in jobs for finding in job.result())]

    def order(finding: Finding) -> tuple[int, int, str, str]:
        severity, check = _SEVERITIES.index(finding.severity), NAMES.index(finding.check)
        return severity, check, finding.cluster, finding.subject

    return Examination(tuple(sorted(found, key=order)))
