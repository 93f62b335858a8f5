"""Doctor checks ``partitions``, ``names`` and ``schema_registry``: whether each topic has a usable mirror; ``loop``."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from mmtool.doctor.finding import SOURCE, Finding, flow_check, limited, problem, warning
from mmtool.errors import MmtoolError, NotAuthorisedError, RefusedError, UsageError
from mmtool.insight.group_names import cure, listed_groups, refused_names
from mmtool.plan.records.documents import State
from mmtool.plan.topics.facts import check_filters_and_rights, meeting, name_problem, taken_names
from mmtool.plan.topics.requirements import PRINT_TOPICS
from mmtool.plan.words import counted, few, named_topics
from mmtool.replication.ownership.checks import refuse_changed_names
from mmtool.replication.ownership.limits import refuse_growth, refuse_meeting, refuse_repetition
from mmtool.replication.topics.topic_needs import TopicNeeds
from mmtool.translation.names import DefaultPolicy
from mmtool.translation.types import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from mmtool.config import FlowSettings, Settings
    from mmtool.doctor.examination import ExaminedFlow
    from mmtool.plan.flow.positions import PartitionRow
    from mmtool.plan.topics.facts import TopicFacts
    from mmtool.translation.names import ReplicationPolicy


SCHEMAS_TOPIC = "_schemas"
"""The topic where Confluent's schema registry, and compatible ones, keep their schemas by default."""
_NAMES_STAY = "its mirror cannot get another name, because the flow has run already"


# --- partitions -------------------------------------------------------------------------------------------


@flow_check("partitions", "each mirror has or gets as many partitions as its source topic")
def check_partitions(flow: ExaminedFlow) -> Iterator[Finding]:
    """Each mirror has as many partitions as its source topic, and none is halted.

    Problem: the mirror has fewer, and `refresh.topics.enabled = false`; a partition is halted
    Warning: the mirror has more
    Effect: the missing partitions are not mirrored; with more, keys change partitions after a failover
    Remedy: `refresh.topics.enabled = true`; `kafka-topics.sh --alter`
    """
    ran = _has_run(flow)
    there = flow.target_topics()
    for name, topic in sorted(flow.mirrored().items()):
        mirror = there.get(flow.settings.remote_topic(name))
        if mirror is not None or ran:
            yield from judge_partitions(flow.settings, topic, mirror)
    yield from judge_halted(flow.settings, [standing.row for standing in flow.standings()])


@flow_check(
    "topics",
    "every topic that the flow needs exists, with its partitions and its cleanup.policy",
    only=lambda flow: not flow.settings.create_topics,
)
def check_topics(flow: ExaminedFlow) -> Iterator[Finding]:
    """With `mmtool.create.topics = false`: mmtool's internal topics, MirrorMaker 2's and the mirrors are as needed.

    Problem: a topic is missing, has too few partitions or another `cleanup.policy`
    Effect: `replicate` waits for the topic
    Remedy: `mmtool acls --topics`
    """
    needed = TopicNeeds([flow.clusters], flow.settings_of_file.heartbeats_only).topics()
    yield from limited(
        problem(topic.cluster, topic.topic, f"{topic.reason}; mmtool.create.topics = false", PRINT_TOPICS)
        for topic in needed
        if topic.reason
    )


def _has_run(flow: ExaminedFlow) -> bool:
    """Whether mmtool or MirrorMaker 2 has run the flow: `mmtool replicate` then refuses other names of its mirrors."""
    return flow.control().flow is not None or flow.mm2_runs()


def judge_partitions(
    settings: FlowSettings, topic: TopicFacts, mirror: TopicFacts | None
) -> Iterator[Finding]:
    """Findings about a mirror's partitions: fewer that replicate does not add are a problem, more are a warning.

    Args:
        settings: The settings of the flow, which ran before.
        topic: The topic on the source.
        mirror: Its mirror on the target; None where it does not exist.
    """
    alias, name = settings.target.alias, settings.remote_topic(topic.name)
    have = 0 if mirror is None else mirror.partitions
    key = "refresh.topics.enabled"
    if have < topic.partitions and not settings.refresh_topics and settings.create_topics:
        has = "does not exist" if mirror is None else f"has {counted(have, 'partition')}"
        needed = counted(topic.partitions, "partition")
        left = topic.name if mirror is None else f"from partition {have} on, {topic.name}"
        starts = "creates the topic" if mirror is None else "adds the partitions"
        yield problem(
            alias,
            name,
            f"{name} on {alias} {has}, and {topic.name} on {settings.source.alias} has {needed}; with {key} = false,"
            f" {left} is not mirrored",
            f"set {settings.name}.{key} = true; or stop and start `mmtool replicate`, which {starts} when it starts",
        )
    if have > topic.partitions:
        yield warning(
            alias,
            name,
            f"{name} on {alias} has {counted(have, 'partition')}, and {topic.name} on {settings.source.alias} has"
            f" {topic.partitions}: after a failover producers put keys into other partitions than before",
            f"to move the keys now and not in a failover: kafka-topics.sh --bootstrap-server"
            f" {settings.source.bootstrap_servers} --alter --topic {topic.name} --partitions {have}",
        )


