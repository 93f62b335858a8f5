"""A requested producer fence as data: its kind, its topics and ACLs, its sentences and journal entry."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from mmtool.plain_text import shell_word
from mmtool.plan.failover.acl_fence import FencePlan
from mmtool.plan.failover.acl_rules import Binding, bindings_of, rows_of
from mmtool.plan.words import few
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mmtool.plan.groups.facts import GroupFacts

WATCH_SECONDS = 2.0


class FenceKind(StrEnum):
    """How producers are kept off the source (the contract's words)."""

    NONE = "none"
    """No fence: producers may stay while groups move."""
    ACL = "acl"
    """A DENY of WRITE for each principal that a rule allows to write."""
    HOOK = "hook"
    """The operator's executable in ``mmtool.hook.fence``."""
    WATCH = "watch"
    """No action: the operator has stopped the producers, and mmtool checks it."""


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

    def sentences(self, source: str, groups: str, flow: str) -> tuple[str, str, str]:
        """The sentences of the fence's three steps: raise it, wait for transactions, watch the ends."""
        if not self.topics:
            nothing = f"{groups} no committed offset in a topic of {flow}"
            raises = (
                "run mmtool.hook.fence without topics" if self.kind is FenceKind.HOOK else "stop no producer"
            )
            return (
                f"{raises}: {nothing}",
                f"skip this step: {nothing}",
                f"skip this step: {nothing}",
            )
        topics, seconds = few(self.topics), f"{self.watch_seconds:g} s"
        why = f"the topics of {flow} in which {groups} commits"
        raising = {
            FenceKind.ACL: f"on {source}, {self.rules.sentence} ({why})",
            FenceKind.HOOK: f"run mmtool.hook.fence, which stops the producers of {topics} on {source} ({why})",
            FenceKind.WATCH: f"mmtool does nothing: you have to stop the producers of {topics} on {source} ({why})",
        }
        return (
            raising.get(self.kind, ""),
            f"wait until no transaction is open in {topics} on {source}",
            f"check that the log ends of {topics} on {source} do not move for {seconds}",
        )


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
