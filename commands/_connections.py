"""Turn ``-c``, ``-s``, ``-t`` and group selectors into settings, flows and cluster connections."""

from __future__ import annotations

import os
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mmtool.commands._completion import remember_settings
from mmtool.errors import UsageError
from mmtool.events import flow_fields
from mmtool.output import bind, hide, warn
from mmtool.output.console import switches
from mmtool.plain_text import did_you_mean, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mmtool.commands._options import ChosenFlow, ChosenGroups
    from mmtool.config import ClusterSettings, FlowSettings, Settings
    from mmtool.config.live import LiveFile
    from mmtool.config.read_files import ReadFiles
    from mmtool.config.values import Start
    from mmtool.doctor.examination import ExaminedCluster, ExaminedFlow
    from mmtool.insight.flow_now import FlowClusters
    from mmtool.insight.smoke_flow import SmokeFlow
    from mmtool.insight.status import WatchedFlow
    from mmtool.kafka.admin.cluster_details import KafkaClusterDetails
    from mmtool.metrics.families import Level
    from mmtool.plan.groups.facts import ChosenUnit, GroupSelection
    from mmtool.replication.driver.engine import Observe
    from mmtool.translation.types import TopicPartition, UpstreamOffset

T = TypeVar("T")

_SMOKE_REQUEST = timedelta(seconds=20)
"""For one request of a smoke test, which is to say what is wrong before its time is up."""


def loaded(config: Path | None, files: ReadFiles | None = None) -> Settings:
    """The whole file; its warnings go to stderr, each once, and its secrets nowhere; ``files`` gets what was read.

    Raises:
        UsageError: The file cannot be used.
    """
    from mmtool.config import load_settings
    from mmtool.kafka.tokens.source import report_trouble_to

    report_trouble_to(warn)
    settings = load_settings(config, os.environ, files)
    for secret in settings.secrets():
        hide(secret)
    for sentence in settings.warnings:
        if sentence not in switches.warned:
            warn(sentence)
    remember_settings(settings)
    return settings


def live_file(where: ChosenFlow, *, mirrors: bool = False) -> LiveFile:
    """The chosen flows, for a command that runs for long and reads its file again.

    Args:
        where: The file and its flows.
        mirrors: Whether the command runs the flows, and so refuses those that cannot run together.

    Raises:
        UsageError: No file is named.
    """
    from mmtool.config.live import Chosen, LiveFile
    from mmtool.config.load import config_path
    from mmtool.config.read_files import ReadFiles
    from mmtool.kafka.clients import check_certificates
    from mmtool.replication.ownership.limits import refuse_conflicts

    files = ReadFiles()

    def load() -> Chosen:
        files.forget()
        settings = loaded(where.config, files)
        flows = settings.select(where.source, where.target, to_write=mirrors)
        if mirrors:
            refuse_conflicts(settings.flows)
        check_certificates(side for flow in flows for side in (flow.source, flow.target))
        return Chosen(flows, settings.heartbeats_only)

    return LiveFile(config_path(where.config, os.environ), load, files)


def one_flow(where: ChosenFlow) -> FlowSettings:
    """The chosen flow, for commands that can change something.

    Raises:
        UsageError: The file cannot be used or does not enable the flow, or several flows are meant; they are listed.
    """
    flow = loaded(where.config).one(where.source, where.target, to_write=True)
    bind(**flow_fields(flow.name))
    return flow


def selected(where: ChosenFlow) -> tuple[FlowSettings, ...]:
    """Every chosen flow, for commands that only read.

    Raises:
        UsageError: The file cannot be used, or no flow is meant.
    """
    return loaded(where.config).select(where.source, where.target)


def read_lines(option: str, path: Path, parse: Callable[[list[str]], T], remedy: str) -> T:
    """What ``parse`` makes of the lines of an option's file; ``remedy`` is for its `ValueError`.

    Raises:
        UsageError: The file cannot be read, or ``parse`` refuses it.
    """
    from mmtool.failover.commits.exchange import content_of, lines_in

    try:
        return parse(lines_in(f"{option} {path}", content_of(path)))
    except ValueError as error:
        raise UsageError(f"{option} {path}: {error}", remedy=remedy) from error


def with_group_map(flow: FlowSettings, path: Path | None) -> FlowSettings:
    """The flow with the group map of ``--group-map``; unchanged without one.

    Raises:
        UsageError: The file cannot be read, or is no group map.
    """
    from mmtool.plan.groups.names import GroupMap, parse_group_map

    if path is None:
        return flow
    remedy = "write one line SOURCE-NAME,TARGET-NAME for each group that gets another name"
    pairs = read_lines("--group-map", path, parse_group_map, remedy)
    return flow.model_copy(update={"group_map": GroupMap(pairs, str(path))})


