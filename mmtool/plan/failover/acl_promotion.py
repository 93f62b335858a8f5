"""Promotion: give the producers of topics on the destination the rights, under their names there, that they have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mmtool.plan.failover.acl_rules import (
    ANY_HOST,
    CLUSTER,
    EVERY_TOPIC,
    EVERYBODY,
    LITERAL,
    PREFIXED,
    TOPIC,
    TRANSACTIONAL_ID,
    AclFacts,
    AclRow,
    Binding,
    bindings_of,
    or_show,
    rows_of,
)
from mmtool.plan.failover.risks import Guard, no_authorizer
from mmtool.plan.groups.names import csv_rows
from mmtool.plan.words import Names, are, counted, few, joined
from mmtool.translation.types import UNKNOWN

_HEADER = ["source_principal", "target_principal"]


@dataclass(frozen=True, slots=True)
class PrincipalMap:
    """The names of principals on the target; principals that are not named keep theirs.

    Attributes:
        names: By the name on the source; an empty name stands for a principal that is not promoted.
    """

    names: Mapping[str, str] = field(default_factory=dict)

    def of(self, principal: str) -> str | None:
        """The principal's name on the target; None if it is not promoted."""
        return self.names.get(principal, principal) or None


SAME_NAMES = PrincipalMap()


def read_principal_map(lines: Iterable[str]) -> PrincipalMap:
    """Read a map from CSV: two columns, the source's principal and the target's; a header may name them.

    Raises:
        ValueError: A line is not of that form, or a principal is named twice; the message has the line's number.
    """
    names: dict[str, str] = {}
    for number, cells in csv_rows(lines):
        if not (number == 1 and cells == _HEADER):
            here, there = _pair(cells, number, names)
            names[here] = there
    return PrincipalMap(names)


def _pair(cells: list[str], line: int, names: Mapping[str, str]) -> tuple[str, str]:
    if len(cells) != len(_HEADER):
        raise ValueError(f"line {line} has {counted(len(cells), 'column')} instead of 2")
    here, there = cells
    for name in (here, there or here):
        kind, _, rest = name.partition(":")
        if not (kind and rest):
            raise ValueError(f"line {line}: {name!r} is not a principal such as User:app")
    if here in names:
        raise ValueError(f"line {line}: {here} is named twice")
    if EVERYBODY in {here, there} and there not in {"", here}:
        raise ValueError(f"line {line}: {EVERYBODY} cannot be renamed, and no principal can become it")
    return here, there


_GIVEN_BY = {
    "WRITE": {"WRITE", "ALL"},
    "DESCRIBE": {"DESCRIBE", "READ", "WRITE", "DELETE", "ALTER", "ALL"},
    "IDEMPOTENT_WRITE": {"IDEMPOTENT_WRITE", "ALL"},
}
"""For each promoted operation, the operations whose ALLOW gives it (Kafka's authorizer)."""
_TAKEN_BY = {
    "WRITE": {"WRITE", "DESCRIBE", "ALL"},
    "DESCRIBE": {"DESCRIBE", "ALL"},
    "IDEMPOTENT_WRITE": {"IDEMPOTENT_WRITE", "ALL"},
}
"""The operations whose DENY takes it; WRITE implies DESCRIBE, so that a DENY of that takes a part of it."""
_BESIDE = {TRANSACTIONAL_ID: ("WRITE", "DESCRIBE"), CLUSTER: ("IDEMPOTENT_WRITE",)}
"""What producers need beside WRITE on topics, by kind of resource."""
_WITHOUT = "leave out --promote-acls"


