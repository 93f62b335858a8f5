"""The rows of ``mmtool doctor``, and the functions that find them: `flow_check` and `cluster_check` make a check.

A check is one decorated function. Its docstring is its line in ``docs/reference/doctor.md``, and its name is in the
JSON schema: `make docs` writes both.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from mmtool.errors import MmtoolError
from mmtool.plan.topics.facts import configs_hidden
from mmtool.plan.words import counted, few, have

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from mmtool.doctor.examination import ExaminedCluster, ExaminedFlow
    from mmtool.translation.types import TopicPartition

X = TypeVar("X")


class Severity(StrEnum):
    """How much a finding matters; problems make the command end with 4."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(NamedTuple):
    """One row.

    Attributes:
        check: Which check found it.
        cluster: The alias that it is about; empty where it is about a flow or this host.
        subject: What it is about: a topic, a group, a listener, a flow (``A->B``); empty for the whole cluster.
        severity: How much it matters.
        message: State and cause in one sentence.
        remedy: What to do, with the command or the key; empty for ``ok``.
    """

    check: str
    cluster: str
    subject: str
    severity: Severity
    message: str
    remedy: str = ""


# A check's rows get its name when it has run (`CheckOf.findings`).


def ok(message: str) -> Finding:
    """The row of a check that found nothing wrong with the cluster, or with the flow, that it was made for."""
    return Finding("", "", "", Severity.OK, message)


def warning(cluster: str, subject: str, message: str, remedy: str) -> Finding:
    """The row of something that may cause harm, or that could not be checked."""
    return Finding("", cluster, subject, Severity.WARNING, message, remedy)


def problem(cluster: str, subject: str, message: str, remedy: str) -> Finding:
    """The row of something that causes harm now, or will at the next failover."""
    return Finding("", cluster, subject, Severity.PROBLEM, message, remedy)


BOTH = frozenset({"source", "target"})
SOURCE = frozenset({"source"})
NEITHER: frozenset[str] = frozenset()
"""Sides that have to answer; for a check that contacts the brokers itself: it runs for unreachable clusters too."""


@dataclass(frozen=True, slots=True)
class CheckOf(Generic[X]):
    """One check.

    Attributes:
        name: As the contract has it.
        examine: Yields findings. `MmtoolError` becomes a warning.
        fine: The text of the ``ok`` row where it finds nothing; empty for a check that has a row of its own then.
        asks: The sides that have to answer.
        only: Whether it is made for a cluster or flow; it has no row otherwise.
    """

    name: str
    examine: Callable[[X], Iterable[Finding]]
    fine: str
    asks: frozenset[str]
    only: Callable[[X], bool] = lambda _: True

    def findings(self, examined: X, cluster: str, subject: str) -> list[Finding]:
        """The check's findings, at least one row; an error adds a warning to the findings before it.

        Args:
            examined: The cluster or the flow.
            cluster: The cluster's alias; empty for a flow.
            subject: The flow's name; empty for a cluster.
        """
        found: list[Finding] = []
        try:
            found.extend(self.examine(examined))
        except MmtoolError as error:
            why = f"could not be checked: {error.message}"
            found.append(warning(cluster, subject, why, error.remedy))
        return [
            one._replace(check=self.name, cluster=cluster, subject=subject)
            if one.severity is Severity.OK
            else one._replace(check=one.check or self.name)
            for one in found or [ok(self.fine)]
        ]


class ClusterCheck(CheckOf["ExaminedCluster"]):
    """A check that is made once for each cluster."""


class FlowCheck(CheckOf["ExaminedFlow"]):
    """A check that is made once for each flow."""


def cluster_check(
    name: str, fine: str = "", asks: frozenset[str] = BOTH
) -> Callable[[Callable[[ExaminedCluster], Iterable[Finding]]], ClusterCheck]:
    """Make a function the check of this name, for each cluster; arguments as in `CheckOf`."""
    return lambda examine: ClusterCheck(name, examine, fine, asks)


def flow_check(
    name: str,
    fine: str = "",
    asks: frozenset[str] = BOTH,
    only: Callable[[ExaminedFlow], bool] = lambda _: True,
) -> Callable[[Callable[[ExaminedFlow], Iterable[Finding]]], FlowCheck]:
    """Make a function the check of this name, for each flow; arguments as in `CheckOf`."""
    return lambda examine: FlowCheck(name, examine, fine, asks, only)


def unasked(cluster: str, failed: Mapping[TopicPartition, MmtoolError]) -> Iterator[Finding]:
    """A warning for each topic and reason why partitions could not be read, since no other row covers them."""
    of_reason: dict[tuple[str, str, str], list[TopicPartition]] = {}
    for place, error in sorted(failed.items()):
        of_reason.setdefault((place.topic, error.message, error.remedy), []).append(place)
    for (topic, why, remedy), places in of_reason.items():
        yield warning(cluster, topic, f"{few(places)} could not be checked: {why}", remedy)


def judge_hidden(hidden: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """A warning for each cluster about topics whose configuration it does not show, since no other row covers them."""
    for alias, topics in hidden.items():
        if topics:
            these, subject = ("this topic", topics[0]) if len(topics) == 1 else ("these topics", "")
            message = f"could not be checked: {configs_hidden(topics, alias).cause}"
            remedy = f"grant mmtool's principal DESCRIBE_CONFIGS on {these} of {alias}"
            yield warning(alias, subject, message, remedy)


MOST_ROWS = 20
"""More rows of one kind than an operator mends one by one."""


def limited(findings: Iterable[Finding]) -> list[Finding]:
    """Findings about topics, problems first; those after `MOST_ROWS` are one row that counts them."""
    found = sorted(findings, key=lambda finding: finding.severity != Severity.PROBLEM)
    rest = found[MOST_ROWS:]
    if not rest:
        return found
    others = f"{counted(len(rest), 'more topic')} {have(len(rest))} such findings"
    named = few([one.subject for one in rest], 3)
    counting = rest[0]._replace(subject="", message=f"{others} ({named}); the first: {rest[0].message}")
    return [*found[:MOST_ROWS], counting]
