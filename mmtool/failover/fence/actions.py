"""Raise and lower a fence on the source's topics, and prove that no producer writes while it is up.

The order that makes the loss zero: raise the fence, wait for open transactions to end, see the log ends stand still,
mirror up to these ends. A fence lets an open transaction be committed or aborted: that takes WRITE on its
transactional id, not on the topics.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.errors import (
    GateError,
    NotAuthorisedError,
    RefusedError,
)
from mmtool.failover.fence.acl_change import AclChange, AclUse
from mmtool.plain_text import shell_word
from mmtool.plan.failover.acl_fence import unfenced
from mmtool.plan.failover.fence_plan import FenceKind
from mmtool.plan.words import AGAIN, counted, few, joined, moment, then
from mmtool.translation.known import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from mmtool.kafka.ports import ClusterPort, FencePort
    from mmtool.plan.failover.acl_fence import FencePlan, OpenTransaction, Writer
    from mmtool.plan.failover.acl_rules import Binding
    from mmtool.translation.types import TopicPartition

_LOOK_SECONDS = 0.25
_SETTLING_SECONDS = 1.0
"""For how long log ends may still move after the fence is set, in seconds.

Brokers append what they accepted before the fence; a second is ample on a healthy broker.
"""


@dataclass(frozen=True, slots=True)
class Stray:
    """A partition whose log end moved while the fence was up.

    Attributes:
        came: Records, and transaction markers, since the end last stood still; below 0 where the log was truncated.
        producers: Those with a producer id that wrote there meanwhile; brokers do not report their principals. Empty:
            the producer is not idempotent, and brokers keep no state of it.
    """

    place: TopicPartition
    came: int
    producers: tuple[Writer, ...] | Unknown

    def __str__(self) -> str:
        if self.came < 0:
            return f"{self.place} lost {counted(-self.came, 'record')} (its log was truncated)"
        if self.producers is UNKNOWN:
            who = "unknown producers"
        else:
            ids = few([f"producer id {writer.producer_id}" for writer in self.producers], 3)
            who = ids or "a producer without idempotence"
        return f"{counted(self.came, 'record')} in {self.place} (by {who})"


_PAST_THE_FENCE = {
    FenceKind.ACL: "an ACL fence does not stop super users, principals without an ACL of their own, or mmtool's"
    " principal",
    FenceKind.HOOK: "correct mmtool.hook.fence, which did not stop them",
}


class StrayProducersError(GateError):
    """A log end moves: a producer still writes, or a log was truncated. The fence has to be lowered.

    Attributes:
        strays: The partitions, how many records came, and from which producers.
    """

    code = "stray_producers"

    def __init__(self, alias: str, strays: tuple[Stray, ...], kind: FenceKind) -> None:
        came, lost = any(one.came > 0 for one in strays), any(one.came < 0 for one in strays)
        stop = joined("stop these producers", _PAST_THE_FENCE.get(kind, "")) if came else ""
        wait = (
            f"wait until the replicas of these partitions on {alias} are in sync: `kafka-topics.sh --describe"
            " --under-replicated-partitions` then lists none of them"
        )
        super().__init__(
            f"log ends on {alias} still move: {few(strays)}", remedy=then(joined(stop, wait if lost else ""))
        )
        self.strays = strays


def raise_fence(port: FencePort, plan: FencePlan) -> tuple[Binding, ...]:
    """Create the planned DENY ACLs on every broker, or remove those that were created and raise.

    The plan's ``denies`` must be in the journal before the call: after a crash in it, `lower_fence` removes them. A
    second call with the same plan continues where the first one ended.

    Returns:
        The DENY ACLs that now exist, for `lower_fence`.

    Raises:
        RefusedError: The plan has guards, an ACL could not be created, a principal was granted WRITE since the plan was
            made, or the fence denies mmtool itself WRITE. No DENY ACL is left.
        PartlyAppliedError: One of these, and some DENY ACLs could not be removed; they are listed.
        UnreachableError: The cluster did not answer. It has none of the DENY ACLs now, but may still create one that
            was requested.
    """
    if plan.guards:
        remedies = dict.fromkeys(guard.remedy for guard in plan.guards)
        said = joined(*(guard.sentence for guard in plan.guards))
        raise RefusedError(said, remedy=joined(*remedies), code=plan.guards[0].code)
    AclChange(port, plan.denies, _FENCE).create(lambda: _check(port, plan))
    return plan.denies


def lower_fence(port: FencePort, created: Collection[Binding]) -> None:
    """Remove exactly these DENY ACLs; those that no longer exist are skipped, so a second call is harmless.

    Raises:
        PartlyAppliedError: Some could not be removed; they are listed, with the kafka-acls.sh command for the first.
        UnreachableError: The cluster does not answer: all of them may still exist.
    """
    AclChange(port, created, _FENCE).remove()


_FENCE = AclUse(
    "the fence",
    "the fence's DENY ACLs",
    "a DENY for WRITE",
    "fence",
    remedies={
        "SECURITY_DISABLED": "start a new failover with --fence hook or --fence watch: the brokers have no authorizer"
    },
)


def _check(port: FencePort, plan: FencePlan) -> None:
    """Raise if a principal can write past the fence, or if the fence denies mmtool itself WRITE."""
    writers = unfenced(port.bindings(plan.topics), plan.topics)
    missed = sorted(f"{who} may write {topic}" for who, topic in writers if who not in plan.own)
    if missed:
        raise RefusedError(
            f"ACLs on {port.alias} have changed since the fence was planned: {few(missed)}",
            remedy="run the same command again: it plans the fence from the present ACLs",
            code="fence_stale",
        )
    lost = plan.own_writes - port.own_writes(plan.topics)
    if lost:
        denied = sorted({deny.principal for deny in plan.denies})
        raise RefusedError(
            f"the fence on {port.alias} denies mmtool itself WRITE on {few(sorted(lost))}:"
            f" mmtool's principal is one of {few(denied)}",
            remedy=f"let mmtool connect to {port.alias} as a principal that no producer uses, or use --fence hook or"
            " --fence watch",
            code="own_principal_denied",
        )


def await_transactions(
    port: FencePort,
    places: Collection[TopicPartition],
    seconds: float,
    *,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Wait until no open transaction has records in these partitions; poll the cluster's open transactions.

    Raises:
        GateError: Some are still open after ``seconds``; they are listed.
        UnreachableError, NotAuthorisedError, RefusedError: The cluster does not show its open transactions.
    """
    deadline = clock() + seconds
    while still_open := port.open_transactions(places):
        if clock() >= deadline:
            first, servers = still_open[0], shell_word(port.servers)
            place = f"--topic {shell_word(first.place.topic)} --partition {first.place.partition}"
            raise GateError(
                f"{counted(len(still_open), 'transaction')} on {port.alias} did not end within {seconds:g} s:"
                f" {few([_open(one) for one in still_open])}",
                remedy="let the producers commit or abort; if a producer is gone, wait for its transaction.timeout.ms,"
                " or abort its transaction, the first with: `kafka-transactions.sh"
                f" --bootstrap-server {servers} abort {place} --start-offset {first.open_from}`; then {AGAIN}",
                code="open_transactions",
            )
        pause(_LOOK_SECONDS)


