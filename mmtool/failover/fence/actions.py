"""Raise and lower a fence on the source's topics by ACLs on every broker, and prove that no producer writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from mmtool.errors import (
    GateError,
    MmtoolError,
    NotAuthorisedError,
    PartlyAppliedError,
    RefusedError,
    UnreachableError,
    is_away,
)
from mmtool.kafka.ports import NOT_ON_EVERY_BROKER, ClusterPort, FencePort, Problem
from mmtool.plain_text import shell_line, shell_word
from mmtool.plan.failover.acl_rules import Binding, acl_command
from mmtool.plan.failover.choices import FenceKind
from mmtool.plan.failover.fence_plan import ActiveProducer, FencePlan, OpenTransaction, unfenced
from mmtool.plan.words import AGAIN, ID_PLACEHOLDER, SHOWS_ID, counted, few, joined, moment, then
from mmtool.translation.types import UNKNOWN, TopicPartition, Unknown

_DENIED = "CLUSTER_AUTHORIZATION_FAILED"
_NOT_MADE = {
    _DENIED: "grant mmtool's principal ALTER on the cluster {alias}",
    NOT_ON_EVERY_BROKER: "restart that broker of {alias}, or wait until {alias} no longer lists the broker",
}
"""What to do about an ACL that a broker refuses or does not apply, by the problem's name; else `_OTHERWISE`."""
_OTHERWISE = "read the logs of the brokers of {alias}, which have the cause"


class AclsLeftError(PartlyAppliedError):
    """ACLs of an operation could not be removed; the remedy names the commands that end the operation."""


@dataclass(frozen=True, slots=True)
class AclUse:
    """How messages name some ACLs.

    Attributes:
        name: As ``the fence``.
        acls: As ``the fence's DENY ACLs``.
        one: One of them, as ``a DENY for WRITE``.
        code: How error codes begin, as ``fence``.
        is_right: The ACLs are what was asked for, so that a missing right of mmtool has the exit code for that.
        remedies: What to do about an ACL that cannot be created, by the problem's name, beside `_NOT_MADE`.
        again: The commands that remove ACLs which could not be removed.
    """

    name: str
    acls: str
    one: str
    code: str
    is_right: bool = False
    remedies: Mapping[str, str] = field(default_factory=dict)
    again: str = (
        f"remove the cause, then run `mmtool failover cancel {ID_PLACEHOLDER} -c FILE --execute`, or if offsets are"
        f" already written, `mmtool failover rollback {ID_PLACEHOLDER} -c FILE --execute`{SHOWS_ID}"
    )


@dataclass(frozen=True, slots=True)
class AclChange:
    """ACLs that an operation creates on a cluster.

    They must be in the journal before `create`: after a crash in it, `remove` removes them. A second call continues
    where the first one ended.

    Attributes:
        port: The cluster.
        acls: The rules; all of them count as created by the operation.
        use: What they are for.
    """

    port: FencePort
    acls: Collection[Binding]
    use: AclUse

    def create(self, check: Callable[[], None] = lambda: None) -> None:
        """Create the ACLs on every broker and check them, or remove those that were created and raise.

        Raises:
            RefusedError, NotAuthorisedError: An ACL could not be created, or ``check`` raises. No ACL is left.
            PartlyAppliedError: One of these, and some ACLs could not be removed; they are listed.
            UnreachableError: The cluster did not answer. It has none of the ACLs now, but may still create one that
                was requested.
        """
        try:
            self.restore()
            check()
        except BaseException as error:  # a Ctrl-C as well
            self._take_back(error)
            raise

    def restore(self) -> None:
        """Create the ACLs on every broker; those that were created stay if others fail.

        Raises:
            RefusedError, NotAuthorisedError: An ACL could not be created.
            UnreachableError: The cluster did not answer.
        """
        problems = self.port.create(self.acls)
        if problems:
            raise self._not_created(problems)

    def remove(self) -> None:
        """Remove exactly these ACLs; those that no longer exist are skipped, so a second call is harmless.

        Raises:
            PartlyAppliedError: Some could not be removed; they are listed, with the command for the first.
            UnreachableError: The cluster does not answer: all of them may still exist.
        """
        left = self.port.remove(self.acls) if self.acls else {}
        if left:
            raise self._left(left, self.use.name)

    def _take_back(self, why: BaseException) -> None:
        try:
            left: Mapping[Binding, object] = self.port.remove(self.acls) if self.acls else {}
        except MmtoolError as error:
            left = dict.fromkeys(self.acls, error)
        if left:
            raise self._left(left, f"{str(why) or 'interrupted'}; {self.use.acls}") from why
        if self.acls and is_away(why):  # without an answer, the request may be under way in the cluster
            listed = shell_line(next(iter(self.acls)).resource_words)
            raise UnreachableError(
                f"{why.message}; {self.port.alias} has none of {self.use.acls} now, but may still create them",
                remedy="list the ACLs in two minutes with `kafka-acls.sh --bootstrap-server"
                f" {shell_word(self.port.servers)} --list {listed}`; if the list has {self.use.one} that this"
                " operation created, remove that ACL",
            ) from why

    def _left(self, left: Mapping[Binding, object], what: str) -> AclsLeftError:
        first, problem = next(iter(left.items()))
        return AclsLeftError(
            f"{what} could not be removed on {self.port.alias}: {few(list(left))} may still exist ({problem})",
            remedy=f"{self.use.again}; an administrator can also remove the ACLs, the first with:"
            f" `{acl_command(first, self.port.servers)}`",
            code=f"{self.use.code}_left",
        )

    def _not_created(self, problems: Mapping[Binding, Problem]) -> MmtoolError:
        remedies, names = {**_NOT_MADE, **self.use.remedies}, [problem.name for problem in problems.values()]
        todo = joined(
            *dict.fromkeys(remedies.get(name, _OTHERWISE).format(alias=self.port.alias) for name in names)
        )
        said = few([f"{binding}: {problem}" for binding, problem in problems.items()], 3)
        kind = NotAuthorisedError if self.use.is_right and set(names) == {_DENIED} else RefusedError
        return kind(
            f"{self.use.name} on {self.port.alias} could not be set: {said}",
            remedy=todo if set(names) <= set(self.use.remedies) else then(todo),
            code=f"{self.use.code}_failed",
        )


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
    producers: tuple[ActiveProducer, ...] | Unknown

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

    writers: Mapping[TopicPartition, tuple[ActiveProducer, ...]] | Unknown
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
