"""The settings of the properties file for all other packages: frozen, typed, picklable; repr hides secrets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

from pydantic import PlainSerializer

from mmtool.config.credentials import Frozen, Security
from mmtool.config.names import LITERAL, NameFilter, matches_java
from mmtool.config.redaction import RawProperties
from mmtool.config.report import check_command
from mmtool.config.scopes import Role
from mmtool.config.values import RelativeStart, start_text
from mmtool.errors import ConfigError, UsageError
from mmtool.plain_text import Lines
from mmtool.plan.flow.transforms import Step, steps_for
from mmtool.plan.groups.names import NO_MAP, GroupMap
from mmtool.plan.records.identity import CANARY_TOPIC
from mmtool.translation.names import (
    DEAD_LETTER_SUFFIX,
    DefaultPolicy,
    IdentityPolicy,
    RenamePolicy,
    TopicAliases,
)

OWN_TOPIC_PREFIX = "mmtool-"
"""The prefix of mmtool's internal topics, which are never mirrored, except the canary (`CANARY_TOPIC`)."""

_Way = tuple[str, ...]
"""The aliases of a chain's clusters, in order."""
AnyPolicy = DefaultPolicy | IdentityPolicy | RenamePolicy

Properties = Annotated[RawProperties, PlainSerializer(RawProperties.redacted)]
Names = Annotated[
    NameFilter, PlainSerializer(lambda names: {"include": names.include, "exclude": names.exclude})
]


class ClusterSettings(Frozen):
    """One alias; as ``FlowSettings.source`` or ``target`` with the flow's own overrides applied.

    Attributes:
        alias: As in ``clusters``.
        bootstrap_servers: Comma list of host:port.
        expected_cluster_id: ``ALIAS.mmtool.cluster.id``; a cluster that answers with another id is refused.
        creates_topics: ``mmtool.create.topics`` of the flow.
        security: ``ALIAS.k`` over global ``k``.
        role_bootstrap_servers: By role, where ``ALIAS.<role>.bootstrap.servers`` differs.
        role_security: By role, where ``ALIAS.<role>.k`` differs.
        producer: Extra client properties by their Java names, security keys taken out.
        consumer: Likewise.
        admin: Likewise.
    """

    alias: str
    bootstrap_servers: str
    expected_cluster_id: str | None = None
    creates_topics: bool = True
    security: Security = Security()
    role_bootstrap_servers: Mapping[Role, str] = {}
    role_security: Mapping[Role, Security] = {}
    producer: Properties = RawProperties()
    consumer: Properties = RawProperties()
    admin: Properties = RawProperties()

    def bootstrap_servers_for(self, role: Role) -> str:
        return self.role_bootstrap_servers.get(role, self.bootstrap_servers)

    def security_for(self, role: Role) -> Security:
        return self.role_security.get(role, self.security)

    def all_secrets(self) -> frozenset[str]:
        """The passwords of every role in plain text."""
        securities = (self.security, *self.role_security.values())
        return frozenset().union(*(security.secrets() for security in securities))

    def extras(self, role: Role) -> Mapping[str, str]:
        """The properties of a role, ``producer``, ``consumer`` or ``admin``, without the security keys."""
        return {"producer": self.producer, "consumer": self.consumer, "admin": self.admin}[role]


class Unit(Frozen):
    """``mmtool.unit.NAME``: topics and groups that move together."""

    topics: Names
    groups: Names


class Transforms(Frozen):
    """What a flow does to records on the way.

    Attributes:
        steps: MirrorMaker 2's transforms, for every topic that their conditions meet.
        function: ``module:name`` of ``mmtool.transform``; empty without one.
        topics: The source topics whose records the function gets.
        settings: The keys ``mmtool.transform.KEY``, by the KEY.
        public: Those of them that are no secrets.
        on_error: What a ready-made function does with a value that is no JSON.
        folder: Where the file is, and where the module of the function is looked for first.
    """

    steps: tuple[Step, ...] = ()
    function: str = ""
    topics: Names = NameFilter((".*",))
    settings: Properties = RawProperties()
    public: Mapping[str, str] = {}
    on_error: Literal["halt", "drop", "copy"] = "halt"
    folder: str = ""