def _open(one: OpenTransaction) -> str:
    name = "" if one.transactional_id is UNKNOWN else f" ({one.transactional_id})"
    since = "" if one.since_ms is UNKNOWN else f" since {moment(one.since_ms)}"
    return f"producer id {one.producer_id}{name} in {one.place} from offset {one.open_from}{since}"


def watch_ends(
    cluster: ClusterPort,
    port: FencePort,
    places: Collection[TopicPartition],
    seconds: float = 2.0,
    pause: Callable[[float], None] = time.sleep,
    *,
    kind: FenceKind = FenceKind.WATCH,
) -> dict[TopicPartition, int]:
    """Return the partitions' log ends once they have not moved for ``seconds``.

    These are log ends, not last stable offsets: records of open transactions count. An end that moves within the first
    second restarts the wait: brokers accepted those records before the fence. ``kind`` is for the error's remedy.

    Raises:
        StrayProducersError: An end moves after the first second.
        RefusedError: A partition no longer exists.
        UnreachableError: The cluster does not answer.
    """
    seen = _look(cluster, port, places)
    waited = still = 0.0
    while still < seconds:
        pause(_LOOK_SECONDS)
        waited, still = waited + _LOOK_SECONDS, still + _LOOK_SECONDS
        now = _ends(cluster, places)
        if now == seen.ends:
            continue
        if waited > _SETTLING_SECONDS:
            raise StrayProducersError(cluster.alias, _strays(port, seen, now), kind)
        seen, still = _look(cluster, port, places), 0.0
    return seen.ends


@dataclass(frozen=True, slots=True)
class _Seen:
    """Log ends, and the producers that had written before the ends were read."""

    writers: Mapping[TopicPartition, tuple[Writer, ...]] | Unknown
    ends: dict[TopicPartition, int]


def _look(cluster: ClusterPort, port: FencePort, places: Collection[TopicPartition]) -> _Seen:
    try:
        return _Seen(port.writers(places), _ends(cluster, places))
    except (NotAuthorisedError, RefusedError):  # the ends can be watched all the same
        return _Seen(UNKNOWN, _ends(cluster, places))


def _ends(cluster: ClusterPort, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    found = cluster.bounds(places)
    gone = sorted(set(places) - found.keys())
    if gone:
        raise RefusedError(
            f"{few(gone)} no longer {'exists' if len(gone) == 1 else 'exist'} on {cluster.alias}: mmtool cannot check"
            f" that no producer writes to {'it' if len(gone) == 1 else 'them'}",
            remedy="find out who deleted or recreated the topic; then run the same command again: it plans with"
            f" the topics and partitions that {cluster.alias} then has",
        )
    return {place: bounds.log_end for place, bounds in found.items()}


def _strays(port: FencePort, seen: _Seen, now: Mapping[TopicPartition, int]) -> tuple[Stray, ...]:
    moved = {place: now[place] - end for place, end in sorted(seen.ends.items()) if now[place] != end}
    if seen.writers is UNKNOWN:
        return tuple(Stray(place, came, UNKNOWN) for place, came in moved.items())
    writers, before = port.writers(moved), seen.writers
    return tuple(
        Stray(place, came, tuple(writer for writer in writers[place] if writer not in before[place]))
        for place, came in moved.items()
    )
