"""Doctor checks ``partitions``, ``names`` and ``schema_registry``: whether each topic has a usable mirror; ``loop``."""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING

from mmtool.doctor.finding import Check, Finding, problem, warning
from mmtool.errors import MmtoolError, NotAuthorisedError, RefusedError, UsageError
from mmtool.plan.records.documents import State
from mmtool.plan.topics.facts import check_filters_and_rights, meeting, name_problem, taken_names
from mmtool.plan.words import counted, few, named_topics
from mmtool.replication.ownership.checks import refuse_changed_names
from mmtool.replication.ownership.limits import refuse_growth, refuse_meeting, refuse_repetition
from mmtool.translation.names import DefaultPolicy
from mmtool.translation.types import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from mmtool.config import FlowSettings, Settings
    from mmtool.doctor.examination import ExaminedFlow
    from mmtool.doctor.flow_view import FlowView
    from mmtool.plan.flow.partition_rows import PartitionRow
    from mmtool.plan.topics.facts import TopicFacts
    from mmtool.translation.names import ReplicationPolicy


SCHEMAS_TOPIC = "_schemas"
"""The topic where Confluent's schema registry, and compatible ones, keep their schemas by default."""
_NAMES_STAY = "its mirror cannot get another name, because the flow has run already"


# --- partitions -------------------------------------------------------------------------------------------


def check_partitions(flow: ExaminedFlow) -> Iterator[Finding]:
    """Find mirrors whose number of partitions differs from their topic's, and partitions that are halted."""
    view = flow.view
    ran = _has_run(view)
    there = view.target_topics()
    for name, topic in sorted(view.mirrored().items()):
        mirror = there.get(view.settings.remote_topic(name))
        if mirror is not None or ran:
            yield from judge_partitions(view.settings, topic, mirror)
    yield from judge_halted(view.settings, [standing.row for standing in view.standings()])


def _has_run(view: FlowView) -> bool:
    """Whether mmtool or MirrorMaker 2 has run the flow: `mmtool replicate` then refuses other names of its mirrors."""
    return view.control().flow is not None or view.mm2_runs()


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
    if have < topic.partitions and not settings.refresh_topics:
        has = "does not exist" if mirror is None else f"has {counted(have, 'partition')}"
        needed = counted(topic.partitions, "partition")
        left = topic.name if mirror is None else f"from partition {have} on, {topic.name}"
        starts = "creates the topic" if mirror is None else "adds the partitions"
        yield problem(
            Check.PARTITIONS,
            alias,
            name,
            f"{name} on {alias} {has}, and {topic.name} on {settings.source.alias} has {needed}; with {key} = false,"
            f" {left} is not mirrored",
            f"set {settings.name}.{key} = true; or stop and start `mmtool replicate`, which {starts} when it starts",
        )
    if have > topic.partitions:
        yield warning(
            Check.PARTITIONS,
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
            Check.PARTITIONS,
            settings.target.alias,
            settings.remote_topic(topic),
            f"{topic}-{first.partition}{more} of {settings.name} is halted: {first.reason}",
            f"remove the cause; `mmtool status -c FILE --topic {topic}` shows each partition",
        )


# --- names ------------------------------------------------------------------------------------------------


def check_names(flow: ExaminedFlow) -> Iterator[Finding]:
    """Find mirrors with illegal names, with one name for two topics, or with records of other writers."""
    view, settings = flow.view, flow.settings
    mirrored = view.mirrored()
    if not mirrored:
        yield warning(
            Check.NAMES,
            settings.source.alias,
            settings.name,
            f"{settings.name} matches no topic of {settings.source.alias}: nothing is mirrored",
            check_filters_and_rights(settings.name, settings.source.alias),
        )
    ran: bool | Unknown = UNKNOWN
    with suppress(MmtoolError):  # a wrong name is found all the same where stored state cannot be read
        ran = _has_run(view)
    yield from judge_names(settings, mirrored, view.target_topics(), has_run=ran)
    yield from _taken(view, has_run=ran)
    yield from _refused(flow)
    yield from _unknown_mirrors(view)


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
            Check.NAMES,
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
    alike = _alike([*on_target, *missing])
    for remote, name in missing.items():
        if why := name_problem(remote):
            message = f"{remote} cannot be created on {alias}: {why}"
            yield problem(Check.NAMES, alias, name, message, _another_name(settings, name, has_run=has_run))
        elif others := sorted(alike[metric_name(remote)] - {remote}):
            yield problem(
                Check.NAMES,
                alias,
                name,
                f"{remote} cannot be created on {alias}: it collides with {others[0]}, because Kafka's metric names do"
                " not distinguish '.' and '_'",
                _another_name(settings, name, has_run=has_run),
            )


