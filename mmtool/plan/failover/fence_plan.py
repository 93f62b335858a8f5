"""A requested producer fence as data: its kind, topics and sentences; and the ACLs that stop producers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from mmtool.plain_text import shell_word
from mmtool.plan.failover.acl_rules import (
    ANY_HOST,
    EVERYBODY,
    LITERAL,
    AclFacts,
    Binding,
    bindings_of,
    or_show,
    rows_of,
)
from mmtool.plan.failover.choices import FenceKind
from mmtool.plan.failover.risks import Guard, no_authorizer
from mmtool.plan.words import few
from mmtool.translation.types import UNKNOWN, TopicPartition, Unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mmtool.plan.groups.facts import GroupFacts


_INSTEAD = (
    "stop the producers and use --fence watch; or set mmtool.hook.fence to an executable that stops them, and use"
    " --fence hook"
)
_ELSE = f"; or {_INSTEAD}"


class ActiveProducer(NamedTuple):
    """A partition leader's state of one producer with a producer id (KIP-664).

    Attributes:
        last_sequence: Unknown when its last batch was a transaction's marker.
        last_timestamp_ms: Of its last record, by the producer's clock.
        coordinator_epoch: Of the last marker; unknown outside transactions.
        open_from: The first offset of its open transaction; None when none is open.
    """

    producer_id: int
    epoch: int
    last_sequence: int | Unknown = UNKNOWN
    last_timestamp_ms: int | Unknown = UNKNOWN
    coordinator_epoch: int | Unknown = UNKNOWN
    open_from: int | None = None


class OpenTransaction(NamedTuple):
    """A transaction that is open on one partition.

    Attributes:
        open_from: Its first offset there.
        transactional_id: Unknown without DESCRIBE on it.
        since_ms: When it began, in ms since 1970; unknown likewise.
        timeout_ms: After how long its coordinator aborts it; unknown likewise.
    """

    place: TopicPartition
    producer_id: int
    open_from: int
    transactional_id: str | Unknown = UNKNOWN
    since_ms: int | Unknown = UNKNOWN
    timeout_ms: int | Unknown = UNKNOWN


class CannotTell(NamedTuple):
    """Why a fact is unknown, and what to do about it."""

    why: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class FenceFacts(AclFacts):
    """A cluster's facts about the writers of some topics; its rules are those that apply to these topics.

    Attributes:
        own_writes: Topics that mmtool itself may write (KIP-430).
        writers: Producers with a producer id, by partition, or why they are unknown. A producer without idempotence
            leaves no trace there.
    """

    topics: tuple[str, ...]
    own_writes: frozenset[str]
    writers: Mapping[TopicPartition, tuple[ActiveProducer, ...]] | CannotTell


@dataclass(frozen=True, slots=True)
class FencePlan:
    """The rules to create, and what forbids the fence.

    Invariants, checked when it is made and by hypothesis:
        A. ``User:*`` and mmtool's own principals are never denied.
        B. No deny exists already: lowering the fence leaves exactly the bindings of before.
        C. Each principal with WRITE on one of the topics is denied (now, or by an existing rule), or is named by
           a guard, or is mmtool itself, which a warning says.
        D. A deny is about one topic by its whole name, of these topics, for WRITE, from any host.

    Attributes:
        denies: The rules to create. After a crash they are the rules to remove: none of them existed when the plan was
            made.
        guards: What forbids the fence; an executable plan has none.
        warnings: What the fence does not stop: `watch_ends` finds producers that still write.
        own: mmtool's own principals, as far as they are known.
        own_writes: Topics that mmtool may write to; if it may not after the fence is up, a rule denies it by mistake.
    """

    topics: tuple[str, ...]
    denies: tuple[Binding, ...]
    guards: tuple[Guard, ...] = ()
    warnings: tuple[Guard, ...] = ()
    own: frozenset[str] = frozenset()
    own_writes: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for deny in self.denies:
            if deny.principal == EVERYBODY or deny.principal in self.own:
                raise AssertionError(f"A: {deny}")
            if deny != _deny(deny.principal, deny.name) or deny.name not in self.topics:
                raise AssertionError(f"D: {deny}")

    @property
    def executable(self) -> bool:
        return not self.guards

    @property
    def sentence(self) -> str:
        """The DENY rules in words, as a part of the fence step's sentence."""
        principals = sorted({deny.principal for deny in self.denies})
        if not self.topics:
            return "deny no principal: there is no topic to fence"
        if not principals and self.guards:
            return f"deny WRITE to the producers of {few(self.topics)}"
        if not principals:
            return (
                f"create no ACL: the existing ACLs let only mmtool and super users write {few(self.topics)}"
            )
        return f"deny WRITE to {few(principals)} on {few(sorted({deny.name for deny in self.denies}))}"


