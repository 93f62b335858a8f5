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
    """The ACL rules to add on the target for mirrored topics.

    ALLOW WRITE is not copied, and ALLOW ALL becomes ALLOW READ: only the mirror writes there. DENY rules are copied as
    they are, except those that look like a fence (`mmtool.plan.failover.acl_fence`): a copied fence would keep
    producers off the cluster that they are moved to, and no operation would lower it there. A rule about every topic
    (``*``) has no meaning where topics are renamed, and is left out there.

    Args:
        source: The source's rules.
        target: The target's rules, which are not added again.
        mirrors: Whether a topic of the source is mirrored.
        remote_topic: Returns a source topic's name on the target.
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
    """Whether a rule has the form of a fence's: brokers do not store a rule's creator, so any flow may own it."""
    return (acl.permission, acl.operation, acl.host) == ("DENY", "WRITE", "*") and acl.topic != ANY_TOPIC