def connected_flows(
    where: ChosenFlow, timeout: timedelta, group_map: Path | None = None
) -> list[FlowClusters]:
    """Every chosen flow, and what MM2 has told of it; nothing is asked yet.

    Raises:
        UsageError: The file cannot be used, no flow is meant, or ``--group-map`` is given for several.
    """
    from mmtool.insight.flow_now import connect

    flows = selected(where)
    if group_map is not None and len(flows) > 1:
        raise UsageError(
            f"--group-map is for one flow, and {len(flows)} are enabled",
            remedy="name the flow with -s and -t",
        )
    return [connect(with_group_map(flow, group_map), timeout, beside_mm2=True) for flow in flows]


def watched_flows(
    where: ChosenFlow, topics: list[str] | None, timeout: timedelta | None
) -> list[WatchedFlow]:
    """Every chosen flow, for looking at; nothing is asked yet.

    Without a ``timeout``, a lost cluster is reported soon.

    Raises:
        UsageError: The file cannot be used, or no flow is meant.
    """
    from mmtool.commands._options import DEFAULT_TIMEOUT
    from mmtool.insight.flow_now import FIRST_ANSWER
    from mmtool.insight.status import watched_flow

    patience, first = timeout or DEFAULT_TIMEOUT, timeout or FIRST_ANSWER
    return [watched_flow(flow, patience, topics or (), first=first) for flow in selected(where)]


def examined(where: ChosenFlow, timeout: timedelta) -> tuple[list[ExaminedCluster], list[ExaminedFlow]]:
    """Every chosen cluster and flow, for `mmtool doctor`; nothing is asked yet.

    Raises:
        UsageError: The file cannot be used, or no flow is meant.
    """
    from mmtool.doctor.examination import ExaminedFlow
    from mmtool.insight.flow_now import connect
    from mmtool.kafka.state.flow_state import KafkaFlowWatch

    settings, seconds = loaded(where.config), timeout.total_seconds()
    chosen = settings.select(where.source, where.target)
    details = _shared_details(chosen, seconds)
    return (
        examined_clusters(settings, chosen, seconds, details),
        [
            ExaminedFlow(
                connect(flow, timeout, beside_mm2=True),
                KafkaFlowWatch(flow, seconds),
                details(flow.source),
                details(flow.target),
                seconds,
                settings,
            )
            for flow in chosen
        ],
    )


def examined_clusters(
    settings: Settings,
    flows: Sequence[FlowSettings],
    seconds: float,
    details: Callable[[ClusterSettings], KafkaClusterDetails] | None = None,
) -> list[ExaminedCluster]:
    """Every cluster of these flows, each once; nothing is asked yet.

    Args:
        settings: The whole file.
        flows: Of the file.
        seconds: How long one request may take.
        details: Gives a cluster's details, where others ask it too.
    """
    from mmtool.doctor.examination import ExaminedCluster
    from mmtool.kafka.admin.cluster_facts import KafkaCluster

    details = details or _shared_details(flows, seconds)
    clusters = {cluster.alias: cluster for flow in flows for cluster in (flow.source, flow.target)}
    return [
        ExaminedCluster(one, KafkaCluster(one, seconds), details(one), settings) for one in clusters.values()
    ]


def smoke_flow(flow: FlowSettings, timeout: timedelta, start_command: str) -> SmokeFlow:
    """A flow for a smoke test that is over within ``timeout``; nothing is asked yet.

    Args:
        flow: Which flow.
        timeout: For the whole test.
        start_command: How an operator starts mmtool on the flow.
    """
    from mmtool.insight.flow_now import connect
    from mmtool.insight.smoke_flow import SmokeDeadline, SmokeFlow
    from mmtool.kafka.logs.canary import KafkaCanary
    from mmtool.kafka.state.flow_state import FollowedFlowState, KafkaFlowWatch

    patience = min(timeout, _SMOKE_REQUEST)
    seconds = patience.total_seconds()

    def mirror_maker() -> str:
        from mmtool.replication.mm2.guard import sign_now

        return sign_now(flow, seconds)

    state = FollowedFlowState(flow.target, external=flow.is_external)
    return SmokeFlow(
        replace(connect(flow, patience, beside_mm2=True), state=state),
        KafkaFlowWatch(flow, seconds),
        KafkaCanary(flow, seconds),
        mirror_maker,
        start_command,
        SmokeDeadline(timeout.total_seconds()),
    )


