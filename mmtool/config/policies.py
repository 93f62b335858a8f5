"""Create a naming policy from ``replication.policy.*`` and ``mmtool.topic.rename.format``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

from mmtool.config.aliases import known_aliases
from mmtool.translation.names import DefaultPolicy, IdentityPolicy, RenamePolicy

if TYPE_CHECKING:
    from mmtool.config.properties import Entry
    from mmtool.config.report import Report
    from mmtool.config.scopes import Scopes
    from mmtool.config.settings import AnyPolicy
    from mmtool.translation.names import TopicAliases

_MIRROR_PACKAGE = "org.apache.kafka.connect.mirror."
_IDENTITY = {
    f"{_MIRROR_PACKAGE}IdentityReplicationPolicy",
    "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
}
_LEGAL = re.compile(r"[a-zA-Z0-9._-]*")
_TOPIC = "${topic}"


class FlowKeys(Protocol):
    """The keys of a flow that decide its topic names."""

    @property
    def scopes(self) -> Scopes: ...

    @property
    def report(self) -> Report: ...

    @property
    def topic_aliases(self) -> TopicAliases: ...

    def find(self, name: str) -> Entry | None: ...

    def value(self, name: str) -> Any: ...


def read_policy(flow: FlowKeys) -> AnyPolicy:
    """The flow's naming policy; a Java class other than Kafka's own two is refused."""
    base = DefaultPolicy(_separator(flow), _internal_separator(flow), known=known_aliases(flow.scopes))
    rename = flow.find("mmtool.topic.rename.format")
    if rename is not None:
        return _renaming(flow, base)
    name = flow.value("replication.policy.class").strip()
    if name in _IDENTITY:
        return IdentityPolicy(flow.topic_aliases.source, base)
    entry = flow.find("replication.policy.class")
    if entry is not None and name != f"{_MIRROR_PACKAGE}DefaultReplicationPolicy":
        flow.report.expected(
            entry,
            f"{_MIRROR_PACKAGE}DefaultReplicationPolicy or {_MIRROR_PACKAGE}IdentityReplicationPolicy; "
            "for other names set mmtool.topic.rename.format, as dr-${topic}",
        )
    return base


def _separator(flow: FlowKeys) -> str:
    separator: str = flow.value("replication.policy.separator")
    entry = flow.find("replication.policy.separator")
    if entry is not None and not _LEGAL.fullmatch(separator):
        flow.report.expected(entry, "letters, digits, '.', '_' and '-', without a space at the end")
        return "."
    return separator


def _internal_separator(flow: FlowKeys) -> str | None:
    return None if flow.value("replication.policy.internal.topic.separator.enabled") else "."


def _renaming(flow: FlowKeys, base: DefaultPolicy) -> AnyPolicy:
    entry = flow.find("mmtool.topic.rename.format")
    assert entry is not None
    text = entry.value.strip()
    before, found, after = text.partition(_TOPIC)
    literal = (before + after).replace("${source}", "")
    if not found or not (before or after) or _TOPIC in after or not _LEGAL.fullmatch(literal):
        flow.report.expected(
            entry, "one ${topic}, with legal topic characters or ${source} before or after it, as dr-${topic}"
        )
        return base
    return RenamePolicy(flow.topic_aliases.source, flow.topic_aliases.target, before, after, base)
