"""Topic names on the other cluster: MirrorMaker 2's replication policies as pure values.

Every rule here is MM2's (`ReplicationPolicy`, `DefaultReplicationPolicy`, `IdentityReplicationPolicy`), down
to Java's ``String.split`` dropping trailing empty components. A policy knows names only: no filter, no flow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum

HEARTBEATS_TOPIC = "heartbeats"


DEAD_LETTER_SUFFIX = ".mmtool-dlq"
"""The suffix that makes a target topic's name that of its dead-letter topic, which is never mirrored."""


def topic_part(alias: str) -> str:
    """``alias`` with dashes for slashes, which topic names cannot contain."""
    return alias.replace("/", "-")


@dataclass(frozen=True, slots=True)
class TopicAliases:
    """The aliases by which a flow names topics: MM2's ``source.cluster.alias`` and ``target.cluster.alias``.

    They are the file's aliases unless the file overrides them, and may be blank.
    """

    source: str
    target: str


class InternalRules(Enum):
    """The release whose rule decides which topics are internal.

    ``KAFKA_4_0`` narrowed it (KIP-1074): ``orders.internal`` is an ordinary topic there, and internal before.
    """

    KAFKA_3_9 = "3.9"
    KAFKA_4_0 = "4.0"


class ReplicationPolicy(ABC):
    """Names in both directions. ``None`` as a source or upstream name means that the topic is no mirror.

    Attributes:
        base: The policy of internal names and heartbeats, which MM2's own clients have to find.
    """

    __slots__ = ()
    base: DefaultPolicy

    @abstractmethod
    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """The name on the target of the source's ``topic``."""

    @abstractmethod
    def topic_source(self, topic: str) -> str | None:
        """The alias of the cluster from which a topic was mirrored; None for a local one."""

    @abstractmethod
    def upstream_topic(self, topic: str) -> str | None:
        """The name of a topic one hop upstream; None for a local one."""

    @abstractmethod
    def source_topic(self, source_alias: str, remote: str) -> str | None:
        """The source's name of a topic of the target; None where no source topic is mirrored under that name."""

    def original_topic(self, topic: str) -> str:
        """The name of a topic on the cluster from which it was first mirrored."""
        upstream = self.upstream_topic(topic)
        while upstream is not None and upstream != topic:
            topic, upstream = upstream, self.upstream_topic(upstream)
        return topic

    def is_cycle(self, target_alias: str, topic: str) -> bool:
        """Whether a topic has come through ``target_alias`` at any hop that its name shows, as MM2 decides it.

        Mirroring it there would return records to a cluster that had them.
        """
        source = self.topic_source(topic)
        while source is not None:
            if source == target_alias:
                return True
            upstream = self.upstream_topic(topic)
            if upstream is None or upstream == topic:
                return False
            topic, source = upstream, self.topic_source(upstream)
        return False

    def offset_syncs_topic(self, other_alias: str) -> str:
        """The name of MM2's offset-syncs topic; ``other_alias`` is the cluster that does *not* hold it."""
        return self.base.isep.join(("mm2-offset-syncs", other_alias, "internal"))

    def checkpoints_topic(self, source_alias: str) -> str:
        """The name of MM2's checkpoints topic on the target of flows from ``source_alias``."""
        return self.base.isep.join((source_alias, "checkpoints", "internal"))

    def heartbeats_topic(self) -> str:
        """The name of MM2's heartbeats topic; no separator ever changes it."""
        return HEARTBEATS_TOPIC

    def is_internal_topic(self, topic: str) -> bool:
        """Whether a topic belongs to Kafka or MM2 and is never mirrored."""
        internal = f"{self.base.isep}internal"
        if topic.startswith(("__", ".")):
            return True
        if self.base.rules is InternalRules.KAFKA_3_9:
            return topic.endswith(("-internal", ".internal", internal))
        return (topic.startswith("mm2") and topic.endswith(internal)) or self.is_checkpoints_topic(topic)

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Whether a topic is the checkpoints topic of some flow."""
        return topic.endswith(f"{self.base.isep}checkpoints{self.base.isep}internal")

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether a topic is ``heartbeats``, of this cluster or mirrored over any number of hops."""
        return self.base.original_topic(topic) == HEARTBEATS_TOPIC


