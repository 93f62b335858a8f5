"""ACLs of mirrored topics, by MirrorMaker 2's rules: rules are added, and none is ever removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

ANY_TOPIC = "*"


class TopicAcl(NamedTuple):
    """One rule about one topic by its whole name (resource TOPIC, pattern LITERAL).

    Attributes:
        operation: By Kafka's name, as ``READ``.
        permission: ``ALLOW`` or ``DENY``.
    """

    topic: str
    principal: str
    host: str
    operation: str
    permission: str


def plan_acls(
    source: Iterable[TopicAcl],
    target: Collection[TopicAcl],
    *,
    mirrors: Callable[[str], bool],
    remote_topic: Callable[[str], str],
) -> list[TopicAcl]:
    """The rules to add on the target.

    ALLOW WRITE is not carried over, and ALLOW ALL becomes ALLOW READ: only the mirror writes there. What denies is
    carried over as it is, save what looks like a fence (`mmtool.plan.failover.acl_fence`): carried over, it
    would keep producers off the cluster that they are moved to, and nobody would lower it there. A rule about every
    topic (``*``) means nothing under a renamed name, and is left out there.

    Args:
        source: The source's rules.
        target: The target's: what is there is not added again.
        mirrors: Whether a topic of the source is mirrored.
        remote_topic: What it is called on the target.
    """
    wanted = [
        acl._replace(
            topic=remote_topic(acl.topic),
            operation="READ" if (acl.permission, acl.operation) == ("ALLOW", "ALL") else acl.operation,
        )
        for acl in source
        if (acl.permission, acl.operation) != ("ALLOW", "WRITE")
        and not _is_like_a_fence(acl)
        and mirrors(acl.topic)
        and (acl.topic != ANY_TOPIC or remote_topic(acl.topic) == ANY_TOPIC)
    ]
    return [acl for acl in dict.fromkeys(wanted) if acl not in target]


def _is_like_a_fence(acl: TopicAcl) -> bool:
    """By its shape: brokers do not keep who made a rule, and it may be another flow's fence."""
    return (acl.permission, acl.operation, acl.host) == ("DENY", "WRITE", "*") and acl.topic != ANY_TOPIC