@dataclass(frozen=True, slots=True)
class Promotion:
    """ACLs of producers that an operation creates on the flow's target, or that a failback removes there.

    Attributes:
        is_asked_for: Whether the operation has the step.
        acls: The rules to create, of which none exists; in a failback the rules to remove, which all exist.
        withdraws: A failback's: its step removes the rules, and undoing the step creates them again.
        guards: What forbids it; an executable plan has none.
        warnings: Rights that are not copied, or that have no effect.
        topics: The topics whose producers it is about.
        renamed: The principals' names on the target.
    """

    is_asked_for: bool = False
    acls: tuple[Binding, ...] = ()
    withdraws: bool = False
    guards: tuple[Guard, ...] = ()
    warnings: tuple[Guard, ...] = ()
    topics: tuple[str, ...] = ()
    renamed: PrincipalMap = SAME_NAMES

    def sentence(self, names: Names) -> str:
        """The step's sentence."""
        on = names.target
        if not self.acls:
            topics = few(self.topics)
            if not topics:
                return f"create no ACL on {on}: these groups have no commit in a topic of {names.flow}"
            if self.guards:
                return f"create WRITE ACLs on {on} for the producers that write to {topics}"
            return (
                f"create no ACL on {on}: {on} lacks no right to write {topics} that can be copied from"
                f" {names.source}"
            )
        if self.withdraws:
            created = f"the ACLs that an earlier failover created for {few(self.granted_to)}"
            after = "without other ACLs, these producers can then no longer write there"
            return f"on {on}, remove {created}: {self._rights}; {after}"
        return f"on {on}, create ACLs for {few(self.granted_to)}: {self._rights}"

    @property
    def granted_to(self) -> list[str]:
        return sorted({acl.principal for acl in self.acls})

    @property
    def granted_on(self) -> list[str]:
        """The topics among its rules."""
        return sorted({acl.name for acl in self.acls if acl.resource == TOPIC})

    @property
    def _rights(self) -> str:
        beside = sum(acl.resource == TRANSACTIONAL_ID for acl in self.acls)
        return joined(
            f"WRITE on {few(self.granted_on)}" if self.granted_on else "",
            counted(beside, "right") + " on transactional ids" if beside else "",
            "IDEMPOTENT_WRITE on the cluster" if any(acl.resource == CLUSTER for acl in self.acls) else "",
        )

    @property
    def warned(self) -> tuple[str, ...]:
        """The warnings as sentences."""
        return tuple(map(str, self.warnings))

    @property
    def described(self) -> list[AclRow]:
        """The rules as objects of the output contract."""
        return [acl.described for acl in self.acls]

    def with_standing(self, standing: Promotion | None) -> Promotion:
        """The promotion with the rules that the journal of the resumed operation has: they may exist already."""
        if standing is None:
            return self
        return replace(self, acls=tuple(sorted({*self.acls, *standing.acls})))


NO_PROMOTION = Promotion()


def promotion_body(promotion: Promotion, *, stands: bool) -> dict[str, Any]:
    """A promotion as JSON values: enough to do it again, and to undo it, from the journal alone.

    Args:
        promotion: The promotion.
        stands: True where its change may be in force from now on, False where it is undone.
    """
    return {"acls": rows_of(promotion.acls), "withdraws": promotion.withdraws, "stands": stands}


def promotion_of(body: Mapping[str, Any]) -> Promotion:
    """A promotion from the JSON values of `promotion_body`.

    Raises:
        KeyError, TypeError: The values are not those of a promotion.
    """
    return Promotion(is_asked_for=True, acls=bindings_of(body["acls"]), withdraws=bool(body["withdraws"]))


def plan_promotion(
    topics: Iterable[str],
    source: AclFacts,
    target: AclFacts,
    names: Names,
    principals: PrincipalMap = SAME_NAMES,
) -> Promotion:
    """Plan the promotion of the producers of topics; change nothing.

    Args:
        topics: By their names on the source, which are those for producers on the target.
        source: The source's rules on all resources, without the DENY rules of mmtool's own fences: these say nothing
            about rights.
        target: The target's.
        names: The names of the flow's clusters.
        principals: The principals' names on the target.
    """
    of = tuple(sorted(set(topics)))
    asked = Promotion(is_asked_for=True, topics=of, renamed=principals)
    if source.bindings is UNKNOWN or target.bindings is UNKNOWN:
        without = names.source if source.bindings is UNKNOWN else names.target
        return replace(asked, guards=(no_authorizer(without, "there are no ACLs to promote", _WITHOUT),))
    wanted, partly = _wanted(source.bindings, of, _spared(source))
    there, spared = target.bindings, _spared(target)
    renamed = {right: name for right in wanted if (name := principals.of(right.principal)) is not None}
    granted = {right._replace(principal=name) for right, name in renamed.items() if name not in spared}
    acls = tuple(sorted(right for right in granted if not any(_covers(rule, right) for rule in there)))
    if not there.isdisjoint(acls):
        raise AssertionError(f"Q: {sorted(there.intersection(acls))}")
    return replace(
        asked,
        acls=acls,
        guards=tuple(_guards(acls, target, names.target)),
        warnings=tuple(_warnings(granted, partly, wanted, of, source, there, names)),
    )