def _shared_details(
    flows: Sequence[FlowSettings], seconds: float
) -> Callable[[ClusterSettings], KafkaClusterDetails]:
    """What gives a cluster's details: one object for all flows that connect to it alike, so that each is asked once."""
    from mmtool.kafka.admin.cluster_details import KafkaClusterDetails

    known: list[tuple[ClusterSettings, KafkaClusterDetails]] = []
    for cluster in (side for flow in flows for side in (flow.source, flow.target)):
        if all(cluster != settings for settings, _ in known):
            known.append((cluster, KafkaClusterDetails(cluster, seconds)))
    return lambda cluster: next(details for settings, details in known if settings == cluster)


@contextmanager
def served_beside(address: str, port: int | None, level: Level) -> Iterator[Observe]:
    """What serves the metrics of an engine while it runs; nothing where no port is asked for.

    The port is held from now on, before anything is touched.

    Raises:
        UsageError: The port cannot be had.
    """
    if port is None:
        yield lambda _: nullcontext()
        return
    from mmtool.metrics.server import MetricsServer, exported_beside

    with MetricsServer(address, port, "--metrics-port") as server:
        yield lambda engine: exported_beside(
            lambda: engine.settings, engine.unowned, server, level, say=engine.say
        )


def unit_of(settings: FlowSettings, name: str | None) -> ChosenUnit | None:
    """What ``--unit`` means in a flow's configuration; None without it.

    Raises:
        UsageError: No such unit.
    """
    from mmtool.plan.groups.facts import ChosenUnit

    if name is None:
        return None
    unit = settings.units.get(name)
    if unit is None:
        known = ", ".join(settings.units)
        define = f"with mmtool.unit.{name}.topics and mmtool.unit.{name}.groups"
        raise UsageError(
            f"--unit {name}: the configuration of {settings.name} has no unit {name}"
            + did_you_mean([nearest(name, settings.units)]),
            remedy=f"name a unit of the properties file ({known}), or define {name} {define}"
            if known
            else f"define {name} in the properties file {define}",
        )
    return ChosenUnit(name, unit.groups.accepts, unit.topics.accepts, bool(unit.topics.include))


def selection(chosen: ChosenGroups, unit: ChosenUnit | None = None) -> GroupSelection:
    """The groups that the options select, and what ``--unit`` means.

    Raises:
        UsageError: A name or the pattern is empty, or the pattern is none.
    """
    from mmtool.plan.groups.facts import GroupSelection

    names, pattern = tuple(chosen.group or ()), chosen.groups
    if "" in names or pattern == "":
        option, example = (
            ("--groups", "--groups 'shop-.*'") if pattern == "" else ("-g/--group", "-g billing")
        )
        raise UsageError(f"{option} is empty", remedy=f"write a value, for example {example}")
    matches = None if pattern is None else _matching(pattern)
    return GroupSelection(names, matches, chosen.all_groups, unit)


def _matching(pattern: str) -> Callable[[str], bool]:
    """Java's dialect, as in the file, so that one pattern means one thing everywhere."""
    from mmtool.config.names import NameFilter, PatternRefusedError

    try:
        return NameFilter((pattern,)).accepts
    except PatternRefusedError as error:
        raise UsageError(
            f"--groups {error}",
            remedy="write a Java regular expression, as for the key `groups` in the properties file",
        ) from error


def require_selector(chosen: GroupSelection, doing: str) -> None:
    """Commands that write do not take "all groups" for granted.

    Raises:
        UsageError: No group is named.
    """
    if not chosen.given:
        raise UsageError(
            f"{doing} needs a choice of groups",
            remedy="choose groups: -g NAME, --groups REGEX, --unit NAME or --all-groups",
        )


def destination(
    to: str | None, csv: Path | None, topics: list[str]
) -> tuple[Start | int | Mapping[TopicPartition, UpstreamOffset], list[str]]:
    """Where mirrors are to go on, by ``--to`` or ``--csv``, and which topics are meant; none: all of the flow.

    Raises:
        UsageError: Neither or both are given, or what is given cannot be read.
    """
    if csv is None and to is not None:
        return _position(to), topics
    if csv is None or to is not None or topics:
        raise UsageError(
            "flow seek needs either --to or --csv; --topic goes with --to only",
            remedy="to set the same position for all partitions: --to POSITION [--topic NAME]; to set an offset for"
            " each partition: --csv FILE",
        )
    from mmtool.failover.commits.exchange import read_positions

    offsets = read_positions("--csv", csv)
    return offsets, sorted({place.topic for place in offsets})


def _position(text: str) -> Start | int:
    from mmtool.config.values import parse_start

    word = text.strip()
    if word.isascii() and word.isdigit() and len(word) < 19:
        return int(word)
    try:
        return parse_start(word)
    except ValueError as error:
        raise UsageError(
            f"--to {text}: expected an offset, {error}",
            remedy="write for example --to latest, --to 1500 or --to 2026-01-31T12:00:00Z",
        ) from None
