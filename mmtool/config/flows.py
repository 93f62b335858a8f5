"""Read one flow's settings from the scopes of the properties file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mmtool.config.aliases import alias_keys, known_aliases, topic_aliases
from mmtool.config.javaregex import PatternRefusedError
from mmtool.config.keys import FLOW_KEYS, UNIT_PREFIX, Key
from mmtool.config.names import NameFilter
from mmtool.config.properties import PropertyEntry
from mmtool.config.redaction import RawProperties
from mmtool.config.report import Report
from mmtool.config.scopes import Properties, Scopes, is_security_key
from mmtool.config.settings import AnyPolicy, ClusterSettings, FlowSettings, Unit
from mmtool.config.transforms import FUNCTION, read_transforms
from mmtool.config.values import (
    RelativeStart,
    Start,
    java_parse_boolean,
    parse_boolean,
    parse_choice,
    parse_integer,
    parse_interval,
    parse_list,
    parse_replication_factor,
    parse_reset,
    parse_start,
    split_list,
)
from mmtool.plain_text import did_you_mean, nearest, shell_word
from mmtool.plan.failover.steps import HOOKABLE
from mmtool.plan.groups.names import NO_MAP, GroupMap, parse_group_map
from mmtool.translation.names import DefaultPolicy, IdentityPolicy, RenamePolicy, TopicAliases

Isolation = Literal["read_committed", "read_uncommitted"]

_COMMENT = re.compile(r"\s#")
_LITERAL = re.compile(r"\\Q.*?(?:\\E|$)|\\[^k]|\[\^?\]?(?:\\.|[^\]\\])*\]")
_VARIABLE = re.compile(r"\$\w|%[A-Za-z_]\w*%|(?<!\(\?)(?<!\\k)<[A-Za-z][^<>]*>")
"""A variable in a pattern without classes and quoted text; as an anchor, ``$`` before a word matches no name."""
_MIRROR_PACKAGE = "org.apache.kafka.connect.mirror."
_IDENTITY = {
    f"{_MIRROR_PACKAGE}IdentityReplicationPolicy",
    "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
}
_LEGAL = re.compile(r"[a-zA-Z0-9._-]*")
_TOPIC = "${topic}"
_NEEDS_SAME = (
    "mmtool.offsets = same beside external, because mmtool has no offset runs of such a mirror: set it for "
)
_NOT_WRITTEN = (
    "heartbeats_replication",
    "mirrors_canary",
    "emit_offset_syncs",
    "sync_topic_configs",
    "sync_topic_acls",
)
"""The fields that are switched off for an external mirror."""


def parse_value(key: Key, text: str) -> Any:  # noqa: PLR0911 - one return per kind is the clearest
    """The text of a key, parsed as the key's type.

    Raises:
        ValueError: The text is not of that type; the message says what is expected.
    """
    match key.kind:
        case "boolean":
            return parse_boolean(text)
        case "integer":
            return parse_integer(text, key.minimum, key.maximum, key.taken)
        case "interval":
            return parse_interval(text, key.maximum, key.taken[1])
        case "replicas":
            return parse_replication_factor(text)
        case "list":
            return parse_list(text)
        case "choice":
            return parse_choice(text, key.choices)
        case "start":
            return parse_start(text)
    return text


@dataclass(frozen=True, slots=True)
class FlowReader:
    """Reads the flow ``source->target``; an invalid value goes into the report and is replaced by its default."""

    scopes: Scopes
    source: ClusterSettings
    target: ClusterSettings
    report: Report

    def settings(self) -> FlowSettings:
        values = self._of_table()
        creates = {"creates_topics": values["create_topics"]}  # whoever gets a cluster gets the limit with it
        return FlowSettings(
            source=self.source.model_copy(update=creates),
            target=self.target.model_copy(update=creates),
            enabled=self.is_enabled(),
            topic_aliases=self.topic_aliases,
            alias_keys=alias_keys(self.scopes, self.source.alias, self.target.alias),
            isolation=self._isolation(),
            mm2_exactly_once=self._mm2_exactly_once(),
            mm2_group=self._worker_name("group.id", in_all=False),
            mm2_offsets_topic=self._worker_name("offset.storage.topic", in_all=True),
            spark_conf=RawProperties(_texts(self._free("mmtool.spark.conf."))),
            hooks=_texts(self._hooks()),
            units=self._units(),
            **values,
        )

    def _of_table(self) -> dict[str, Any]:
        """The fields that the table of keys sets."""
        values: dict[str, Any] = {}
        for name, key in FLOW_KEYS.items():
            values[key.field] = self._filter(name) if key.kind == "list" else self.value(name)
        for key in FLOW_KEYS.values():
            if key.kind == "interval" and values[key.field] < 0:  # switches off, as in MM2
                switch = FLOW_KEYS[key.name.replace(".interval.seconds", ".enabled")]
                values |= {switch.field: False, key.field: int(key.default or 1)}
        values |= self._of_external(values)
        on_error, topics = self.value(f"{FUNCTION}.on.error"), self._filter(f"{FUNCTION}.topics")
        transforms = read_transforms(self, topics, on_error, values["offsets"], values["mirror"])
        made = {"policy": _policy_of(self), "start": self._start(), "group_map": self._group_map()}
        return values | made | {"transforms": transforms}

    def _of_external(self, values: dict[str, Any]) -> dict[str, Any]:
        """The fields of a flow whose mirrors another system keeps: it writes none of them, nor their configs."""
        if values["mirror"] != "external":
            return {}
        entry = self.find("mmtool.mirror")
        if values["offsets"] != "same" and entry is not None:
            self.report.expected(entry, f"{_NEEDS_SAME}{self.source.alias}->{self.target.alias}")
        return dict.fromkeys(_NOT_WRITTEN, False)

    @property
    def topic_aliases(self) -> TopicAliases:
        return topic_aliases(self.scopes, self.source.alias, self.target.alias)

    def find(self, name: str) -> PropertyEntry | None:
        """The entry that sets a key, by scope; None where the default holds."""
        key = FLOW_KEYS[name]
        if key.is_own:
            return self.scopes.of_flow_own(self.source.alias, self.target.alias, name)
        return self.scopes.of_flow(self.source.alias, self.target.alias, name, flow_only=key.flow_only)

    def value(self, name: str) -> Any:
        """A key's value: from the entry that sets it, else the default."""
        key, entry = FLOW_KEYS[name], self.find(name)
        if entry is not None:
            try:
                self._warn_of_repeats(key, entry)
                return self._bounded(key, entry, parse_value(key, entry.value))
            except ValueError as error:
                self.report.expected(entry, str(error))
        return None if key.default is None else parse_value(key, key.default)

    def _bounded(self, key: Key, entry: PropertyEntry, value: Any) -> Any:
        """The value within mmtool's bounds, with a warning where it is changed; a negative interval stays."""
        if key.kind == "integer" and value < key.minimum:
            self.report.adjusted(entry, f"is too small; mmtool uses {key.minimum}")
            return key.minimum
        if key.kind in {"integer", "interval"} and value > key.maximum:
            self.report.adjusted(entry, f"is too large; mmtool uses {key.maximum}")
            return key.maximum
        return value

    def _warn_of_repeats(self, key: Key, entry: PropertyEntry) -> None:
        if key.kind == "list" and len(parse_list(entry.value)) < len(split_list(entry.value)):
            self.report.warn(
                entry, "lists an element more than once: the repetition has no effect (KIP-1161)"
            )

    def is_enabled(self) -> bool:
        """Whether the flow is enabled: ``S->T.enabled``, else the global key, by Java's parseBoolean."""
        entry = self.scopes.of_flow(self.source.alias, self.target.alias, "enabled")
        if entry is None:
            return False
        if entry.value.strip().lower() not in {"true", "false"}:
            self.report.warn(
                entry,
                "is neither true nor false: mmtool and MirrorMaker 2 read it as false, so the flow is not enabled",
            )
        return java_parse_boolean(entry.value.strip())

    def _patterns(self, name: str) -> tuple[str, ...]:
        patterns: tuple[str, ...] = self.value(name)
        return self._checked(patterns, self.find(name))

    def _checked(self, patterns: tuple[str, ...], entry: PropertyEntry | None) -> tuple[str, ...]:
        try:
            NameFilter(patterns)
        except PatternRefusedError as error:
            if entry is not None:
                reason = "" if entry.has_placeholder else f"; in `{error.pattern}`, {error.reason}"
                self.report.expected(entry, f"Java regular expressions{reason}")
            return ()
        if entry is not None:
            self._warn_of_dead_patterns(patterns, entry)
        return patterns

    def _warn_of_dead_patterns(self, patterns: tuple[str, ...], entry: PropertyEntry) -> None:
        """Warn of patterns that match no name: with a control character, a comment, or a variable not substituted."""
        if entry.has_placeholder:
            return
        for pattern in patterns:
            if not pattern.isprintable():
                self.report.warn(
                    entry,
                    f"`{pattern}` contains a character that no topic or group name has: remove it. In a properties "
                    "file, \\ starts an escape: write \\\\ for a backslash",
                )
            elif _COMMENT.search(pattern):
                self.report.warn(
                    entry,
                    f"`{pattern}` contains ` #`, and so matches no name: a comment starts only at the start of a line; "
                    "move the comment to its own line",
                )
            elif _VARIABLE.search(_LITERAL.sub("_", pattern)):
                self.report.warn(
                    entry,
                    f"`{pattern}` contains a variable that was not substituted, and so matches no name; "
                    "`${env:NAME}` reads the environment",
                )

    def _filter(self, name: str) -> NameFilter:
        """The filter that a key and its ``.exclude`` make together; without the first, it accepts all other names."""
        name = name.removesuffix(".exclude")
        include = self._patterns(name) if name in FLOW_KEYS else (".*",)
        return NameFilter(include, self._excludes(name))

    def _excludes(self, name: str) -> tuple[str, ...]:
        """The patterns of ``<name>.exclude``, and of ``<name>.blacklist``, which excluded names up to Kafka 3.9."""
        excludes = self._patterns(f"{name}.exclude") if f"{name}.exclude" in FLOW_KEYS else ()
        entry = self.scopes.of_flow(self.source.alias, self.target.alias, f"{name}.blacklist")
        if entry is None:
            return excludes
        present = f"{entry.key.removesuffix('blacklist')}exclude"
        merge = (
            "move them there"
            if present in self.scopes.entries
            else f"remove this key, and set {present} to the patterns that `mmtool config show -c"
            f" {shell_word(str(self.report.path))}` prints for {name}.exclude, followed by the patterns of this key"
        )
        self.report.warn(
            entry,
            f"Kafka has ignored this key since 4.0. mmtool adds its patterns to {present}: {merge}",
        )
        old = self._checked(parse_list(entry.value), entry)
        return self._checked(tuple(dict.fromkeys((*excludes, *old))), entry)

    def _group_map(self) -> GroupMap:
        """The file of ``mmtool.group.map``; one that cannot be opened is a warning, as stored names do without it."""
        entry = self.find("mmtool.group.map")
        if entry is None:
            return NO_MAP
        path = entry.value.strip()
        if not path:
            self.report.expected(entry, "the path of a CSV file with the columns source name,target name")
            return NO_MAP
        self.report.files.note(path)
        try:
            lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
            return GroupMap(parse_group_map(lines), path)
        except OSError as error:
            problem = f"{path}: {error.strerror}"
            self.report.warn(
                entry,
                f"{problem}; groups keep the names that are stored on the target, and others are refused",
            )
            return GroupMap({}, path, problem)
        except UnicodeDecodeError:
            self.report.refused(entry, f"{path}: not UTF-8 text")
        except ValueError as error:
            self.report.refused(entry, f"{path}: {error}")
        return NO_MAP

    def _isolation(self) -> Isolation:
        """The isolation level: ``isolation.level`` of the source consumer, by default read_committed."""
        entry = self.consumer_property("isolation.level")
        level = "read_committed" if entry is None else entry.value.strip().lower()
        if level == "read_uncommitted":
            return "read_uncommitted"
        if entry is not None and level != "read_committed":
            self.report.expected(entry, "read_committed or read_uncommitted")
        return "read_committed"

    def _start(self) -> RelativeStart:
        """Where new partitions start: ``mmtool.start``, else the source consumer's ``auto.offset.reset``, as in MM2."""
        if self.find("mmtool.start") is not None:
            start: Start = self.value("mmtool.start")
            return start
        entry = self.consumer_property("auto.offset.reset")
        try:
            return "earliest" if entry is None else parse_reset(entry.value)
        except ValueError as error:
            assert entry is not None
            self.report.expected(entry, str(error))
        return "earliest"

    def _mm2_exactly_once(self) -> bool:
        """Whether MM2 writes exactly once: a worker's setting, so it is taken from the target's scope alone."""
        entry = self.scopes.entries.get(f"{self.target.alias}.exactly.once.source.support")
        return entry is not None and entry.value.strip().lower() == "enabled"

    def _worker_name(self, name: str, *, in_all: bool) -> str | None:
        """A name that the file gives MM2's workers for the target; None where it gives none.

        Args:
            name: The key, without its scope.
            in_all: The global key applies to every worker, and wins over the target's
                (`MirrorMakerConfig.workerConfig`).
        """
        keys = [name, f"{self.target.alias}.{name}"] if in_all else [f"{self.target.alias}.{name}"]
        texts = (self.scopes.entries[key].value.strip() for key in keys if key in self.scopes.entries)
        return next((text for text in texts if text), None)

    def consumer_property(self, name: str) -> PropertyEntry | None:
        """The entry of a property of the consumer that reads the source; None where it is not set."""
        clients = self.scopes.flow_cluster(self.source.alias, self.target.alias, "source")
        return clients.roles["consumer"].get(name)

    def _free(self, prefix: str) -> Properties:
        return self.scopes.own_by_prefix(self.source.alias, self.target.alias, prefix)

    def _hooks(self) -> Properties:
        """The hooks by step; a hook for an unknown step is an error, since it would never run."""
        found = self._free("mmtool.hook.")
        for name, entry in found.items():
            if name not in HOOKABLE:
                close = did_you_mean([nearest(name, HOOKABLE)])
                meant = close or f"; these steps exist: {', '.join(HOOKABLE)}"
                self.report.refused(entry, f"{name} is no step that a hook can follow{meant}")
        return found

    def _units(self) -> dict[str, Unit]:
        entries = self._free(UNIT_PREFIX)
        names = dict.fromkeys(key.rpartition(".")[0] for key in entries if key.rpartition(".")[0])
        return {
            name: Unit(
                topics=self._unit_filter(entries.get(f"{name}.topics")),
                groups=self._unit_filter(entries.get(f"{name}.groups")),
            )
            for name in names
        }

    def _unit_filter(self, entry: PropertyEntry | None) -> NameFilter:
        return NameFilter(() if entry is None else self._checked(parse_list(entry.value), entry))


