"""Judge replicas of the topics that a flow writes: replication factor, min.insync.replicas, missing replicas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from mmtool.doctor.finding import Check, ok, problem, warning
from mmtool.plan.words import counted, few, have, joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mmtool.doctor.finding import Finding
    from mmtool.kafka.admin.details import TopicDetails

_ROWS = 20
_LONE = 1


class Factor(NamedTuple):
    """The replication factor of new topics.

    Attributes:
        key: The key that sets it.
        replicas: Their number; -1 leaves it to the brokers' default.
        what: Which topics.
    """

    key: str
    replicas: int
    what: str


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """The replicas on one side of a flow.

    Attributes:
        brokers: How many are there now.
        factors: Of topics that the flow creates on this side.
        in_sync: ``min.insync.replicas`` of brokers, for topics to be created; None where they do not return it.
        topics: Those of the flow on this side that exist.
        needed: Each topic's ``min.insync.replicas``, where it is known.
        is_written: The flow writes them; else it reads them.
        refuses_short: Brokers before 3.7: a topic with fewer replicas than ``min.insync.replicas`` accepts no records.
    """

    alias: str
    brokers: int
    factors: tuple[Factor, ...]
    in_sync: int | None
    topics: Mapping[str, TopicDetails]
    needed: Mapping[str, int]
    is_written: bool
    refuses_short: bool = False


def judge_replicas(sides: Iterable[ReplicaFacts], flow: str) -> Iterator[Finding]:
    """Findings about impossible or low replication factors, leaderless partitions and out-of-sync replicas."""
    found = [finding for side in sides for finding in _of_side(side)]
    yield from found or [
        ok(
            Check.REPLICATION_FACTOR,
            "",
            "every mirrored partition has a leader, and all its replicas are in sync",
            flow,
        )
    ]


def _of_side(side: ReplicaFacts) -> Iterator[Finding]:
    yield from _of_factors(side)
    yield from _limited(_offline(side))
    if side.is_written:
        yield from _limited(_too_few(side))
        yield from _lone(side)
    yield from _limited(_behind(side))


def _of_factors(side: ReplicaFacts) -> Iterator[Finding]:
    for key, replicas, what in side.factors:
        if replicas > side.brokers:
            have = counted(side.brokers, "broker")
            message = f"{key} = {replicas}, and {side.alias} has {have}: {what} cannot be created"
            remedy = f"set {key} to {side.brokers} or less, or start more brokers"
            yield problem(Check.REPLICATION_FACTOR, side.alias, key, message, remedy)
        elif side.in_sync is not None and 0 < replicas < side.in_sync:
            message = (
                f"{key} = {replicas} is below min.insync.replicas = {side.in_sync} of the brokers of {side.alias}: for"
                f" {what}, {_consequence(side, replicas)}"
            )
            remedy = f"set {key} to {side.in_sync} or more"
            yield problem(Check.REPLICATION_FACTOR, side.alias, key, message, remedy)


def _offline(side: ReplicaFacts) -> Iterator[Finding]:
    for name, topic in side.topics.items():
        lost = [n for n, one in enumerate(topic.partitions) if one.leader is None]
        if lost:
            what = "written" if side.is_written else "read"
            message = f"{_partitions(name, lost)} without a leader on {side.alias}: no record can be {what}"
            remedy = f"start the brokers of {side.alias} that hold the replicas of {name}"
            yield problem(Check.REPLICATION_FACTOR, side.alias, name, message, remedy)


def _too_few(side: ReplicaFacts) -> Iterator[Finding]:
    for name, topic in side.topics.items():
        wanted = side.needed.get(name, 1)
        short = [one for one in topic.partitions if one.leader is not None and len(one.in_sync) < wanted]
        if not short:
            continue
        have, made = min(len(one.in_sync) for one in short), min(len(one.replicas) for one in short)
        fails = (
            "writes with acks=all fail until more replicas are in sync"
            if have < made
            else _consequence(side, made)
        )
        in_sync = f"{counted(have, 'replica')} in sync of {made}"
        message = f"{name} on {side.alias} has {in_sync}, below min.insync.replicas = {wanted}: {fails}"
        remedy = (
            f"add replicas with kafka-reassign-partitions.sh, or lower min.insync.replicas of {name}"
            if made < wanted
            else f"start the brokers of {side.alias} that are down; if none is, the brokers' logs say why replicas of"
            f" {name} are out of sync"
        )
        yield problem(Check.REPLICATION_FACTOR, side.alias, name, message, remedy)


def _consequence(side: ReplicaFacts, replicas: int) -> str:
    """The consequence of fewer replicas than ``min.insync.replicas``, as a clause."""
    if side.refuses_short:
        return "brokers before Kafka 3.7 refuse every write with acks=all"
    return f"brokers accept writes with {counted(replicas, 'replica')} in sync, fewer than min.insync.replicas asks for"


def _behind(side: ReplicaFacts) -> Iterator[Finding]:
    for name, topic in side.topics.items():
        wanted = side.needed.get(name, 1) if side.is_written else 1
        behind = [
            n
            for n, one in enumerate(topic.partitions)
            if one.leader is not None and wanted <= len(one.in_sync) < len(one.replicas)
        ]
        if behind:
            message = (
                f"{_partitions(name, behind)} under-replicated on {side.alias}: if more brokers fail, partitions may"
                " have no leader"
            )
            remedy = f"check the brokers of {side.alias} whose replicas of {name} are out of sync"
            yield warning(Check.REPLICATION_FACTOR, side.alias, name, message, remedy)


def _lone(side: ReplicaFacts) -> Iterator[Finding]:
    """The finding of topics with one replica on a cluster of several brokers; one row for all topics."""
    lone = sorted(
        name
        for name, topic in side.topics.items()
        if topic.partitions and min(len(one.replicas) for one in topic.partitions) == _LONE
    )
    factors = [factor.key for factor in side.factors if factor.replicas == _LONE]
    if side.brokers > _LONE and (lone or factors):
        brokers = counted(side.brokers, "broker")
        what = (
            f"partitions of {few(lone)} have one replica"
            if lone
            else " and ".join(f"{factor} = 1" for factor in factors)
        )
        message = f"{what}, and {side.alias} has {brokers}: if one broker is lost, records are lost"
        factor = min(3, side.brokers)
        set_to = f"set {' and '.join(factors)} to {factor}" if factors else ""
        add = "add replicas to existing topics with kafka-reassign-partitions.sh" if lone else ""
        remedy = joined(set_to, add)
        yield warning(Check.REPLICATION_FACTOR, side.alias, "", message, remedy)


def _partitions(name: str, numbers: list[int]) -> str:
    listed = few([f"{name}-{number}" for number in numbers], 3)
    return f"{listed} {'is' if len(numbers) == 1 else 'are'}"


def _limited(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Findings of one kind up to the row limit, and a row that counts the others."""
    found = list(findings)
    yield from found[:_ROWS]
    if len(found) > _ROWS:
        first = found[0]
        rest = few([one.subject for one in found[_ROWS:]], 3)
        more = len(found) - _ROWS
        message = (
            f"{counted(more, 'more topic')} ({rest}) {have(more)} the same finding as {first.subject}:"
            f" {first.message}"
        )
        yield first._replace(subject="", message=message)