class FlowSettings(Frozen):
    """One directed flow ``source->target``. Intervals in seconds, sizes in bytes; meanings in keys.toml.

    Attributes:
        topic_aliases: The aliases in topic names: those of source and target, unless the file overrides them.
        mirrors_canary: Whether the topic of `mmtool smoke` is mirrored, which no filter has to match.
        alias_keys: The keys by which the file overrides each of these aliases: the flow's own key where it is set.
        way_back: ``mmtool.origins`` of the reverse flow, where the file enables that flow as well.
        mm2_exactly_once: Connect's ``TARGET.exactly.once.source.support`` is enabled: MM2 copies nothing twice.
        mm2_group: The file's name for the group of MM2's workers; None where MM2 names it.
        mm2_offsets_topic: Likewise for the topic of their stored offsets.
        accepts_unverified: ``--accept-unverified``: offsets of an external mirror that was not compared are used.
    """

    source: ClusterSettings
    target: ClusterSettings
    enabled: bool
    way_back: Literal["all", "local"] | None = None
    mirrors_canary: bool = True
    policy: AnyPolicy
    topic_aliases: TopicAliases
    alias_keys: TopicAliases
    topics: Names
    groups: Names
    config_properties_exclude: Names
    use_defaults_from: Literal["source", "target"]
    heartbeats_replication: bool
    replication_factor: int
    offset_syncs_replication_factor: int
    checkpoints_replication_factor: int
    heartbeats_replication_factor: int
    emit_offset_syncs: bool
    offset_syncs_location: Literal["source", "target"]
    offset_lag_max: int
    emit_checkpoints: bool
    emit_checkpoints_interval_seconds: int
    sync_group_offsets: bool
    sync_group_offsets_interval_seconds: int
    emit_heartbeats: bool
    emit_heartbeats_interval_seconds: int
    refresh_topics: bool
    refresh_topics_interval_seconds: int
    refresh_groups: bool
    refresh_groups_interval_seconds: int
    sync_topic_configs: bool
    sync_topic_configs_interval_seconds: int
    sync_topic_acls: bool
    sync_topic_acls_interval_seconds: int
    admin_timeout_ms: int
    isolation: Literal["read_committed", "read_uncommitted"]
    start: RelativeStart
    mm2_exactly_once: bool = False
    mm2_group: str | None = None
    mm2_offsets_topic: str | None = None
    accepts_unverified: bool = False
    origins: Literal["all", "local"]
    offsets: Literal["translated", "same"]
    mirror: Literal["own", "external"]
    prefill_max_offsets: int
    spark_master: str | None
    spark_conf: Properties
    round_seconds: int
    shards: int
    buffer_bytes: int
    throttle_bytes_per_second: int | None
    failover_min_interval_seconds: int | None
    group_map: GroupMap = NO_MAP
    on_data_loss: Literal["halt", "continue"]
    on_oversize: Literal["halt", "dead-letter"]
    on_timestamp_refused: Literal["halt", "raise-limit"]
    on_topic_recreated: Literal["halt", "restart"]
    create_topics: bool
    transforms: Transforms = Transforms()
    hooks: Mapping[str, str]
    units: Mapping[str, Unit]

    @property
    def name(self) -> str:
        """The flow's name, ``A->B``, as in the file."""
        return f"{self.source.alias}->{self.target.alias}"

    @property
    def start_setting(self) -> str:
        """The start position with the key that sets it, as the file would have it."""
        text = start_text(self.start)
        of_consumer = self.source.consumer.get("auto.offset.reset", "").strip().lower() == text
        by_consumer = isinstance(self.start, timedelta) or of_consumer
        return f"{'consumer.auto.offset.reset' if by_consumer else 'mmtool.start'} = {text}"

    @property
    def reads_committed(self) -> bool:
        """Whether aborted records of the source are skipped."""
        return self.isolation == "read_committed"

    @property
    def begins_again(self) -> bool:
        """Whether a mirror restarts when its topic was recreated, rather than being refused."""
        return self.on_topic_recreated == "restart"

    @property
    def keeps_names(self) -> bool:
        """Whether a topic has the same name on both clusters."""
        if isinstance(self.policy, DefaultPolicy):
            return not (self.topic_aliases.source or self.policy.separator)
        return isinstance(self.policy, IdentityPolicy)

    @property
    def tells_origins(self) -> bool:
        """Whether a record's origin decides if it is mirrored: names do not show it, or `local` is configured."""
        return self.keeps_names or self.origins == "local"

    @property
    def must_tell_origins(self) -> bool:
        """Whether records certainly reach the source by mirroring, so that their origins must be readable."""
        return (self.keeps_names and self.way_back is not None) or self.origins == "local"

    @property
    def exchanges_all(self) -> bool:
        """Whether both directions mirror all records, so that the two flows' offset runs cover every record."""
        return self.origins == self.way_back == "all"

    def for_topics(self, names: Iterable[str]) -> FlowSettings:
        """The same flow for the given source topics alone; in topic names only the dot is special in patterns."""
        topics = NameFilter(tuple(name.replace(".", r"\.") for name in sorted(names)))
        narrowed = {"topics": topics, "heartbeats_replication": False, "mirrors_canary": False}
        return self.model_copy(update=narrowed)

    def mirrors_topic(self, name: str) -> bool:
        """Whether a source topic is mirrored, as MM2 decides it: filter or heartbeats, not internal, not a cycle.

        Of mmtool's internal topics only the canary is mirrored, whatever the filter says.
        """
        return self._wants(name) and not self.policy.is_cycle(self.topic_aliases.target, name)

    def names_topic(self, name: str) -> bool:
        """Whether ``topics`` and ``topics.exclude`` accept a topic; heartbeats and the canary need not be accepted."""
        return name != CANARY_TOPIC and self.topics.accepts(name)

    @property
    def literal_topics(self) -> frozenset[str]:
        """The mirrored topics that ``topics`` names literally, whether they exist or not."""
        return frozenset(filter(self.mirrors_topic, filter(LITERAL.fullmatch, self.topics.include)))

    def unmirrored(self, name: str) -> str:
        """Why a source topic is not mirrored, in words; empty where it is."""
        if self.mirrors_topic(name):
            return ""
        if self.came_from_target(name):
            return f"its name is that of a mirror from {self.target.alias}"
        if self._is_internal(name):
            return "an internal topic"
        return f"topics: {self.topics.refusal(name)}"

    def came_from_target(self, name: str) -> bool:
        """Whether a source topic is not mirrored only because it is itself a mirror of a target topic."""
        return self._wants(name) and self.policy.is_cycle(self.topic_aliases.target, name)

    def may_be_born_here(self, name: str) -> bool:
        """Whether a topic counts as a mirror by a name that a topic created on the source could have as well."""
        policy = self.policy
        letters = isinstance(policy, DefaultPolicy) and not policy.separator
        guessed = letters or (isinstance(policy, RenamePolicy) and not policy.names_source)
        return guessed and not policy.is_heartbeats_topic(name) and self.came_from_target(name)

    def _is_internal(self, name: str) -> bool:
        own = name.startswith(OWN_TOPIC_PREFIX) or name.endswith(DEAD_LETTER_SUFFIX)
        return own or self.policy.is_internal_topic(name)

    def _wants(self, name: str) -> bool:
        if name == CANARY_TOPIC:
            return self.mirrors_canary
        if self._is_internal(name):
            return False
        return self.topics.accepts(name) or (
            self.heartbeats_replication and self.policy.is_heartbeats_topic(name)
        )

    def keeps_offsets(self, topic: str) -> bool:
        """Whether the records of a source topic's mirror have the source's own offsets."""
        return self.offsets == "same" and not self.policy.is_heartbeats_topic(topic)

    @property
    def is_external(self) -> bool:
        """Whether another system keeps the mirrors, with the source's own offsets; mmtool copies nothing."""
        return self.mirror == "external"

    @property
    def writes_same_offsets(self) -> bool:
        """Whether mmtool itself writes mirrors with the source's own offsets."""
        return self.offsets == "same" and not self.is_external

    def accepting_unverified(self, accepts: bool) -> FlowSettings:
        """The same flow; with ``accepts``, also offsets of its mirrors that were not compared with the source."""
        return self.model_copy(update={"accepts_unverified": True}) if accepts else self

    @property
    def as_mm2_copies(self) -> FlowSettings:
        """The same flow without the function of ``mmtool.transform``, which MirrorMaker 2 does not know."""
        return self.model_copy(update={"transforms": self.transforms.model_copy(update={"function": ""})})

    def steps_of(self, topic: str) -> tuple[Step, ...]:
        """MirrorMaker 2's transforms that apply to records of a source topic."""
        return steps_for(self.transforms.steps, self.remote_topic(topic), matches_java)

    def function_of(self, topic: str) -> str:
        """The function that gets the records of a source topic; empty where none does."""
        is_meant = self.transforms.topics.accepts(topic) and not self.policy.is_heartbeats_topic(topic)
        return self.transforms.function if is_meant and topic != CANARY_TOPIC else ""

    def unused_transforms(self, topics: Iterable[str]) -> tuple[str, ...]:
        """The names in ``mmtool.transform.topics`` that select none of these source topics."""
        if not self.transforms.function:
            return ()
        names = list(filter(self.function_of, topics))
        return tuple(one for one in self.transforms.topics.include if not NameFilter((one,)).select(names))

    def kept_in(self, topic: str) -> str:
        """The target topic whose records have a source topic's own offsets; empty where they are translated."""
        return self.remote_topic(topic) if self.keeps_offsets(topic) else ""

    def remote_topic(self, name: str) -> str:
        """The name of a source topic's mirror on the target."""
        return self.policy.format_remote_topic(self.topic_aliases.source, name)

    def source_topic(self, remote: str) -> str | None:
        """The source topic of a mirror by its name; None where no source topic has such a mirror."""
        return self.policy.source_topic(self.topic_aliases.source, remote)

    @property
    def checkpoints_topic(self) -> str:
        """MM2's checkpoints topic, on the target."""
        return self.policy.checkpoints_topic(self.topic_aliases.source)

    @property
    def offset_syncs_topic(self) -> str:
        """MM2's offset-syncs topic, on the side that ``offset-syncs.topic.location`` names."""
        aliases = self.topic_aliases
        other = aliases.source if self.offset_syncs_location == "target" else aliases.target
        return self.policy.offset_syncs_topic(other)


