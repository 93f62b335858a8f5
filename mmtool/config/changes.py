"""Compare a running flow's settings with a changed file: what applies at once, and what at the next start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mmtool.config.names import NameFilter
from mmtool.config.scopes import ROLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mmtool.config.settings import ClusterSettings, FlowSettings, Security

LIVE: Mapping[str, str] = {
    "topics": "topics",
    "groups": "groups",
    "config_properties_exclude": "config.properties",
    "use_defaults_from": "use.defaults.from",
    "heartbeats_replication": "heartbeats.replication.enabled",
    "replication_factor": "replication.factor",
    "offset_syncs_replication_factor": "offset-syncs.topic.replication.factor",
    "checkpoints_replication_factor": "checkpoints.topic.replication.factor",
    "heartbeats_replication_factor": "heartbeats.topic.replication.factor",
    "emit_offset_syncs": "emit.offset-syncs.enabled",
    "offset_lag_max": "offset.lag.max",
    "emit_checkpoints": "emit.checkpoints.enabled",
    "emit_checkpoints_interval_seconds": "emit.checkpoints.interval.seconds",
    "sync_group_offsets": "sync.group.offsets.enabled",
    "sync_group_offsets_interval_seconds": "sync.group.offsets.interval.seconds",
    "emit_heartbeats": "emit.heartbeats.enabled",
    "emit_heartbeats_interval_seconds": "emit.heartbeats.interval.seconds",
    "refresh_topics": "refresh.topics.enabled",
    "refresh_topics_interval_seconds": "refresh.topics.interval.seconds",
    "refresh_groups": "refresh.groups.enabled",
    "refresh_groups_interval_seconds": "refresh.groups.interval.seconds",
    "sync_topic_configs": "sync.topic.configs.enabled",
    "sync_topic_configs_interval_seconds": "sync.topic.configs.interval.seconds",
    "sync_topic_acls": "sync.topic.acls.enabled",
    "sync_topic_acls_interval_seconds": "sync.topic.acls.interval.seconds",
    "admin_timeout_ms": "admin.timeout.ms",
    "start": "mmtool.start",
    "round_seconds": "mmtool.round.seconds",
    "buffer_bytes": "mmtool.buffer.bytes",
    "throttle_bytes_per_second": "mmtool.throttle.bytes.per.second",
    "prefill_max_offsets": "mmtool.prefill.max.offsets",
    "on_data_loss": "mmtool.on.data.loss",
    "on_oversize": "mmtool.on.oversize",
    "on_timestamp_refused": "mmtool.on.timestamp.refused",
    "on_topic_recreated": "mmtool.on.topic.recreated",
}
"""Settings that a running flow takes over, and their keys in the file; and the credentials of its clusters."""

SIDES = ("source", "target")
"""The flow's clusters, as names in ``FlowSettings``; of their settings, credentials are live."""

OF_WORKERS = frozenset(
    {
        "emit_offset_syncs",
        "offset_lag_max",
        "buffer_bytes",
        "round_seconds",
        "on_data_loss",
        "on_oversize",
    }
)
"""Live settings that the workers receive when a round begins."""

OF_THE_DRIVER = frozenset(
    {
        "throttle_bytes_per_second",
        "prefill_max_offsets",
        "start",
        "on_timestamp_refused",
        "on_topic_recreated",
        "refresh_topics",
        "refresh_topics_interval_seconds",
        "admin_timeout_ms",
    }
)
"""Live settings that the driver reads each time that it needs them."""

AT_NEXT_START: Mapping[str, str] = {
    "policy": "replication.policy.* or mmtool.topic.rename.format",
    "topic_aliases": "source.cluster.alias, target.cluster.alias",
    "offset_syncs_location": "offset-syncs.topic.location",
    "isolation": "consumer.isolation.level",
    "origins": "mmtool.origins",
    "offsets": "mmtool.offsets",
    "spark_master": "mmtool.spark.master",
    "spark_conf": "mmtool.spark.conf.*",
}
"""Settings that apply at the next start, since they change what a flow is or what it runs on; with their keys."""

FIXED: Mapping[str, str] = {"shards": "mmtool.shards"}
"""Settings that only the flow's very first start reads; with their keys."""

