"""Which connector of MirrorMaker 2 reads a key, and why a key is left out of a properties file."""

from __future__ import annotations

from mmtool.config.advice import has_meaning, is_connect_key
from mmtool.config.clientkeys import CLIENT_KEYS
from mmtool.config.keys import FLOW_KEYS
from mmtool.config.scopes import ROLES, is_security_key
from mmtool.importers.core.connector import SOURCE_ALIAS, TARGET_ALIAS, ConnectorKind
from mmtool.plain_text import did_you_mean, nearest

IDENTITY = frozenset({"name", "connector.class", SOURCE_ALIAS, TARGET_ALIAS})
"""Keys that say which connector it is; the properties file has `clusters` and the flow's prefix instead."""

SWITCHES = {
    ConnectorKind.SOURCE: "enabled",
    ConnectorKind.CHECKPOINT: "emit.checkpoints.enabled",
    ConnectorKind.HEARTBEAT: "emit.heartbeats.enabled",
}
"""The key of a flow that turns off what a connector does."""

COMPARED = (
    "replication.policy.class",
    "replication.policy.separator",
    "replication.policy.internal.topic.separator.enabled",
    "offset-syncs.topic.location",
)
"""Keys that the source and the checkpoint connector must agree on, also where one of them has the default."""

_SOURCE_KEYS = """
    topics topics.exclude topics.blacklist config.properties.exclude config.properties.blacklist use.defaults.from
    refresh.topics.enabled refresh.topics.interval.seconds sync.topic.configs.enabled
    sync.topic.configs.interval.seconds sync.topic.acls.enabled sync.topic.acls.interval.seconds replication.factor
    offset-syncs.topic.replication.factor offset.lag.max heartbeats.replication.enabled enabled
"""
_CHECKPOINT_KEYS = """
    groups groups.exclude groups.blacklist refresh.groups.enabled refresh.groups.interval.seconds
    emit.checkpoints.enabled emit.checkpoints.interval.seconds sync.group.offsets.enabled
    sync.group.offsets.interval.seconds checkpoints.topic.replication.factor
"""
_HEARTBEAT_KEYS = """
    emit.heartbeats.enabled emit.heartbeats.interval.seconds heartbeats.topic.replication.factor
"""
_READER = {
    name: kind
    for kind, names in (
        (ConnectorKind.SOURCE, _SOURCE_KEYS),
        (ConnectorKind.CHECKPOINT, _CHECKPOINT_KEYS),
        (ConnectorKind.HEARTBEAT, _HEARTBEAT_KEYS),
    )
    for name in names.split()
}

_NO_WORKERS = "a setting of Kafka Connect; mmtool has no Connect workers"
_OF_CLIENTS = "a setting of Java's clients, which mmtool does not use"
_NO_EFFECT = "without effect, in MirrorMaker 2 as well"
_NOT_PASSED = f"{_NO_EFFECT}: its connectors pass only security settings of a cluster to their clients"
_UNKNOWN = "mmtool has no such setting"


def reader_of(name: str) -> ConnectorKind | None:
    """The one connector that reads a key; None where several do."""
    return _READER.get(name)


def why_no_cluster_key(alias: str, name: str, aliases: tuple[str, ...]) -> str:
    """Why ``source.cluster.NAME`` or ``target.cluster.NAME`` is left out; empty where it is kept as ``ALIAS.NAME``.

    MirrorMaker 2's connectors pass only security settings from there to their clients.
    """
    if is_connect_key(name):
        return _NO_WORKERS
    if not is_security_key(name):
        return _OF_CLIENTS if name.partition(".")[0] in ROLES else _NOT_PASSED
    return "" if has_meaning(f"{alias}.{name}", aliases) else _UNKNOWN


def why_no_flow_key(prefix: str, name: str, aliases: tuple[str, ...]) -> str:
    """Why a connector's key is left out; empty where it is kept under the flow's prefix ``S->T.``."""
    if has_meaning(prefix + name, aliases):
        return ""
    if is_connect_key(name):
        return _NO_WORKERS
    if name in CLIENT_KEYS or is_security_key(name):
        return _NO_EFFECT
    return _UNKNOWN + did_you_mean([nearest(name, FLOW_KEYS)])