class Settings(Frozen):
    """All settings of a file.

    Attributes:
        path: The file.
        clusters: By alias, in the order of ``clusters``.
        flows: The enabled ones, in the order in which the file enables them.
        all_flows: Every ordered pair of aliases, enabled or not.
        faults: By ``A->B``, why a pair that is not enabled cannot be used: an error only when a command names that
            pair.
        warnings: Sentences for stderr; they name keys, never values of unknown keys.
    """

    path: Path
    clusters: Mapping[str, ClusterSettings]
    flows: tuple[FlowSettings, ...]
    all_flows: tuple[FlowSettings, ...]
    faults: Mapping[str, tuple[str, ...]] = {}
    warnings: tuple[str, ...] = ()

    def secrets(self) -> frozenset[str]:
        """Every password of the file in plain text, for ``mmtool.output.hide``."""
        sides = (side for flow in self.all_flows for side in (flow.source, flow.target))
        return frozenset().union(*(cluster.all_secrets() for cluster in (*self.clusters.values(), *sides)))

    @property
    def heartbeats_only(self) -> tuple[FlowSettings, ...]:
        """Flows that are not enabled and have heartbeats, which is the default: MM2 writes heartbeats for them too."""
        return tuple(
            flow
            for flow in self.all_flows
            if not flow.enabled and flow.emit_heartbeats and flow.name not in self.faults
        )

    @property
    def without_heartbeats(self) -> tuple[str, ...]:
        """Reverse flows of enabled flows that would have heartbeats if their settings were valid."""
        usable = (flow for flow in self.flows if flow.name not in self.faults)
        back = {(flow.target.alias, flow.source.alias) for flow in usable}
        pairs = (f for f in self.all_flows if not f.enabled and f.emit_heartbeats and f.name in self.faults)
        return tuple(f.name for f in pairs if (f.source.alias, f.target.alias) in back)

    def one(self, source: str | None, target: str | None, *, to_write: bool = False) -> FlowSettings:
        """The one flow that ``-s`` and ``-t`` select, for commands that work on one flow.

        Raises:
            UsageError: As `select`; or several flows are selected, which are listed.
        """
        flows = self.select(source, target, to_write=to_write)
        if len(flows) > 1:
            raise UsageError(
                f"several flows are enabled: {', '.join(flow.name for flow in flows)}",
                remedy=f"name one, as -s {flows[0].source.alias} -t {flows[0].target.alias}",
            )
        return flows[0]

    def chain(
        self, source: str | None, target: str | None, *, to_write: bool = False
    ) -> tuple[FlowSettings, ...]:
        """As `one`; or the shortest chain of enabled flows from ``-s`` to ``-t``, where no direct flow is enabled.

        Raises:
            UsageError: As `one`; or several chains are as short.
        """
        enabled = {(flow.source.alias, flow.target.alias): flow for flow in self.flows}
        if source is None or target is None or (source, target) in enabled:
            return (self.one(source, target, to_write=to_write),)
        ways = _shortest_ways(enabled.keys(), source, target)
        if len(ways) > 1:
            raise UsageError(
                f"several chains of flows lead from {source} to {target}: {', '.join(map('->'.join, ways))}",
                remedy=f"choose a chain and run the command for each of its flows, first -s {source} -t {ways[0][1]}",
            )
        if ways:
            return tuple(enabled[hop] for hop in pairwise(ways[0]))
        return (self.one(source, target, to_write=to_write),)

    def select(
        self, source: str | None, target: str | None, *, to_write: bool = False
    ) -> tuple[FlowSettings, ...]:
        """The flows that ``-s`` and ``-t`` select, for a command that only reads or for one ``to_write``.

        Naming both gives a reading command that pair, whether or not the file enables it. All others get enabled flows
        only: the file states the direction that is meant, and a mistyped option cannot reverse it.

        Raises:
            UsageError: An alias is unknown, both are the same, or no flow is left; or a selected flow's settings are
                invalid.
        """
        for option, alias in (("--source", source), ("--target", target)):
            if alias is not None and alias not in self.clusters:
                raise UsageError(
                    f"{option} {alias}: {self.path} has no such cluster",
                    remedy=f"name one of the clusters: {', '.join(self.clusters)}",
                )
        if source is not None and source == target:
            raise UsageError(f"--source and --target are both {source}", remedy="name two different clusters")
        flows = self.flows if to_write or None in {source, target} else self.all_flows
        chosen = tuple(
            one for one in flows if source in {None, one.source.alias} and target in {None, one.target.alias}
        )
        if not chosen:
            raise self._not_enabled(source, target)
        faults = [fault for flow in chosen for fault in self.faults.get(flow.name, ())]
        if faults:
            raise ConfigError(Lines.of(dict.fromkeys(faults)), remedy=check_command(self.path))
        return chosen

    def _not_enabled(self, source: str | None, target: str | None) -> UsageError:
        enabled = [(flow.source.alias, flow.target.alias) for flow in self.flows]
        first, second = [*self.clusters, "A", "B"][:2]
        a = source or (first if first != target else second)
        b = target or (second if a != second else first)
        name, enable = f"{a}->{b}", f"set {a}->{b}.enabled = true in {self.path}"
        if (target, source) in enabled:
            return UsageError(
                f"{name} is not enabled; did you swap -s and -t?",
                remedy=f"run the same command with -s {b} -t {a}, which names the original flow also for a failback and"
                f" for --reverse; to use {name} itself, {enable}",
            )
        if source and target:
            return UsageError(f"{name} is not enabled", remedy=enable)
        where = f" from {source}" if source else f" to {target}" if target else ""
        names = ", ".join(map("->".join, enabled))
        remedy = f"name an enabled flow with -s and -t: {names}" if names else enable
        return UsageError(f"{self.path}: no flow{where} is enabled", remedy=remedy)


def _shortest_ways(flows: Collection[tuple[str, str]], source: str, target: str) -> list[_Way]:
    """Every chain of the fewest flows from one cluster to another; empty where no flows lead there.

    Args:
        flows: Source and target of each, by their aliases.
        source: The first cluster of each chain.
        target: The last cluster of each chain.
    """
    ways: list[_Way] = [(source,)]
    seen = {source}
    while ways:
        arrived = [way for way in ways if way[-1] == target]
        if arrived:
            return arrived
        ways = [
            (*way, there) for way in ways for here, there in flows if here == way[-1] and there not in seen
        ]
        seen |= {way[-1] for way in ways}
    return []