def plan_withdrawal(
    topics: Collection[str], promoted: Collection[Binding], there: AclFacts, standing: Promotion | None = None
) -> Promotion:
    """Plan the withdrawal of promoted rules in a failback: those for its topics, as far as they still exist.

    What a principal needs beside WRITE on topics is withdrawn with the last of its promoted topics.

    Args:
        topics: Topics that the flow mirrors again.
        promoted: Rules that earlier operations of the flow created and that were not removed since.
        there: The target's rules.
        standing: What the journal of the resumed failback has.
    """
    existing = set() if there.bindings is UNKNOWN else there.bindings.intersection(promoted)
    keeping = {acl.principal for acl in existing if acl.resource == TOPIC and acl.name not in topics}
    acls = {
        acl
        for acl in existing
        if (acl.name in topics if acl.resource == TOPIC else acl.principal not in keeping)
    }
    planned = Promotion(acls=tuple(sorted(acls)), withdraws=True).with_standing(standing)
    return replace(planned, is_asked_for=bool(planned.acls))


def _spared(facts: AclFacts) -> frozenset[str]:
    return facts.own if facts.super_users is UNKNOWN else facts.own | facts.super_users


def _wanted(
    rules: Collection[Binding], topics: tuple[str, ...], spared: Collection[str]
) -> tuple[set[Binding], set[Binding]]:
    """The rights of the topics' producers on the source, and those rights that a DENY takes in part."""
    candidates = {
        Binding(topic, LITERAL, rule.principal, rule.host, "WRITE", "ALLOW")
        for topic in topics
        for rule in rules
        if rule.matches(topic) and rule.gives_write and rule.principal not in spared
    }
    producers = {right.principal for right in candidates if not _is_met(right, rules)}
    candidates |= {right for rule in rules for who in producers for right in _beside(rule, who)}
    wanted = {right for right in candidates if not _is_met(right, rules)}
    partly = {
        right
        for right in candidates - wanted
        if not any(_denies(rule, right) and _contains(rule, right) for rule in rules)
    }
    return {
        right for right in wanted if not any(other != right and _covers(other, right) for other in wanted)
    }, partly


def _beside(rule: Binding, principal: str) -> Iterator[Binding]:
    """What a rule that is not about topics gives a producer."""
    if rule.permission != "ALLOW" or rule.principal not in {principal, EVERYBODY}:
        return
    operations = _BESIDE.get(rule.resource, ())
    given = [operation for operation in operations if rule.operation in {operation, "ALL"}]
    for operation in given[:1]:  # WRITE implies DESCRIBE
        yield rule._replace(principal=principal, operation=operation)


def _covers(rule: Binding, right: Binding) -> bool:
    """Whether a rule gives a whole right."""
    gives = rule.permission == "ALLOW" and rule.operation in _GIVEN_BY[right.operation]
    return gives and _contains(rule, right)


def _denies(rule: Binding, right: Binding) -> bool:
    """Whether a rule denies a right's operation to somebody."""
    return rule.permission == "DENY" and rule.operation in _TAKEN_BY[right.operation]


def _is_met(right: Binding, rules: Iterable[Binding]) -> bool:
    """Whether a DENY takes a right, or a part of it."""
    return any(_denies(rule, right) and _meets(rule, right) for rule in rules)


def _contains(rule: Binding, right: Binding) -> bool:
    """Whether a rule is about all that a right is about: its resource, principal and host."""
    return (
        rule.principal in {right.principal, EVERYBODY}
        and rule.host in {right.host, ANY_HOST}
        and _contains_resource(rule, right)
    )