def judge_halted(settings: FlowSettings, rows: Iterable[PartitionRow]) -> Iterator[Finding]:
    """A problem for each topic with halted partitions: a planned failover's drain would refuse them."""
    halted = sorted(
        (row for row in rows if row.state == State.HALTED), key=lambda row: (row.topic, row.partition)
    )
    for topic, of in groupby(halted, key=lambda row: row.topic):
        first, *others = of
        more = f", and {counted(len(others), 'more partition')} of {topic}" if others else ""
        yield problem(
            settings.target.alias,
            settings.remote_topic(topic),
            f"{topic}-{first.partition}{more} of {settings.name} is halted: {first.reason}",
            f"remove the cause; `mmtool status -c FILE --topic {topic}` shows each partition",
        )


# --- names ------------------------------------------------------------------------------------------------


@flow_check("names", "every mirrored topic has a valid name of its own on the target")
def check_names(flow: ExaminedFlow) -> Iterator[Finding]:
    """Each mirrored topic has a valid name of its own on the target, which no other flow and no other topic uses.

    Problem: the name is too long or not allowed; two topics have it; the target topic holds records, and no flow
        is known to have written them; the configuration now gives the mirror another name than when the flow ran; a
        group's name on the target (`mmtool.group.map`) belongs to another group
    Warning: the flow matches no topic
    Effect: the topic is not mirrored, or is mixed with other records; the group is not synced and cannot move
    Remedy: exclude the topic with `topics.exclude`; if the flow has not run yet, rename the mirrors with
        `mmtool.topic.rename.format`; if the records are from a flow that was forgotten (`mmtool flow forget`),
        `mmtool flow rebuild --execute`
    """
    settings = flow.settings
    mirrored = flow.mirrored()
    if not mirrored:
        yield warning(
            settings.source.alias,
            settings.name,
            f"{settings.name} matches no topic of {settings.source.alias}: nothing is mirrored",
            check_filters_and_rights(settings.name, settings.source.alias),
        )
    ran: bool | Unknown = UNKNOWN
    with suppress(MmtoolError):  # a wrong name is found all the same where stored state cannot be read
        ran = _has_run(flow)
    yield from judge_names(settings, mirrored, flow.target_topics(), has_run=ran)
    yield from _taken(flow, has_run=ran)
    yield from _refused(flow)
    yield from _unknown_mirrors(flow)
    yield from _group_names(flow)


def _group_names(flow: ExaminedFlow) -> Iterator[Finding]:
    """Findings about groups whose name on the target (``mmtool.group.map``) is not theirs, or unknown."""
    names, control = flow.clusters.names, flow.control()
    if names.map.file:
        names.adopt(control.group_names, control.moved, partial(listed_groups, flow.clusters.target))
        here = flow.groups().states
        selected = [group for group in here if flow.settings.groups.accepts(group)]
        for group, why in refused_names(names, flow.clusters.target, selected, here).items():
            yield problem(
                flow.settings.target.alias, group, f"group {group} cannot be written: {why}", cure(names)
            )