def _another_name(settings: FlowSettings, topic: str, *, has_run: bool | Unknown) -> str:
    return _left_out(
        settings,
        topic,
        f"set {settings.name}.mmtool.topic.rename.format so that mirrors get other names",
        has_run=has_run,
    )


def _left_out(settings: FlowSettings, topic: str, renamed: str, *, has_run: bool | Unknown) -> str:
    """The remedy for a topic whose mirror needs another name; ``renamed`` gives one, before the flow's first run."""
    exclude = f"add {topic} to topics.exclude of {settings.name}"
    if has_run is UNKNOWN:
        return exclude
    return f"{exclude}; {_NAMES_STAY}" if has_run else f"{exclude}, or {renamed}"


def metric_name(topic: str) -> str:
    """A topic's name in Kafka's metrics: two topics of one cluster must not share it (``Topic.hasCollision``)."""
    return topic.replace(".", "_")


def _alike(topics: Iterable[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for topic in topics:
        found.setdefault(metric_name(topic), set()).add(topic)
    return found


def _taken(view: FlowView, *, has_run: bool | Unknown) -> Iterator[Finding]:
    """Findings about mirrors that another mmtool flow to the same target writes."""
    if view.settings.keeps_names:
        return
    taken = {
        position.target_topic: f"{alias}->{view.settings.target.alias}"
        for alias, control in view.other_controls().items()
        for position in control.positions.values()
    }
    settings = view.settings
    found = taken_names(view.mirrored(), settings.remote_topic, taken, settings.target.alias)
    renamed = f"set {settings.alias_keys.source} to another alias: the names of the mirrors contain it"
    for topic, why in sorted(found.items()):
        remedy = _left_out(settings, topic, renamed, has_run=has_run)
        yield problem(Check.NAMES, settings.target.alias, topic, why.cause, remedy)


def _refused(flow: ExaminedFlow) -> Iterator[Finding]:
    """The finding of names for which `mmtool replicate` would refuse to start."""
    view, settings = flow.view, flow.settings
    alias, control = settings.target.alias, view.control()
    left = {position.topic for position in control.positions.values()} - set(view.source_topics())
    spared = left | {topic.topic for topic in control.holds.failed_over.values()}
    try:
        refuse_changed_names(settings, control.positions.values(), spared)
        view.clusters.state.check_aliases(view.identity(), view.target_topics())
        refuse_meeting(flow.settings_of_file.flows)
    except (RefusedError, UsageError) as error:
        yield problem(Check.NAMES, alias, settings.name, error.message, error.remedy)


def _unknown_mirrors(view: FlowView) -> Iterator[Finding]:
    """Findings about target topics that have a mirror's name and hold records that no flow wrote."""
    if view.settings.keeps_names and view.settings.way_back is not None:
        return
    names = {mirror: name for name, mirror in view.mirror_names().items()}
    doubted = _with_records(view, view.mirrors().keys() - set(_written_by_mmtool(view)))
    if not doubted:
        return  # MirrorMaker 2's topics are read only where mmtool's own do not tell all
    try:
        known = set(_written_by_mm2(view))
    except NotAuthorisedError as error:
        yield _undecided(view.settings.target.alias, doubted, error)
        return
    for remote in sorted(doubted.keys() - known):
        yield judge_unknown_mirror(
            view.settings, names[remote], remote, doubted[remote], has_run=view.control().flow is not None
        )


def _with_records(view: FlowView, topics: Collection[str]) -> dict[str, int]:
    """The number of offsets held by each of the given mirrors; empty mirrors are left out."""
    facts = {name: topic for name, topic in view.mirrors().items() if name in topics}
    held: dict[str, int] = {}
    for place, log in view.target_bounds(facts).items():
        held[place.topic] = held.get(place.topic, 0) + log.log_end - log.log_start
    return {name: offsets for name, offsets in held.items() if offsets}


def _undecided(alias: str, topics: Collection[str], error: NotAuthorisedError) -> Finding:
    named = sorted(topics)
    return warning(
        Check.NAMES,
        alias,
        named[0] if len(named) == 1 else "",
        f"mmtool could not check whether a flow wrote to {few(named)} on {alias}: {error.message}",
        error.remedy,
    )


def judge_unknown_mirror(
    settings: FlowSettings, topic: str, remote: str, records: int, *, has_run: bool
) -> Finding:
    """The finding of a target topic that has a mirror's name, where stored state names no flow that wrote to it.

    A topic that the flow has mirrored is found here after `mmtool flow forget`: `flow rebuild` reads only records that
    the flow itself wrote.

    Args:
        settings: The flow's settings.
        topic: The source topic.
        remote: The target topic.
        records: Offsets that it holds.
        has_run: Whether mmtool has run the flow; `flow rebuild` is refused before.
    """
    alias = settings.target.alias
    rebuild = (
        f"if `mmtool flow forget` removed the state of {topic}: stop `mmtool replicate`, run `mmtool flow rebuild -c"
        f" FILE -s {settings.source.alias} -t {alias} --topic {topic} --execute`, and start `mmtool replicate`;"
        " otherwise "
    )
    return problem(
        Check.NAMES,
        alias,
        remote,
        f"{remote} on {alias} holds {counted(records, 'offset')}, and no flow is known to have written to it:"
        f" the next `mmtool replicate` of {settings.name} appends the records of {topic} to it",
        f"{rebuild if has_run else ''}delete {remote} on {alias}, or keep it and add {topic} to topics.exclude of"
        f" {settings.name}",
    )


def _written_by_mmtool(view: FlowView) -> Iterator[str]:
    """Target topics that mmtool's flows have written; recreated topics are left out."""
    there, blocks = view.target_topics(), view.blocks().values()
    for about in (block.about for block in blocks):
        if about.target_topic in there and there[about.target_topic].topic_id == about.target_topic_id:
            yield about.target_topic
    booked = {block.about.source_topic for block in blocks}
    own = view.control().positions.values()
    yield from (position.target_topic for position in own if position.topic not in booked)
    for control in view.other_controls().values():
        yield from (position.target_topic for position in control.positions.values())
    if view.settings.keeps_names:
        yield from _born_on_target(view)


def _written_by_mm2(view: FlowView) -> Iterator[str]:
    traces = view.traces()
    copied = traces.topics | {place.topic for of in traces.held.checkpoints.values() for place in of}
    yield from map(view.settings.remote_topic, copied)


def _born_on_target(view: FlowView) -> Iterator[str]:
    """Under identical names: topics that the reverse flow mirrored, whose originals are the target's own topics."""
    aliases, here = view.settings.topic_aliases, view.source_topics()
    if view.settings.policy.checkpoints_topic(aliases.target) in here:  # by MirrorMaker 2
        yield from here
    if view.clusters.back is not None:
        positions = view.clusters.back.control(view.identity().way_back).positions.values()
        yield from (position.topic for position in positions)


# --- schema_registry --------------------------------------------------------------------------------------


def check_schema_registry(flow: ExaminedFlow) -> Iterator[Finding]:
    """Check that a schema registry of the target can read the source's schemas."""
    if SCHEMAS_TOPIC in flow.view.source_topics():
        yield from judge_schemas(flow.settings)


def _to_mirror(settings: FlowSettings, topic: str) -> str:
    """How to mirror a topic that the flow's patterns leave out."""
    if settings.topics.excludes(topic):
        return f"remove the pattern that matches {topic} from topics.exclude of {settings.name}"
    return f"add {topic} to topics of {settings.name}"


def judge_schemas(settings: FlowSettings) -> Iterator[Finding]:
    """The finding of a source's ``_schemas`` that is not mirrored, or not under the name that a registry reads."""
    source, target = settings.source.alias, settings.target.alias
    if why := settings.unmirrored(SCHEMAS_TOPIC):
        yield warning(
            Check.SCHEMA_REGISTRY,
            source,
            SCHEMAS_TOPIC,
            f"{SCHEMAS_TOPIC} is not mirrored to {target} ({why}): consumers that use a registry on {target} cannot"
            " decode records with these schemas",
            f"{_to_mirror(settings, SCHEMAS_TOPIC)}, or copy the schemas with their ids by the registry's own"
            f" tools; nothing to do if consumers on {target} use the registry of {source}",
        )
    elif (remote := settings.remote_topic(SCHEMAS_TOPIC)) != SCHEMAS_TOPIC:
        yield problem(
            Check.SCHEMA_REGISTRY,
            target,
            remote,
            f"{SCHEMAS_TOPIC} is mirrored as {remote}: a registry on {target} reads {SCHEMAS_TOPIC} by default, and"
            " does not find its schemas",
            f"set kafkastore.topic = {remote} in the registry on {target}, or mirror {SCHEMAS_TOPIC} in a flow with"
            f" identical names; nothing to do if consumers on {target} use the registry of {source}",
        )


_NAMED = 3


def check_loop(flow: ExaminedFlow) -> Iterator[Finding]:
    """Find loops: flows of the file that would repeat records, and topics whose names show that they were repeated."""
    view, settings = flow.view, flow.settings
    yield from judge_file(settings, flow.settings_of_file.flows)
    back = way_back_of(settings, flow.settings_of_file)
    if back is not None and settings.keeps_names and back.keeps_names and view.mm2_runs():
        yield from judge_identity(settings, back, view.source_topics(), view.target_topics())
    aliases = known_aliases(flow.settings_of_file)
    sides = (
        (settings.source.alias, settings.topic_aliases.source, view.source_topics()),
        (settings.target.alias, settings.topic_aliases.target, view.target_topics()),
    )
    for cluster, alias, topics in sides:
        meant = [name for name in topics if _is_meant(settings, name)]
        yield from judge_topics(settings.policy, cluster, alias, aliases, meant)


def _is_meant(settings: FlowSettings, topic: str) -> bool:
    """Whether the flow's filter accepts a topic, by its name or by its original name."""
    return settings.topics.accepts(topic) or settings.topics.accepts(settings.policy.original_topic(topic))


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
            yield problem(Check.LOOP, "", settings.name, error.message, error.remedy)


def way_back_of(settings: FlowSettings, file: Settings) -> FlowSettings | None:
    """The enabled flow between the same clusters in the other direction; None where there is none."""
    ends = settings.target.alias, settings.source.alias
    return next((flow for flow in file.flows if (flow.source.alias, flow.target.alias) == ends), None)


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
            Check.LOOP,
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
        yield problem(
            Check.LOOP,
            cluster,
            found[0],
            f"{named_topics(found, _NAMED)} on {cluster} {_are(found)} of {cluster} itself ({way}): the flows mirror"
            " in a loop",
            "if several properties files or MirrorMaker 2 run these flows, use the same aliases and the same"
            f" replication.policy.separator in all of them; or add {few(upstream, _NAMED)} to topics.exclude of each"
            f" flow to {cluster}; then delete {few(found, _NAMED)} on {cluster}",
        )


def _are(topics: Collection[str]) -> str:
    return (
        "is, by its name, a copy of a topic" if len(topics) == 1 else "are, by their names, copies of topics"
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
