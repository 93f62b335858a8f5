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
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from mmtool.config import FlowSettings, Settings

_COLUMNS = (
    Column("cluster"),
    Column("resource_type"),
    Column("name"),
    Column("pattern"),
    Column("operation"),
    Column("optional"),
    Column("why", note=True),
)


_TOPIC_COLUMNS = (
    Column("cluster"),
    Column("topic"),
    Column("partitions"),
    Column("replication_factor"),
    Column("configs"),
    Column("state"),
    Column("reason", note=True),
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
        " read. With --for smoke, also the topic of `mmtool smoke`.",
    ),
]
_TEXTS = {
    True: {AclFormat.KAFKA_TOPICS, AclFormat.STRIMZI},
    False: {AclFormat.KAFKA_ACLS, AclFormat.STRIMZI},
}
"""The formats that are text, with and without ``--topics``."""


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

    _check_format(format_, output, topics=topics)
    if not (topics or purposes):
        raise UsageError("--for is missing", remedy=f"add --for {'|'.join(Purpose)}, or --topics")
    if format_ in _TEXTS[False] and not topics:
        user = _checked(principal, format_)
    settings = loaded(where.config)
    flows = settings.select(where.source, where.target)
    sides = [side for flow in flows for side in (flow.source, flow.target)]
    servers = {side.alias: side.bootstrap_servers_for("admin") for side in sides}
    if topics:
        _print_topics(settings, flows, purposes or [], format_, output, timeout, servers)
        return
    rights = rights_of_flows(flows, purposes or [], settings.heartbeats_only)
    match format_:
        case AclFormat.KAFKA_ACLS:
            write(kafka_acls(rights, user, servers), applied=False)
        case AclFormat.STRIMZI:
            write(strimzi(rights, user), applied=False)
        case _:
            wanted = OutputFormat.JSON if format_ is AclFormat.JSON else output
            emit(Result("acls", [asdict(right) for right in rights], _COLUMNS), wanted)


def _print_topics(
    settings: Settings,
    flows: Sequence[FlowSettings],
    purposes: Sequence[Purpose],
    format_: AclFormat | None,
    output: OutputFormat,
    timeout: timedelta,
    servers: Mapping[str, str],
) -> None:
    from dataclasses import asdict

    from mmtool.insight.flow_now import connect, identify_pair
    from mmtool.replication.topics.needed import TopicNeeds
    from mmtool.rights.topic_texts import kafka_topics, strimzi_topics

    connected = [connect(flow, timeout) for flow in flows]
    needs = TopicNeeds(
        [(clusters, identify_pair(clusters)) for clusters in connected],
        settings.heartbeats_only,
        canary=Purpose.SMOKE in purposes,
    )
    found = needs.topics()
    if format_ in _TEXTS[True]:
        for sentence in needs.warnings:
            warn(sentence)
        text = strimzi_topics(found) if format_ is AclFormat.STRIMZI else kafka_topics(found, servers)
        write(text, applied=False)
        return
    wanted = OutputFormat.JSON if format_ is AclFormat.JSON else output
    rows = [asdict(topic) for topic in found]
    emit(Result("acls", rows, _TOPIC_COLUMNS, warnings=needs.warnings), wanted)


def _check_format(format_: AclFormat | None, output: OutputFormat, *, topics: bool) -> None:
    """Check that ``--format`` fits ``--topics`` and ``-o``.

    Raises:
        UsageError: It does not.
    """
    if format_ is None or format_ is AclFormat.JSON:
        return
    if format_ not in _TEXTS[topics]:
        fitting = ", ".join(sorted({*_TEXTS[topics], AclFormat.JSON}))
        given = "with" if topics else "without"
        raise UsageError(
            f"--format {format_} has no meaning {given} --topics", remedy=f"choose one of: {fitting}"
        )
    if output is not OutputFormat.TABLE:
        raise UsageError(f"--format {format_} and -o {output} exclude each other", remedy="give one of them")


def _checked(principal: str | None, format_: AclFormat) -> str:
    """The principal for a format that contains it.

    Raises:
        UsageError: It is missing, or has no type.
    """
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