def _texts(properties: Properties) -> dict[str, str]:
    return {name: entry.value for name, entry in properties.items()}


def extras(properties: Properties) -> RawProperties:
    """A role's client properties without the security keys."""
    return RawProperties(
        {name: entry.value for name, entry in properties.items() if not is_security_key(name)}
    )


# --- a flow's names of topics: `replication.policy.*` and `mmtool.topic.rename.format` ------------------------


def _policy_of(flow: FlowReader) -> AnyPolicy:
    """The flow's naming policy; a Java class other than Kafka's own two is refused."""
    separator: str = flow.value("replication.policy.separator")
    entry = flow.find("replication.policy.separator")
    if entry is not None and not _LEGAL.fullmatch(separator):
        flow.report.expected(entry, "letters, digits, '.', '_' and '-', without a space at the end")
        separator = "."
    internal = None if flow.value("replication.policy.internal.topic.separator.enabled") else "."
    base = DefaultPolicy(separator, internal, known=known_aliases(flow.scopes))
    rename = flow.find("mmtool.topic.rename.format")
    if rename is not None:
        return _renaming(flow, rename, base)
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


def _renaming(flow: FlowReader, entry: PropertyEntry, base: DefaultPolicy) -> AnyPolicy:
    text = entry.value.strip()
    before, found, after = text.partition(_TOPIC)
    literal = (before + after).replace("${source}", "")
    if not found or not (before or after) or _TOPIC in after or not _LEGAL.fullmatch(literal):
        flow.report.expected(
            entry, "one ${topic}, with legal topic characters or ${source} before or after it, as dr-${topic}"
        )
        return base
    return RenamePolicy(flow.topic_aliases.source, flow.topic_aliases.target, before, after, base)