NOT_READ_BY_REPLICATE = frozenset(
    {
        "enabled",
        "alias_keys",
        "way_back",
        "mirrors_canary",
        "hooks",
        "units",
        "mm2_exactly_once",
        "mm2_group",
        "mm2_offsets_topic",
        "failover_min_interval_seconds",
    }
)
"""Settings that a running flow does not read."""

_CLUSTER: Mapping[str, str] = {
    "bootstrap_servers": "bootstrap.servers",
    "role_bootstrap_servers": "bootstrap.servers",
    "expected_cluster_id": "mmtool.cluster.id",
    "security": "security.protocol",
    "role_security": "security.protocol",
    "producer": "producer.*",
    "consumer": "consumer.*",
    "admin": "admin.*",
}


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences between a running flow and its new settings. Keys only, no values: they may be secrets.

    Attributes:
        settings: The running flow's, with every change that applies at once.
        fields: The changed live settings, by their names in ``FlowSettings``; a cluster's for its credentials.
        applied: Their keys.
        waiting: Keys that take effect at the next start.
        fixed: Keys that a flow keeps from its first start.
    """

    settings: FlowSettings
    fields: frozenset[str]
    applied: tuple[str, ...]
    waiting: tuple[str, ...]
    fixed: tuple[str, ...]


def compare(running: FlowSettings, new: FlowSettings) -> Changes:
    """Compare the settings of a running flow with ``new``: what applies at once, at the next start, or never."""
    fields = [name for name in LIVE if getattr(running, name) != getattr(new, name)]
    renewed = {
        side: _with_credentials(getattr(running, side), getattr(new, side))
        for side in SIDES
        if _have_changed(getattr(running, side), getattr(new, side))
    }
    after = running.model_copy(update={**{name: getattr(new, name) for name in fields}, **renewed})
    credentials = (key for side in renewed for key in _credentials(getattr(running, side), renewed[side]))
    return Changes(
        settings=after,
        fields=frozenset((*fields, *renewed)),
        applied=(*(key for name in fields for key in _keys(name, running, new)), *credentials),
        waiting=(*_differing(AT_NEXT_START, running, new), *_of_clusters(after, new)),
        fixed=tuple(_differing(FIXED, running, new)),
    )


def _have_changed(running: ClusterSettings, new: ClusterSettings) -> bool:
    """Whether the credentials differ, and the protocols do not: another protocol needs another listener."""
    before, after = _securities(running), _securities(new)
    protocols = [{role: of.protocol for role, of in found.items()} for found in (before, after)]
    return before != after and protocols[0] == protocols[1]


def _securities(cluster: ClusterSettings) -> dict[str, Security]:
    return {"": cluster.security, **{role: cluster.security_for(role) for role in ROLES}}


def _with_credentials(running: ClusterSettings, new: ClusterSettings) -> ClusterSettings:
    return running.model_copy(update={"security": new.security, "role_security": new.role_security})


def _credentials(before: ClusterSettings, after: ClusterSettings) -> Iterator[str]:
    """The groups of keys by which the credentials of a cluster have changed, as ``A.sasl.*``."""
    pairs = list(zip(_securities(before).values(), _securities(after).values(), strict=True))
    if any(old.sasl != new.sasl for old, new in pairs):
        yield f"{after.alias}.sasl.*"
    if any(old.model_copy(update={"sasl": new.sasl}) != new for old, new in pairs):
        yield f"{after.alias}.ssl.*"


def _keys(name: str, running: FlowSettings, new: FlowSettings) -> Iterator[str]:
    """The keys of a changed setting; a filter has two, for its include and its exclude."""
    before, after = getattr(running, name), getattr(new, name)
    if not isinstance(before, NameFilter):
        yield LIVE[name]
        return
    if before.include != after.include:
        yield LIVE[name]
    if before.exclude != after.exclude:
        yield f"{LIVE[name]}.exclude"


def _differing(keys: Mapping[str, str], before: Any, after: Any) -> Iterator[str]:
    return (key for name, key in keys.items() if getattr(before, name) != getattr(after, name))


def _of_clusters(running: FlowSettings, new: FlowSettings) -> Iterator[str]:
    sides: tuple[tuple[ClusterSettings, ClusterSettings], ...] = (
        (running.source, new.source),
        (running.target, new.target),
    )
    for before, after in sides:
        for key in dict.fromkeys(_differing(_CLUSTER, before, after)):
            yield f"{before.alias}.{key}"