def fence_plan(facts: FenceFacts, cluster: str) -> FencePlan:
    """Plan the ACL fence of topics from their cluster's facts; ``cluster`` is its alias, for sentences."""
    topics = tuple(sorted(set(facts.topics)))
    if facts.bindings is UNKNOWN:
        guard = no_authorizer(cluster, "ACLs have no effect", _INSTEAD)
        return FencePlan(topics, (), (guard,), own=facts.own, own_writes=facts.own_writes)
    writers = unfenced(facts.bindings, topics)
    supers = frozenset() if facts.super_users is UNKNOWN else facts.super_users
    spared = {EVERYBODY} | supers | facts.own
    denies = tuple(_deny(principal, topic) for principal, topic in sorted(writers) if principal not in spared)
    _check(facts.bindings, denies, topics, spared)
    guards = _guards(facts, topics, facts.bindings, writers, cluster)
    warnings = _warnings(facts, writers, cluster)
    return FencePlan(topics, denies, tuple(guards), tuple(warnings), facts.own, facts.own_writes)


def _check(
    there: frozenset[Binding], denies: tuple[Binding, ...], topics: tuple[str, ...], spared: Collection[str]
) -> None:
    """Check invariants B and C with the existing rules, and with those that the fence adds."""
    if not there.isdisjoint(denies):
        raise AssertionError(f"B: {sorted(there.intersection(denies))}")
    missed = {who for who, _ in unfenced(there.union(denies), topics)} - set(spared)
    if missed:
        raise AssertionError(f"C: {sorted(missed)}")


def unfenced(bindings: Collection[Binding], topics: Iterable[str]) -> frozenset[tuple[str, str]]:
    """The pairs (principal, topic) that a rule allows to write and no rule denies."""
    found = set()
    for topic in topics:
        about = [binding for binding in bindings if binding.matches(topic)]
        denied = {binding.principal for binding in about if binding.takes_write}
        if EVERYBODY not in denied:
            found |= {(b.principal, topic) for b in about if b.gives_write and b.principal not in denied}
    return frozenset(found)


def _deny(principal: str, topic: str) -> Binding:
    return Binding(topic, LITERAL, principal, ANY_HOST, "WRITE", "DENY")


def _guards(
    facts: FenceFacts,
    topics: tuple[str, ...],
    bindings: frozenset[Binding],
    writers: Iterable[tuple[str, str]],
    cluster: str,
) -> Iterable[Guard]:
    of = _by_principal(writers)
    if facts.may_alter is False:
        yield Guard(
            "may_not_alter_acls",
            f"mmtool cannot create ACLs on {cluster}: it lacks ALTER on the cluster",
            f"grant ALTER on the cluster to mmtool's principal{_ELSE}",
        )
    if isinstance(facts.writers, CannotTell):
        yield Guard(
            "producers_unknown",
            f"the producers of {few(topics)} on {cluster} are unknown: {facts.writers.why}",
            facts.writers.remedy or _INSTEAD,
        )
    if EVERYBODY in of:
        yield Guard(
            "everybody_may_write",
            f"on {cluster}, an ACL for {EVERYBODY} lets every principal write {few(of[EVERYBODY])}; a DENY for"
            f" {EVERYBODY} would stop mmtool and the reverse flow as well",
            f"replace that ACL with ACLs for the producers' own principals{_ELSE}",
        )
    unruled = [topic for topic in topics if not any(binding.matches(topic) for binding in bindings)]
    if unruled and facts.allows_unruled is not False:
        yield _unruled(unruled, cluster, certain=facts.allows_unruled is True)
    if facts.super_users is not UNKNOWN:
        for principal in sorted(of.keys() & facts.super_users - facts.own):
            yield Guard(
                "super_user_writes",
                f"{principal} may write {few(of[principal])} on {cluster} and is a super user: ACLs do not apply to"
                " super users",
                f"let its producers connect as another principal{_ELSE}",
            )


def _unruled(topics: list[str], cluster: str, *, certain: bool) -> Guard:
    setting = "allow.everyone.if.no.acl.found"
    them = "it" if len(topics) == 1 else "them"
    may = (
        f"every principal may write {them} ({setting} = true)"
        if certain
        else f"if {setting} is true (mmtool cannot read it), every principal may write {them}"
    )
    return Guard(
        "everybody_may_write",
        f"no ACL on {cluster} names {few(topics)}: {may}; the fence's DENY would be the first ACL, and would lock out"
        " all other clients, consumers included",
        f"create ACLs for the producers and consumers of {few(topics)}"
        f"{'' if certain else or_show(setting, cluster)}{_ELSE}",
    )