@dataclass(frozen=True, slots=True)
class DefaultPolicy(ReplicationPolicy):
    """``alias + separator + topic``.

    A local name that contains the separator looks remote ("orders.v1" comes from "orders"), as in MM2. MM2 splits an
    alias that contains the separator as well, and so never sees that a topic came from there; here a known alias counts
    as a whole, the longest first.

    Attributes:
        separator: ``replication.policy.separator``.
        internal_separator: Between the parts of internal names: the separator since KIP-690, or "." when
            ``replication.policy.internal.topic.separator.enabled=false`` (KIP-949). None means the separator.
        rules: The release whose rule decides which topics are internal.
        known: The aliases by which the flows of the file name topics. Two policies that differ in them alone are equal:
            both give the same names.
    """

    separator: str = "."
    internal_separator: str | None = None
    rules: InternalRules = InternalRules.KAFKA_4_0
    known: tuple[str, ...] = field(default=(), compare=False)

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{source_alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        whole = max((alias for alias in self.known if self._is_from(alias, topic)), key=len, default=None)
        if whole is not None:
            return whole
        parts = _java_split(topic, self.separator)
        return parts[0] if len(parts) > 1 else None

    def _is_from(self, alias: str, topic: str) -> bool:
        """Whether a topic's name begins with ``alias`` and the separator, with more after them.

        Never with a blank alias or a blank separator, with which any name would.
        """
        prefix = alias + self.separator
        remote = bool(alias) and bool(self.separator) and topic.startswith(prefix)
        return remote and bool(_java_split(topic[len(prefix) :], self.separator))

    def upstream_topic(self, topic: str) -> str | None:
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def source_topic(self, source_alias: str, remote: str) -> str | None:
        prefix = source_alias + self.separator
        return remote.removeprefix(prefix) if remote.startswith(prefix) and remote != prefix else None

    @property
    def base(self) -> DefaultPolicy:  # type: ignore[override]  # its own
        return self

    @property
    def isep(self) -> str:
        """The separator of internal names."""
        return self.separator if self.internal_separator is None else self.internal_separator


@dataclass(frozen=True, slots=True)
class IdentityPolicy(ReplicationPolicy):
    """Names stay as they are (KIP-382, released in 3.0).

    Cannot see a cycle except in heartbeats. Any name that *ends with* "heartbeats" is prefixed like one,
    which is MM2's own reading ("device-heartbeats" becomes "A.device-heartbeats").

    Attributes:
        source_alias: ``source.cluster.alias``; the policy returns it as the source of every topic. None when not
            configured.
        base: Internal names and heartbeats follow it.
    """

    source_alias: str | None = None
    base: DefaultPolicy = DefaultPolicy()

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return self.base.format_remote_topic(source_alias, topic) if _like_heartbeats(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        return self.base.topic_source(topic) if _like_heartbeats(topic) else self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        return self.base.upstream_topic(topic) if _like_heartbeats(topic) else topic

    def source_topic(self, source_alias: str, remote: str) -> str | None:
        return self.base.source_topic(source_alias, remote) if _like_heartbeats(remote) else remote


@dataclass(frozen=True, slots=True)
class RenamePolicy(ReplicationPolicy):
    """``mmtool.topic.rename.format``: text around the name, as "dr-${topic}" or "${topic}.${source}".

    Heartbeats and internal names keep MM2's form, so that MM2's own clients find them. Without
    ``${source}`` in
    the format a renamed name does not show its origin: it counts as coming from the flow's source, and on the
    source as mirrored there by the reverse flow, so it is a cycle.

    Attributes:
        source_alias: The flow's source.
        target_alias: The flow's target; ``${source}`` of the reverse flow.
        before: Text before the name; ``${source}`` stands for an alias.
        after: Text after it, likewise. One of the two is not empty.
        base: Internal names and heartbeats follow it.
    """

    source_alias: str
    target_alias: str
    before: str = ""
    after: str = ""
    base: DefaultPolicy = DefaultPolicy()

    @property
    def names_source(self) -> bool:
        """Whether a renamed topic's name contains the alias of its source."""
        return "${source}" in self.before + self.after

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        if self.base.is_heartbeats_topic(topic):
            return self.base.format_remote_topic(source_alias, topic)
        before, after = self._affixes(source_alias)
        return f"{before}{topic}{after}"

    def topic_source(self, topic: str) -> str | None:
        if self.base.is_heartbeats_topic(topic):
            return self.base.topic_source(topic)
        return next((alias for alias in self._aliases() if self._is_from(alias, topic)), None)

    def _aliases(self) -> list[str]:
        """The aliases from which a topic may come by its name, the longest first.

        Of equal ones the flow's source comes first.
        """
        aliases = {self.source_alias: None, self.target_alias: None}
        if self.names_source:
            aliases |= dict.fromkeys(self.base.known)
        return sorted(aliases, key=len, reverse=True)

    def upstream_topic(self, topic: str) -> str | None:
        if self.base.is_heartbeats_topic(topic):
            return self.base.upstream_topic(topic)
        source = self.topic_source(topic)
        if source is None:
            return None
        return self._without_affixes(source, topic)

    def source_topic(self, source_alias: str, remote: str) -> str | None:
        if self.base.is_heartbeats_topic(remote):
            return self.base.source_topic(source_alias, remote)
        return self._without_affixes(source_alias, remote) if self._is_from(source_alias, remote) else None

    def is_cycle(self, target_alias: str, topic: str) -> bool:
        comes_back = not self.base.is_heartbeats_topic(topic) and self._is_from(target_alias, topic)
        return comes_back or ReplicationPolicy.is_cycle(self, target_alias, topic)

    def _affixes(self, alias: str) -> tuple[str, str]:
        return self.before.replace("${source}", alias), self.after.replace("${source}", alias)

    def _without_affixes(self, alias: str, topic: str) -> str:
        before, after = self._affixes(alias)
        return topic[len(before) : len(topic) - len(after)]

    def _is_from(self, alias: str, topic: str) -> bool:
        before, after = self._affixes(alias)
        longer = len(topic) > len(before) + len(after)
        return longer and topic.startswith(before) and topic.endswith(after)


def _like_heartbeats(topic: str) -> bool:
    return topic.endswith(HEARTBEATS_TOPIC)


def _java_split(text: str, separator: str) -> list[str]:
    """Split as Java does it: trailing empty parts are dropped, leading ones stay."""
    parts = text.split(separator) if separator else list(text)
    while parts and not parts[-1]:
        parts.pop()
    return parts