def judge_names(
    settings: FlowSettings,
    mirrored: Collection[str],
    on_target: Collection[str],
    *,
    has_run: bool | Unknown = False,
) -> Iterator[Finding]:
    """Findings about names that Kafka's rules forbid (class ``Topic``), and topics that would share a mirror.

    Args:
        settings: The flow's settings.
        mirrored: The source topics that are mirrored.
        on_target: The target's topics.
        has_run: Whether the flow has run: `mmtool replicate` then refuses other names.
    """
    alias = settings.target.alias
    shared = meeting(mirrored, settings.remote_topic, alias)
    for topic, shares in sorted(shared.items()):
        yield problem(
            alias,
            topic,
            shares.cause,
            f"add {topic} or the other topic to topics.exclude of {settings.name}",
        )
    missing = {
        settings.remote_topic(name): name
        for name in sorted(mirrored)
        if settings.remote_topic(name) not in on_target
    }
    alike: dict[str, set[str]] = {}
    for topic in (*on_target, *missing):
        alike.setdefault(metric_name(topic), set()).add(topic)
    renamed = f"set {settings.name}.mmtool.topic.rename.format so that mirrors get other names"
    for remote, name in missing.items():
        cause = ""
        if why := name_problem(remote):
            cause = why
        elif others := sorted(alike[metric_name(remote)] - {remote}):
            cause = (
                f"it collides with {others[0]}, because Kafka's metric names do not distinguish '.' and '_'"
            )
        if cause:
            remedy = _left_out(settings, name, renamed, has_run=has_run)
            yield problem(alias, name, f"{remote} cannot be created on {alias}: {cause}", remedy)


def _left_out(settings: FlowSettings, topic: str, renamed: str, *, has_run: bool | Unknown) -> str:
    """The remedy for a topic whose mirror needs another name; ``renamed`` gives one, before the flow's first run."""
    exclude = f"add {topic} to topics.exclude of {settings.name}"
    if has_run is UNKNOWN:
        return exclude
    return f"{exclude}; {_NAMES_STAY}" if has_run else f"{exclude}, or {renamed}"


def metric_name(topic: str) -> str:
    """A topic's name in Kafka's metrics: two topics of one cluster must not share it (``Topic.hasCollision``)."""
    return topic.replace(".", "_")


def _taken(flow: ExaminedFlow, *, has_run: bool | Unknown) -> Iterator[Finding]:
    """Findings about mirrors that another mmtool flow to the same target writes."""
    if flow.settings.keeps_names:
        return
    taken = {
        position.target_topic: f"{alias}->{flow.settings.target.alias}"
        for alias, control in flow.other_controls().items()
        for position in control.positions.values()
    }
    settings = flow.settings
    found = taken_names(flow.mirrored(), settings.remote_topic, taken, settings.target.alias)
    renamed = f"set {settings.alias_keys.source} to another alias: the names of the mirrors contain it"
    for topic, why in sorted(found.items()):
        remedy = _left_out(settings, topic, renamed, has_run=has_run)
        yield problem(settings.target.alias, topic, why.cause, remedy)


def _refused(flow: ExaminedFlow) -> Iterator[Finding]:
    """The finding of names for which `mmtool replicate` would refuse to start."""
    settings = flow.settings
    alias, control = settings.target.alias, flow.control()
    left = {position.topic for position in control.positions.values()} - set(flow.source_topics())
    spared = left | {topic.topic for topic in control.holds.failed_over.values()}
    try:
        refuse_changed_names(settings, control.positions.values(), spared)
        flow.clusters.state.check_aliases(flow.identity(), flow.target_topics())
        refuse_meeting(flow.settings_of_file.flows)
    except (RefusedError, UsageError) as error:
        yield problem(alias, settings.name, error.message, error.remedy)


def _unknown_mirrors(flow: ExaminedFlow) -> Iterator[Finding]:
    """Findings about target topics that have a mirror's name and hold records that no flow wrote."""
    if flow.settings.is_external or (flow.settings.keeps_names and flow.settings.way_back is not None):
        return
    source, alias = flow.settings.source.alias, flow.settings.target.alias
    names = {mirror: name for name, mirror in flow.mirror_names().items()}
    doubted = flow.held_on_target(flow.mirrors().keys() - set(_written_by_mmtool(flow)))
    if not doubted:
        return  # MirrorMaker 2's topics are read only where mmtool's own do not tell all
    try:
        traces = flow.traces()
    except NotAuthorisedError as error:
        named = sorted(doubted)
        message = f"mmtool could not check whether a flow wrote to {few(named)} on {alias}: {error.message}"
        yield warning(alias, named[0] if len(named) == 1 else "", message, error.remedy)
        return
    copied = traces.topics | {place.topic for of in traces.held.checkpoints.values() for place in of}
    for remote in sorted(doubted.keys() - set(map(flow.settings.remote_topic, copied))):
        # one that the flow has mirrored is found here after `mmtool flow forget`: `flow rebuild` reads only records
        # that the flow itself wrote, and is refused before mmtool has run it
        topic, rebuild = names[remote], ""
        if flow.control().flow is not None:
            rebuild = (
                f"if `mmtool flow forget` removed the state of {topic}: stop `mmtool replicate`, run `mmtool flow"
                f" rebuild -c FILE -s {source} -t {alias} --topic {topic} --execute`, and start `mmtool replicate`;"
                " otherwise "
            )
        yield problem(
            alias,
            remote,
            f"{remote} on {alias} holds {counted(doubted[remote], 'offset')}, and no flow is known to have written to"
            f" it: the next `mmtool replicate` of {flow.name} appends the records of {topic} to it",
            f"{rebuild}delete {remote} on {alias}, or keep it and add {topic} to topics.exclude of {flow.name}",
        )


