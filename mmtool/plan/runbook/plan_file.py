"""A saved plan: made once, reviewed by others, executed later unchanged, or refused as stale.

It holds all that was shown, the options, and the facts that it depends on. Executing it reads the clusters again: the
plan is then made once more by the same function, from facts that are the same, so it is the same plan. The facts are
the plan's fingerprint:

F  a fact of the fingerprint that has changed makes the plan stale; other facts (lag, log ends) never do
N  a topic that did not exist when the plan was made may appear: mirroring creates it, and so would the plan itself
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypedDict

from mmtool.plan.failover.acl_promotion import Promotion
from mmtool.plan.failover.acl_rules import bindings_of, rows_of
from mmtool.plan.failover.choices import TO_FILE, diverged_of
from mmtool.plan.failover.failover_plan import FailoverPlan
from mmtool.plan.failover.risks import Guard
from mmtool.plan.failover.steps import Mode, Step, StepName
from mmtool.plan.groups.facts import Commit, GroupFacts, Member
from mmtool.plan.records.documents import UnreadableDocumentError, decode, encode
from mmtool.plan.records.journal import GroupBody, group_body, group_of
from mmtool.plan.records.shapes import shaped
from mmtool.plan.words import Names, counted
from mmtool.translation.types import TopicPartition

Facts: TypeAlias = "Mapping[str, str]"
"""Facts by what they are about: ``{"group billing, orders-0 on east: the committed offset": "42"}``."""
_MISSING = "missing"


class SideSeen(TypedDict):
    """The facts of one cluster.

    Attributes:
        cluster_id: Its id; null if the cluster did not answer and its id is not stored.
        topics: By name: the topic's id and its number of partitions.
    """

    cluster_id: str | None
    topics: dict[str, tuple[str, int]]


class GroupSeen(TypedDict):
    """The facts of one group.

    Attributes:
        commits: On the cluster that it leaves: topic, partition, offset, metadata.
        before: On the destination: topic, partition, offset, metadata.
        members_here: Its members on the cluster that it leaves: client id, host.
        members_there: Its members on the destination: client id, host.
    """

    commits: list[tuple[str, int, int, str]]
    before: list[tuple[str, int, int, str]]
    members_here: list[tuple[str, str]]
    members_there: list[tuple[str, str]]


class Fingerprint(TypedDict):
    """The facts that a plan depends on.

    Attributes:
        here: The facts of the cluster that the groups leave.
        there: The facts of the destination.
        groups: The facts of each group, by its name.
    """

    here: SideSeen
    there: SideSeen
    groups: dict[str, GroupSeen]


def fingerprint_of(
    here: SideSeen, there: SideSeen, groups: Iterable[GroupFacts], renamed: Mapping[str, str]
) -> Fingerprint:
    """The fingerprint of these groups, and of those topics alone that they read.

    Args:
        here: The cluster that groups leave, with its topics.
        there: The destination, with its topics.
        groups: The groups of the plan.
        renamed: The destination's names of the plan's topics, by their names on the cluster `here`.
    """
    facts = tuple(groups)
    read = sorted({place.topic for group in facts for place in group.commits} & renamed.keys())
    return {
        "here": _narrowed(here, read),
        "there": _narrowed(there, [renamed[name] for name in read]),
        "groups": {
            group.group: {
                "commits": _commits(group.commits),
                "before": _commits(group.before),
                "members_here": _members(group.here.members),
                "members_there": _members(group.there.members),
            }
            for group in facts
        },
    }


def _narrowed(side: SideSeen, names: Iterable[str]) -> SideSeen:
    topics = side["topics"]
    return {
        "cluster_id": side["cluster_id"],
        "topics": {name: topics[name] for name in names if name in topics},
    }


def _commits(commits: Mapping[TopicPartition, Commit]) -> list[tuple[str, int, int, str]]:
    return [(*place, *commit.pair) for place, commit in sorted(commits.items())]


def _members(members: Iterable[Member]) -> list[tuple[str, str]]:
    return [(member.client_id, member.host) for member in sorted(members, key=str)]


def differences(saved: Fingerprint, now: Fingerprint, names: Names) -> list[str]:
    """The facts that differ between two fingerprints, as sentences; empty for a plan that is still fresh.

    Where a cluster's id has changed, its topics are not compared.

    Args:
        saved: The saved plan's fingerprint.
        now: The current fingerprint.
        names: ``source`` is the cluster that groups leave.
    """
    found: list[str] = []
    for alias, was, stands in (
        (names.source, saved["here"], now["here"]),
        (names.target, saved["there"], now["there"]),
    ):
        was_topics, topics = topic_facts(alias, was), topic_facts(alias, stands)
        known = {fact: value for fact, value in topics.items() if fact in was_topics}  # N
        another = another_cluster(alias, was["cluster_id"], stands["cluster_id"])
        found += another or changes(was_topics, known)
    return found + changes(group_facts(saved, names), group_facts(now, names))


def changes(was: Facts, now: Facts) -> list[str]:
    """The facts whose values differ, as sentences; one that only one side has is ``missing`` on the other."""
    return [
        f"{fact} was {was.get(fact, _MISSING)} and is now {now.get(fact, _MISSING)}"
        for fact in {**was, **now}
        if was.get(fact) != now.get(fact)
    ]


def another_cluster(alias: str, was: str | None, now: str | None) -> list[str]:
    """The sentence that an alias means another cluster than when the plan was made; none where it does not."""
    told = {alias: f"cluster {was}"} if was is not None else {}
    return changes(told, {alias: f"cluster {now}"} if told and now is not None else {})


def topic_facts(alias: str, side: SideSeen) -> dict[str, str]:
    """Each topic's id and partition count, which tell it from another topic of its name."""
    return {
        f"topic {name} on {alias}": f"id {topic_id} with {counted(partitions, 'partition')}"
        for name, (topic_id, partitions) in side["topics"].items()
    }