def _warnings(facts: FenceFacts, writers: Iterable[tuple[str, str]], cluster: str) -> Iterable[Guard]:
    of = _by_principal(writers)
    for principal in sorted(of.keys() & facts.own):
        yield Guard(
            "own_principal_writes",
            f"{principal} is mmtool's own principal and keeps WRITE on {few(of[principal])} of {cluster}",
            "let no application connect as mmtool's principal",
        )
    if not facts.own_complete:
        yield Guard(
            "own_principal_unknown",
            f"{cluster} derives mmtool's principal from mmtool's certificate, so mmtool does not know it: nothing has"
            " to be done now; if the fence denies mmtool itself WRITE, mmtool lifts the fence and stops",
            "",
        )
    if facts.super_users is UNKNOWN:
        yield Guard(
            "super_users_unknown",
            f"{cluster} does not show mmtool its super users, and the fence does not stop them",
            "let no producer connect as a super user (super.users)",
        )


def _by_principal(writers: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for principal, topic in sorted(writers):
        found.setdefault(principal, []).append(topic)
    return found


WATCH_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Fence:
    """One requested fence.

    Attributes:
        topics: The fenced topics: those of the flow for which the moved groups have commits.
        rules: The DENY rules of `FenceKind.ACL`; empty for the other kinds.
        watch_seconds: How long the source's ends must stand still.
        ends: The source's log ends when they stood still with the fence up; empty before.
    """

    kind: FenceKind = FenceKind.NONE
    topics: tuple[str, ...] = ()
    rules: FencePlan = field(default_factory=lambda: FencePlan((), ()))
    watch_seconds: float = WATCH_SECONDS
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def asked_for(self) -> bool:
        return self.kind is not FenceKind.NONE

    @property
    def denies(self) -> tuple[Binding, ...]:
        return self.rules.denies


NO_FENCE = Fence()


def topics_to_fence(groups: Iterable[GroupFacts], mirrored: Iterable[str]) -> tuple[str, ...]:
    """The flow's topics for which at least one of the groups has a commit."""
    consumed = {place.topic for group in groups for place in group.commits}
    return tuple(sorted(consumed.intersection(mirrored)))


def fence_body(fence: Fence, *, stands: bool) -> dict[str, Any]:
    """A fence as JSON values: enough to raise it again, and to lower it, from the journal alone.

    Args:
        fence: The fence.
        stands: True where the fence may be up from now on, False where it is down.
    """
    return {
        "kind": fence.kind,
        "topics": list(fence.topics),
        "watch_seconds": fence.watch_seconds,
        "denies": rows_of(fence.denies),
        "own": sorted(fence.rules.own),
        "own_writes": sorted(fence.rules.own_writes),
        "ends": [[*place, end] for place, end in sorted(fence.ends.items())],
        "stands": stands,
    }


def fence_of(body: Mapping[str, Any]) -> Fence:
    """A fence from the JSON values of `fence_body`.

    Raises:
        KeyError, ValueError, TypeError: The values are not those of a fence.
    """
    topics = tuple(body["topics"])
    denies = bindings_of(body["denies"])
    try:
        rules = FencePlan(
            topics, denies, own=frozenset(body["own"]), own_writes=frozenset(body["own_writes"])
        )
    except AssertionError as error:
        raise ValueError(f"the recorded fence is invalid ({error})") from error
    ends = {TopicPartition(topic, partition): end for topic, partition, end in body["ends"]}
    return Fence(FenceKind(body["kind"]), topics, rules, body["watch_seconds"], ends)


def lowering_commands(denies: Iterable[Binding], bootstrap: str) -> list[str]:
    """The ``kafka-acls.sh`` commands that remove exactly these rules; principals with the same topics share one."""
    topics_of: dict[str, list[str]] = {}
    for deny in sorted(denies):
        topics_of.setdefault(deny.principal, []).append(deny.name)
    principals_of: dict[tuple[str, ...], list[str]] = {}
    for principal, topics in topics_of.items():
        principals_of.setdefault(tuple(topics), []).append(principal)
    return [
        " ".join(
            [
                f"kafka-acls.sh --bootstrap-server {bootstrap} --remove --force",
                *(f"--topic {shell_word(topic)}" for topic in topics),
                *(f"--deny-principal {shell_word(principal)}" for principal in principals),
                "--deny-host '*' --operation Write",
            ]
        )
        for topics, principals in principals_of.items()
    ]
