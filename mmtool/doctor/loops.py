"""Doctor check ``loop``: records that return to the cluster where they were written, by the file and by topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.doctor.finding import Check, Finding, problem
from mmtool.errors import UsageError
from mmtool.plan.words import few, named_topics
from mmtool.replication.ownership.limits import refuse_growth, refuse_repetition
from mmtool.translation.names import DefaultPolicy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from mmtool.config import FlowSettings, Settings
    from mmtool.doctor.examination import ExaminedFlow
    from mmtool.translation.names import ReplicationPolicy

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
