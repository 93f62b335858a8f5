"""The findings of checks: the rows of ``mmtool doctor``."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from mmtool.plan.topics.facts import configs_hidden
from mmtool.plan.words import counted, few, have

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mmtool.errors import MmtoolError
    from mmtool.translation.types import TopicPartition


class Check(StrEnum):
    """The names of the checks (the contract's words)."""

    REACHABILITY = "reachability"
    LISTENERS = "listeners"
    VERSIONS = "versions"
    CLUSTER_ID = "cluster_id"
    AUTHENTICATION = "authentication"
    CERTIFICATE = "certificate"
    RIGHT = "right"
    MESSAGE_SIZE = "message_size"
    TIMESTAMPS = "timestamps"
    REPLICATION_FACTOR = "replication_factor"
    RETENTION = "retention"
    COMPACTION = "compaction"
    PARTITIONS = "partitions"
    NAMES = "names"
    LOOP = "loop"
    ASSIGN_GROUP = "assign_group"
    STREAMS_GROUP = "streams_group"
    SHARE_GROUP = "share_group"
    CONNECT_GROUP = "connect_group"
    SCHEMA_REGISTRY = "schema_registry"
    HANGING_TRANSACTION = "hanging_transaction"
    DISK = "disk"
    SAME_OFFSETS = "same_offsets"
    SPARK = "spark"
    MM2_OFFSET_LAG = "mm2_offset_lag"
    MM2_FILTERS = "mm2_filters"
    MM2_CHECKPOINTS = "mm2_checkpoints"
    MM2_SCOPE = "mm2_scope"


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

    check: Check
    cluster: str
    subject: str
    severity: Severity
    message: str
    remedy: str = ""


def ok(check: Check, cluster: str, message: str, subject: str = "") -> Finding:
    """The row of a check that found nothing wrong."""
    return Finding(check, cluster, subject, Severity.OK, message)


def warning(check: Check, cluster: str, subject: str, message: str, remedy: str) -> Finding:
    """The row of something that may cause harm, or that could not be checked."""
    return Finding(check, cluster, subject, Severity.WARNING, message, remedy)


def unasked(check: Check, cluster: str, failed: Mapping[TopicPartition, MmtoolError]) -> Iterator[Finding]:
    """A warning for each topic and reason why partitions could not be read, since no other row covers them."""
    of_reason: dict[tuple[str, str, str], list[TopicPartition]] = {}
    for place, error in sorted(failed.items()):
        of_reason.setdefault((place.topic, error.message, error.remedy), []).append(place)
    for (topic, why, remedy), places in of_reason.items():
        yield warning(check, cluster, topic, f"{few(places)} could not be checked: {why}", remedy)


def judge_hidden(check: Check, hidden: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """A warning for each cluster about topics whose configuration it does not show, since no other row covers them."""
    for alias, topics in hidden.items():
        if topics:
            these, subject = ("this topic", topics[0]) if len(topics) == 1 else ("these topics", "")
            message = f"could not be checked: {configs_hidden(topics, alias).cause}"
            remedy = f"grant mmtool's principal DESCRIBE_CONFIGS on {these} of {alias}"
            yield warning(check, alias, subject, message, remedy)


def problem(check: Check, cluster: str, subject: str, message: str, remedy: str) -> Finding:
    """The row of something that causes harm now, or will at the next failover."""
    return Finding(check, cluster, subject, Severity.PROBLEM, message, remedy)


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


_ORDER = (Severity.PROBLEM, Severity.WARNING, Severity.OK)


def by_severity(finding: Finding) -> tuple[int, int, str, str]:
    """A sort key: problems first, then the order of `Check`."""
    return (
        _ORDER.index(finding.severity),
        list(Check).index(finding.check),
        finding.cluster,
        finding.subject,
    )