def _meets(rule: Binding, right: Binding) -> bool:
    """Whether a rule is about some of what a right is about."""
    return (
        (rule.principal == right.principal or EVERYBODY in {rule.principal, right.principal})
        and (rule.host == right.host or ANY_HOST in {rule.host, right.host})
        and (_contains_resource(rule, right) or _contains_resource(right, rule))
    )


def _contains_resource(outer: Binding, inner: Binding) -> bool:
    """Whether a rule's pattern applies to every resource that another one applies to."""
    if outer.resource != inner.resource:
        return False
    if (outer.pattern, outer.name) == (LITERAL, EVERY_TOPIC):
        return True
    if outer.pattern == PREFIXED:
        is_every = (inner.pattern, inner.name) == (LITERAL, EVERY_TOPIC)
        return not is_every and inner.name.startswith(outer.name)
    return (outer.pattern, outer.name) == (inner.pattern, inner.name)


def _guards(acls: tuple[Binding, ...], target: AclFacts, cluster: str) -> Iterator[Guard]:
    if target.allows_unruled is False or target.bindings is UNKNOWN:
        return
    there = target.bindings
    rules = (acl.name for acl in acls if not any(_contains_resource(rule, acl) for rule in there))
    if unruled := few(sorted(set(rules))):
        setting = "allow.everyone.if.no.acl.found"
        certain = target.allows_unruled is True
        is_set = "is true" if certain else "may be true (mmtool cannot read it)"
        yield Guard(
            "everybody_may_write",
            f"{setting} {is_set} on {cluster}, and no ACL there names {unruled}: the first ACL would lock out all other"
            " clients, consumers and mirrors included",
            f"create ACLs for the other clients of {unruled} on {cluster} first"
            f"{'' if certain else or_show(setting, cluster)}; or {_WITHOUT}",
        )


def _warnings(
    granted: Collection[Binding],
    partly: Collection[Binding],
    wanted: Collection[Binding],
    topics: Collection[str],
    source: AclFacts,
    there: Collection[Binding],
    names: Names,
) -> Iterator[Guard]:
    """Yield a warning for each right that is not copied, that has no effect, or that everybody gets."""
    of_everybody = (right for right in granted if right.principal == EVERYBODY and right.resource == TOPIC)
    if open_topics := few(sorted({right.name for right in of_everybody})):
        yield Guard(
            "everybody_may_write",
            f"an ACL for {EVERYBODY} lets every principal write {open_topics} on {names.source}, and is copied: every"
            f" principal may then write {open_topics} on {names.target}",
            f"if that is not wanted, put the line `{EVERYBODY},` into the file of --principal-map",
        )
    for right in sorted(partly):
        yield Guard(
            "partly_denied",
            f"{right.right} is not promoted for {right.principal}: a DENY on {names.source} takes a part of that right",
            f"if {right.principal} is to have it, create the ACLs on {names.target} yourself",
        )
    rules, supers = source.bindings, source.super_users
    if rules is not UNKNOWN and supers is not UNKNOWN:
        writers = {rule.principal for rule in rules if rule.gives_write and any(map(rule.matches, topics))}
        if found := sorted(writers & supers - source.own):
            users, them = ("a super user", "it") if len(found) == 1 else ("super users", "them")
            yield Guard(
                "super_user_writes",
                f"{few(found)} {are(len(found))} {users} of {names.source}: no ACL is promoted for {them}",
                f"if {few(found)} {are(len(found))} to write on {names.target}, create the ACLs yourself",
            )
    for right in sorted(right for right in granted if _is_met(right, there)):
        yield Guard(
            "denied_on_target",
            f"a DENY on {names.target} keeps {right.principal} from {right.right}: DENY wins over the promoted ACL",
            f"remove that DENY from {names.target}",
        )
    if without := sorted(set(topics) - {right.name for right in wanted if right.resource == TOPIC}):
        yield Guard(
            "no_producer",
            f"no principal gets a right to write {few(without)} on {names.target}: no ACL on {names.source} gives a"
            " right that can be copied",
            f"if producers are to write on {names.target}, create their ACLs yourself",
        )
