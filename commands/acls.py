"""``mmtool acls``: the rights that mmtool needs on each cluster, without a connection to any."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from mmtool.commands import _options as options
from mmtool.errors import UsageError
from mmtool.output import Column, OutputFormat, Result, emit, write
from mmtool.rights.needs import Purpose

_COLUMNS = (
    Column("cluster"),
    Column("resource_type"),
    Column("name"),
    Column("pattern"),
    Column("operation"),
    Column("optional"),
    Column("why", note=True),
)


class AclFormat(StrEnum):
    """The values of ``--format``."""

    KAFKA_ACLS = "kafka-acls"
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
    list[Purpose],
    typer.Option(
        "--for",
        metavar="|".join(Purpose),
        help="What the principal runs; repeatable. replicate: also `mmtool flow`; read: the commands that change"
        " nothing; failover: `mmtool failover` and all commands that commit offsets.",
    ),
]
FormatOption = Annotated[
    AclFormat | None,
    typer.Option(
        "--format",
        help="kafka-acls: commands of kafka-acls.sh; strimzi: KafkaUser documents; json: the same as -o json. Default:"
        " the format that -o names.",
    ),
]


def acls(
    *,
    purposes: For,
    where: options.ChosenFlows,
    principal: Principal = None,
    format_: FormatOption = None,
    output: options.Output = OutputFormat.TABLE,
) -> None:
    """Print the ACLs that mmtool needs for the flows of the properties file; no cluster is contacted.

    An ACL that is marked optional is needed only for the feature that the column WHY names.
    """
    from dataclasses import asdict

    from mmtool.commands._connections import loaded
    from mmtool.rights.render import kafka_acls, strimzi
    from mmtool.rights.scope import rights_of_flows

    if format_ in {AclFormat.KAFKA_ACLS, AclFormat.STRIMZI}:
        user = _checked(principal, format_, output)
    settings = loaded(where.config)
    flows = settings.select(where.source, where.target)
    rights = rights_of_flows(flows, purposes, settings.heartbeats_only)
    match format_:
        case AclFormat.KAFKA_ACLS:
            sides = [side for flow in flows for side in (flow.source, flow.target)]
            servers = {side.alias: side.bootstrap_servers_for("admin") for side in sides}
            write(kafka_acls(rights, user, servers), applied=False)
        case AclFormat.STRIMZI:
            write(strimzi(rights, user), applied=False)
        case _:
            wanted = OutputFormat.JSON if format_ is AclFormat.JSON else output
            emit(Result("acls", [asdict(right) for right in rights], _COLUMNS), wanted)


def _checked(principal: str | None, format_: AclFormat, output: OutputFormat) -> str:
    """The principal for a format that contains it.

    Raises:
        UsageError: It is missing, has no type, or ``-o`` asks for another format.
    """
    if output is not OutputFormat.TABLE:
        raise UsageError(f"--format {format_} and -o {output} exclude each other", remedy="give one of them")
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