def _written_by_mmtool(flow: ExaminedFlow) -> Iterator[str]:
    """Target topics that mmtool's flows have written; recreated topics are left out."""
    there, blocks = flow.target_topics(), flow.blocks().values()
    for about in (block.about for block in blocks):
        if about.target_topic in there and there[about.target_topic].topic_id == about.target_topic_id:
            yield about.target_topic
    booked = {block.about.source_topic for block in blocks}
    own = flow.control().positions.values()
    yield from (position.target_topic for position in own if position.topic not in booked)
    for control in flow.other_controls().values():
        yield from (position.target_topic for position in control.positions.values())
    if not flow.settings.keeps_names:
        return
    # topics that the reverse flow mirrored: their originals are the target's own topics
    aliases, here = flow.settings.topic_aliases, flow.source_topics()
    if flow.settings.policy.checkpoints_topic(aliases.target) in here:  # by MirrorMaker 2
        yield from here
    if flow.clusters.back is not None:
        positions = flow.clusters.back.control(flow.identity().way_back).positions.values()
        yield from (position.topic for position in positions)


# --- schema_registry --------------------------------------------------------------------------------------


@flow_check(
    "schema_registry",
    "the topic _schemas is mirrored under its own name, or the source has no such topic",
    SOURCE,
)
def check_schema_registry(flow: ExaminedFlow) -> Iterator[Finding]:
    """The topic `_schemas` of the source is mirrored, under its own name.

    Problem: mirrored under another name
    Warning: not mirrored
    Effect: consumers on the target cannot decode the records
    Remedy: mirror `_schemas` with identical names, or set `kafkastore.topic`
    """
    if SCHEMAS_TOPIC in flow.source_topics():
        yield from judge_schemas(flow.settings)


def judge_schemas(settings: FlowSettings) -> Iterator[Finding]:
    """The finding of a source's ``_schemas`` that is not mirrored, or not under the name that a registry reads."""
    source, target = settings.source.alias, settings.target.alias
    if why := settings.unmirrored(SCHEMAS_TOPIC):
        add = f"add {SCHEMAS_TOPIC} to topics"
        if settings.topics.excludes(SCHEMAS_TOPIC):
            add = f"remove the pattern that matches {SCHEMAS_TOPIC} from topics.exclude"
        yield warning(
            source,
            SCHEMAS_TOPIC,
            f"{SCHEMAS_TOPIC} is not mirrored to {target} ({why}): consumers that use a registry on {target} cannot"
            " decode records with these schemas",
            f"{add} of {settings.name}, or copy the schemas with their ids by the registry's own"
            f" tools; nothing to do if consumers on {target} use the registry of {source}",
        )
    elif (remote := settings.remote_topic(SCHEMAS_TOPIC)) != SCHEMAS_TOPIC:
        yield problem(
            target,
            remote,
            f"{SCHEMAS_TOPIC} is mirrored as {remote}: a registry on {target} reads {SCHEMAS_TOPIC} by default, and"
            " does not find its schemas",
            f"set kafkastore.topic = {remote} in the registry on {target}, or mirror {SCHEMAS_TOPIC} in a flow with"
            f" identical names; nothing to do if consumers on {target} use the registry of {source}",
        )


_NAMED = 3