def group_facts(seen: Fingerprint, names: Names) -> dict[str, str]:
    """Each group's commits and members on both clusters."""
    facts: dict[str, str] = {}
    for name, group in seen["groups"].items():
        facts[f"group {name}"] = "known"
        for alias, commits, members in (
            (names.source, group["commits"], group["members_here"]),
            (names.target, group["before"], group["members_there"]),
        ):
            for topic, partition, offset, metadata in commits:
                place = TopicPartition(topic, partition)
                text = f"{offset} (metadata {metadata})" if metadata else str(offset)
                facts[f"group {name}, {place} on {alias}: the committed offset"] = text
            who = [str(Member(client_id, host)) for client_id, host in members]
            facts[f"group {name} on {alias}: the list of members"] = ", ".join(who) or "empty"
    return facts


_KIND: Literal["failover plan"] = "failover plan"


class PlanFile(TypedDict):
    """A saved plan, without its version and checksum.

    Attributes:
        kind: Always the same.
        operation_id: The id that the operation will have.
        mode: Its kind.
        source: The alias of the flow's source.
        target: The alias of the flow's target.
        options: The options of the command by name, without those that select groups.
        groups: The groups that move, with their offsets.
        steps: Name and sentence of each step, in order.
        released: Topics whose marks are removed.
        acls: ACLs of producers that are created or removed; in Kafka's words.
        guards: Code and sentence of each safety check that refuses the plan.
        warnings: The warnings that were shown with the plan.
        rests_on: The facts that the plan depends on; a change of them makes it stale.
        by: The operator, as `user@host`.
        at_ms: When the plan was made, in ms since 1970.
        mmtool: The version that made it.
    """

    kind: Literal["failover plan"]
    operation_id: str
    mode: Mode
    source: str
    target: str
    options: dict[str, str]
    groups: list[GroupBody]
    steps: list[tuple[StepName, str]]
    released: list[str]
    acls: list[list[str]]
    guards: list[tuple[str, str]]
    warnings: list[str]
    rests_on: Fingerprint
    by: str
    at_ms: int
    mmtool: str


