"""``mmtool acls``: the rights that mmtool needs on each cluster, or the topics (``--topics``)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from mmtool.commands import _options as options
from mmtool.errors import UsageError
from mmtool.output import Column, OutputFormat, Result, emit, warn, write
from mmtool.rights.needs import Purpose

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import timedelta

    from mmtool.config import FlowSettings, Settings
    from mmtool.plan.topics.requirements import NeededTopic

_NOTED = {"why", "reason"}
_COLUMNS, _TOPIC_COLUMNS = (
    [Column(name, note=name in _NOTED) for name in names.split()]
    for names in (
        "cluster resource_type name pattern operation optional why",
        "cluster topic partitions replication_factor configs state reason",
    )
)


class AclFormat(StrEnum):
    """The values of ``--format``."""

    KAFKA_ACLS = "kafka-acls"
    KAFKA_TOPICS = "kafka-topics"
    STRIMZI = "strimzi"
    JSON = "json"


Principal = Annotated[
    str | None,
    typer.Option(
        "--principal",
        metavar="TYPE:NAME",
        help="The principal that gets the ACLs, for example User:mmtool; needed with --format kafka-acls or strimzi.",
    ),
]
For = Annotated[
    list[Purpose] | None,
    typer.Option(
        "--for",
        metavar="|".join(Purpose),
        help="What the principal runs; repeatable. replicate: also `mmtool flow`; read: the commands that change"
        " nothing; failover: `mmtool failover` and all commands that commit offsets. Needed without --topics.",
    ),
]
FormatOption = Annotated[
    AclFormat | None,
    typer.Option(
        "--format",
        help="kafka-acls: commands of kafka-acls.sh; kafka-topics: commands of kafka-topics.sh, with --topics; strimzi:"
        " KafkaUser documents, or KafkaTopic documents; json: the same as -o json. Default: the format that -o names.",
    ),
]
Topics = Annotated[
    bool,
    typer.Option(
        "--topics",
        help="Print the topics that mmtool creates, instead of ACLs: internal topics and mirrors. Both clusters are"
        " read. --for without smoke leaves out the topic of `mmtool smoke`.",
    ),
]


def acls(
    *,
    purposes: For = None,
    where: options.ChosenFlows,
    topics: Topics = False,
    principal: Principal = None,
    format_: FormatOption = None,
    output: options.Output = OutputFormat.TABLE,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Print the ACLs that mmtool needs for the flows of the properties file; no cluster is contacted.

    An ACL that is marked optional is needed only for the feature that the column WHY names.

    With --topics, mmtool prints the topics instead: for clusters where its principal may not create topics
    (mmtool.create.topics = false).
    """
    from dataclasses import asdict

    from mmtool.commands._connections import loaded
    from mmtool.rights.render import kafka_acls, strimzi
    from mmtool.rights.scope import rights_of_flows
    from mmtool.rights.topic_texts import kafka_topics, strimzi_topics

    user = _checked(purposes, principal, format_, output, topics=topics)
    settings = loaded(where.config)
    flows = settings.select(where.source, where.target)
    sides = [side for flow in flows for side in (flow.source, flow.target)]
    servers = {side.alias: side.bootstrap_servers_for("admin") for side in sides}
    rights = rights_of_flows(flows, purposes or (), settings.heartbeats_only)
    found, warnings = _needed(settings, flows, purposes or (), timeout) if topics else ([], [])
    match format_:
        case AclFormat.KAFKA_ACLS:
            text = kafka_acls(rights, user, servers)
        case AclFormat.KAFKA_TOPICS:
            text = kafka_topics(found, servers)
        case AclFormat.STRIMZI:
            text = strimzi_topics(found) if topics else strimzi(rights, user)
        case _:
            wanted = OutputFormat.JSON if format_ is AclFormat.JSON else output
            rows, columns = (found, _TOPIC_COLUMNS) if topics else (rights, _COLUMNS)
            emit(Result("acls", [asdict(row) for row in rows], columns, warnings=warnings), wanted)
            return
    for sentence in warnings:
        warn(sentence)
    write(text, applied=False)


def _needed(
    settings: Settings, flows: Iterable[FlowSettings], purposes: Collection[Purpose], timeout: timedelta
) -> tuple[list[NeededTopic], list[str]]:
    """The topics that flows need, and warnings about those that are left out."""
    from mmtool.insight.flow_now import connect
    from mmtool.replication.topics.topic_needs import TopicNeeds

    connected, canary = [connect(flow, timeout) for flow in flows], not purposes or Purpose.SMOKE in purposes
    needs = TopicNeeds(connected, settings.heartbeats_only, canary=canary)
    return needs.topics(), needs.warnings


def _checked(
    purposes: Collection[Purpose] | None,
    principal: str | None,
    format_: AclFormat | None,
    output: OutputFormat,
    *,
    topics: bool,
) -> str:
    """The principal, for a format that contains it; else empty.

    Raises:
        UsageError: It is missing, or has no type; or options are missing or exclude each other.
    """
    if not (topics or purposes):
        raise UsageError("--for is missing", remedy=f"add --for {'|'.join(Purpose)}, or --topics")
    if format_ is (AclFormat.KAFKA_ACLS if topics else AclFormat.KAFKA_TOPICS):
        raise UsageError(
            f"--format {format_} has no meaning {'with' if topics else 'without'} --topics",
            remedy=f"{'leave out' if topics else 'add'} --topics, or choose another format",
        )
    if format_ in {None, AclFormat.JSON}:
        return ""
    if output is not OutputFormat.TABLE:
        raise UsageError(f"--format {format_} and -o {output} exclude each other", remedy="give one of them")
    if topics:
        return ""
    if principal is None:
        raise UsageError(
            f"--format {format_} needs a principal",
            remedy="add --principal, for example --principal User:mmtool",
        )
    kind, colon, name = principal.partition(":")
    if not kind or not name:
        example = name or (kind if not colon else "") or "mmtool"
        raise UsageError(
            f"--principal {principal} has no {'name' if kind and colon else 'type'}",
            remedy=f"write it as User:{example}",
        )
    return principal