@flow_check("loop", "no record returns to the cluster where it was produced")
def check_loop(flow: ExaminedFlow) -> Iterator[Finding]:
    """No record returns to the cluster where it was produced.

    Problem: a record returns
    Effect: records are copied without end
    Remedy: `mmtool.origins`, aliases, `topics.exclude`
    """
    settings = flow.settings
    yield from judge_file(settings, flow.settings_of_file.flows)
    ends = settings.target.alias, settings.source.alias
    flows = flow.settings_of_file.flows
    back = next((one for one in flows if (one.source.alias, one.target.alias) == ends), None)
    if back is not None and settings.keeps_names and back.keeps_names and flow.mm2_runs():
        yield from judge_identity(settings, back, flow.source_topics(), flow.target_topics())
    aliases = known_aliases(flow.settings_of_file)
    sides = (
        (settings.source.alias, settings.topic_aliases.source, flow.source_topics()),
        (settings.target.alias, settings.topic_aliases.target, flow.target_topics()),
    )
    for cluster, alias, topics in sides:
        meant = [
            name
            for name in topics
            if settings.topics.accepts(name) or settings.topics.accepts(settings.policy.original_topic(name))
        ]
        yield from judge_topics(settings.policy, cluster, alias, aliases, meant)


def judge_file(settings: FlowSettings, enabled: Collection[FlowSettings]) -> Iterator[Finding]:
    """Findings about loops in the file, for which `mmtool replicate` refuses to start.

    These are a ring of flows under identical names, and names that grow without end.

    Args:
        settings: The flow that the row is about.
        enabled: All flows that the file enables.
    """
    for refuse in (refuse_repetition, refuse_growth):
        try:
            refuse(list(enabled))
        except UsageError as error:
            yield problem("", settings.name, error.message, error.remedy)


def judge_identity(
    settings: FlowSettings, back: FlowSettings, here: Collection[str], there: Collection[str]
) -> Iterator[Finding]:
    """The finding of MirrorMaker 2 running both directions with identical names: it cannot recognise its copies.

    Args:
        settings: The flow.
        back: The other direction.
        here: The source's topics.
        there: The target's topics.
    """
    both = sorted(name for name in here if settings.mirrors_topic(name) and back.mirrors_topic(name))
    both = [name for name in both if name in there]
    if both:
        yield problem(
            "",
            settings.name,
            f"MirrorMaker 2 runs {settings.name} and {back.name} with identical names: each record of"
            f" {few(both, _NAMED)} is copied back and forth without end",
            f"set {back.name}.enabled = false and restart MirrorMaker 2; or stop MirrorMaker 2 and run both flows with"
            " `mmtool replicate`, which does not mirror a record back to the cluster where it was produced",
        )


def known_aliases(file: Settings) -> frozenset[str]:
    """Every alias by which a flow of the file names topics."""
    flows = file.all_flows
    return frozenset(
        alias for flow in flows for alias in (flow.topic_aliases.source, flow.topic_aliases.target) if alias
    )


def judge_topics(
    policy: ReplicationPolicy, cluster: str, alias: str, aliases: Collection[str], topics: Iterable[str]
) -> Iterator[Finding]:
    """Findings about topics whose names show that they left a cluster and came back: ``B.A.orders`` on A.

    Args:
        policy: The flow's naming policy.
        cluster: The cluster's alias in the file.
        alias: The cluster's alias in topic names.
        aliases: All clusters' aliases: other prefixes are no clusters, and such names are skipped.
        topics: The cluster's topics.
    """
    if isinstance(policy, DefaultPolicy) and not policy.separator:
        return  # each letter of a name would be a hop
    found = sorted(name for name in topics if alias in _hops(policy, name, aliases)[1:])
    if found:
        route = _hops(policy, found[0], aliases)
        way = "->".join([*reversed(route), cluster])
        upstream = list(dict.fromkeys(policy.upstream_topic(name) for name in found))
        copies = (
            "is, by its name, a copy of a topic"
            if len(found) == 1
            else "are, by their names, copies of topics"
        )
        yield problem(
            cluster,
            found[0],
            f"{named_topics(found, _NAMED)} on {cluster} {copies} of {cluster} itself ({way}): the flows mirror"
            " in a loop",
            "if several properties files or MirrorMaker 2 run these flows, use the same aliases and the same"
            f" replication.policy.separator in all of them; or add {few(upstream, _NAMED)} to topics.exclude of each"
            f" flow to {cluster}; then delete {few(found, _NAMED)} on {cluster}",
        )


def _hops(policy: ReplicationPolicy, name: str, aliases: Collection[str]) -> list[str]:
    """The clusters that a topic came through by its name, the last one first; empty where the last one is unknown."""
    hops: list[str] = []
    source = policy.topic_source(name)
    while source is not None and source in aliases:
        hops.append(source)
        upstream = policy.upstream_topic(name)
        if upstream is None or upstream == name:
            break
        name, source = upstream, policy.topic_source(upstream)
    return hops