@dataclass(frozen=True, slots=True)
class PlanOrigin:
    """The operator, time and version that made a plan.

    Attributes:
        by: ``user@host``.
        at_ms: Since 1970, by that host's clock.
        version: Of mmtool.
    """

    by: str
    at_ms: int
    version: str


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """The content of the file.

    Attributes:
        plan: As it was rehearsed; its operation id is kept.
        seen: The facts that it depends on.
        options: The options beside the groups, by name, as ``{"unknown": "leave"}``.
        warnings: The warnings that were shown with it.
    """

    plan: FailoverPlan
    seen: Fingerprint
    origin: PlanOrigin
    options: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the plan's groups."""
        return tuple(plan.group for plan in self.plan.groups)

    @property
    def option_words(self) -> list[tuple[str, ...]]:
        """The options as words of a command line, one tuple each, as ``("--diverged", "topic", "NAME")``."""
        return [
            (f"--{name.replace('_', '-')}", *(value.split() if name == "diverged" else filter(None, [value])))
            for name, value in self.options.items()
        ]

    def stale(self, plan: FailoverPlan, seen: Fingerprint) -> list[str]:
        """The differences of a new plan from the saved one, the most important first; empty without any.

        Args:
            plan: The plan, made from the current facts.
            seen: The current facts that it depends on.
        """
        return [
            *differences(self.seen, seen, self.plan.way),
            *changes(_step_facts(self.plan), _step_facts(plan)),
            *changes(_acl_facts(self.plan), _acl_facts(plan)),
            *changes(_name_facts(self.plan), _name_facts(plan)),
        ]


def _step_facts(plan: FailoverPlan) -> dict[str, str]:
    """The steps: the configuration may differ where the clusters do not (hook, topic name)."""
    return {f"step {step.name}": repr(step.sentence) for step in plan.steps}


def _name_facts(plan: FailoverPlan) -> dict[str, str]:
    target = plan.names.target
    return {f"the name of group {one.group} on {target}": one.target_group for one in plan.groups}


def _acl_facts(plan: FailoverPlan) -> dict[str, str]:
    """The ACLs that the plan creates or removes: a step's sentence names only some of many."""
    change = "removal" if plan.mode is Mode.FAILBACK else "creation"
    return {
        f"the {change} of this ACL on {plan.names.target}: {acl},": "planned"
        for acl in sorted(plan.promotion.acls)
    }


def write_plan(saved: SavedPlan) -> bytes:
    """Encode a plan file: JSON for people and scripts to read, with a version and a checksum."""
    plan = saved.plan
    body: PlanFile = {
        "kind": _KIND,
        "operation_id": plan.operation_id,
        "mode": plan.mode,
        "source": plan.names.source,
        "target": plan.names.target,
        "options": dict(saved.options),
        "groups": [group_body(group, plan.risks) for group in plan.groups],
        "steps": [(step.name, step.sentence) for step in plan.steps],
        "released": list(plan.released),
        "acls": rows_of(plan.promotion.acls),
        "guards": [(guard.code, guard.sentence) for guard in plan.guards],
        "warnings": list(saved.warnings),
        "rests_on": saved.seen,
        "by": saved.origin.by,
        "at_ms": saved.origin.at_ms,
        "mmtool": saved.origin.version,
    }
    lines = []  # one for each key and each part of a list, so that a diff of two plans is readable
    for key, value in json.loads(encode(dict(body))).items():
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, list) and value:
            text = "[\n" + ",\n".join(f"  {json.dumps(part, ensure_ascii=False)}" for part in value) + "\n ]"
        lines.append(f" {json.dumps(key, ensure_ascii=False)}: {text}")
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def read_plan(content: bytes) -> SavedPlan:
    """Decode a plan file.

    Raises:
        UnreadableDocumentError: The file is damaged, of another version, or not a plan.
    """
    body = decode(content)
    if body.get("kind") != _KIND:
        raise UnreadableDocumentError(f"the file is not a {_KIND}")
    try:
        return _from(body)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise UnreadableDocumentError(
            "a value of the plan is missing or unknown to this version of mmtool; another version may have written it"
        ) from error


def _from(body: Mapping[str, Any]) -> SavedPlan:
    found = [group_of(group) for group in body["groups"]]
    plan = FailoverPlan(
        body["operation_id"],
        Mode(body["mode"]),
        Names(body["source"], body["target"]),
        tuple(group for group, _ in found),
        tuple(Step(StepName(name), sentence) for name, sentence in body["steps"]),
        tuple(Guard(code, sentence) for code, sentence in body["guards"]),
        {place: risk for _, risks in found for place, risk in risks.items()},
        tuple(body["released"]),
        diverged=diverged_of(body["options"].get("diverged", TO_FILE.words)),
        promotion=Promotion(acls=bindings_of(body.get("acls", ()))),  # an older mmtool wrote none
    )
    return SavedPlan(
        plan,
        shaped(body["rests_on"], Fingerprint),
        PlanOrigin(body["by"], body["at_ms"], body["mmtool"]),
        dict(body["options"]),
        tuple(body["warnings"]),
    )
