"""Needed rights as text: ``kafka-acls.sh`` commands, and Strimzi's KafkaUser documents."""

from __future__ import annotations

import json
import re
from itertools import groupby
from typing import TYPE_CHECKING

from mmtool.errors import UsageError
from mmtool.plain_text import shell_line, shell_word
from mmtool.plan.failover.acl_rules import camel, resource_words
from mmtool.rights.needs import ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mmtool.rights.scope import NeededRight

_KUBERNETES_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)
_STRIMZI_TYPES = {ResourceType.TRANSACTIONAL_ID: "transactionalId"}


def kafka_acls(rights: Sequence[NeededRight], principal: str, bootstrap: Mapping[str, str]) -> str:
    """Commands that grant the rights, cluster by cluster: one command for the operations on one resource.

    Args:
        rights: By cluster.
        principal: As ``User:mm``.
        bootstrap: The bootstrap servers of each alias.
    """
    lines: list[str] = []
    for alias, of_cluster in groupby(rights, key=lambda right: right.cluster):
        for optional, some in _needed_first(of_cluster):
            lines.append(f"# cluster {alias}: {'optional' if optional else 'needed'}")
            for same in _by_resource(some):
                first, operations = same[0], [one.operation for one in same]
                resource = resource_option(first.resource_type, first.name, first.pattern)
                lines += [f"# {_whys(same)}"] if _is_power(same) else []
                lines.append(grant_command(bootstrap[alias], principal, operations, resource))
    return "".join(f"{line}\n" for line in lines)


def _is_power(same: Sequence[NeededRight]) -> bool:
    """Whether rights are needed on the cluster itself, so that who grants them should know why."""
    return same[0].resource_type is ResourceType.CLUSTER and not same[0].optional


def _whys(same: Iterable[NeededRight]) -> str:
    return "; ".join(dict.fromkeys(right.why for right in same))


def grant_command(bootstrap: str, principal: str, operations: Iterable[str], resource: str) -> str:
    """The ``kafka-acls.sh`` command that allows operations on a resource, given as its options."""
    words = " ".join(f"--operation {camel(operation)}" for operation in operations)
    return (
        f"kafka-acls.sh --bootstrap-server {shell_word(bootstrap)} --add --allow-principal {shell_word(principal)}"
        f" {words} {resource}"
    )


def resource_option(resource_type: ResourceType, name: str, pattern: str) -> str:
    """The options of ``kafka-acls.sh`` that name a resource."""
    return shell_line(resource_words(resource_type.name, name, pattern.upper()))


def strimzi(rights: Sequence[NeededRight], principal: str) -> str:
    """A KafkaUser document for each cluster, for Strimzi's simple authorization.

    Args:
        rights: By cluster.
        principal: ``User:NAME``, or ``User:CN=NAME`` of a client certificate; NAME is that of the KafkaUser.

    Raises:
        UsageError: No KafkaUser can have such a principal.
    """
    kind, _, name = principal.partition(":")
    user = name.removeprefix("CN=")
    if kind != "User" or not _KUBERNETES_NAME.fullmatch(user):
        raise UsageError(
            f"{principal} is not the principal of a KafkaUser",
            remedy="set --principal to User:NAME, or to User:CN=NAME of a client certificate; NAME may contain"
            " lower-case letters, digits, '-' and '.'",
        )
    documents = groupby(rights, key=lambda right: right.cluster)
    return "".join(
        "".join(f"{line}\n" for line in _document(alias, list(of), user)) for alias, of in documents
    )


def strimzi_head(kind: str, name: str, alias: str) -> Iterator[str]:
    """The lines of a Strimzi resource up to its spec; ``alias`` stands for the name of the Kafka resource."""
    yield "---"
    yield f"# for cluster {alias} of the properties file; set strimzi.io/cluster to the name of its Kafka resource"
    yield "apiVersion: kafka.strimzi.io/v1beta2"
    yield f"kind: {kind}"
    yield "metadata:"
    yield f"  name: {json.dumps(name)}"
    yield "  labels:"
    yield f"    strimzi.io/cluster: {json.dumps(alias)}"
    yield "spec:"


def _document(alias: str, rights: Sequence[NeededRight], user: str) -> Iterator[str]:
    yield from strimzi_head("KafkaUser", user, alias)
    yield "  authorization:"
    yield "    type: simple"
    yield "    acls:"
    for optional, some in _needed_first(rights):
        for same in _by_resource(some):
            yield from _entry(same, optional)


def _entry(same: Sequence[NeededRight], optional: bool) -> Iterator[str]:
    first = same[0]
    yield "      - resource:"
    yield f"          type: {_STRIMZI_TYPES.get(first.resource_type, first.resource_type.value)}"
    if first.resource_type is not ResourceType.CLUSTER:
        yield f"          name: {json.dumps(first.name)}"
        yield f"          patternType: {'prefix' if first.pattern == 'prefixed' else 'literal'}"
    yield f"        operations: [{', '.join(camel(right.operation) for right in same)}]"
    if optional or _is_power(same):
        yield f"        # {'optional: ' if optional else ''}{_whys(same)}"


def _needed_first(rights: Iterable[NeededRight]) -> Iterator[tuple[bool, list[NeededRight]]]:
    ordered = sorted(rights, key=lambda right: right.optional)
    yield from (
        (optional, list(some)) for optional, some in groupby(ordered, key=lambda right: right.optional)
    )


def _by_resource(rights: Iterable[NeededRight]) -> Iterator[list[NeededRight]]:
    found: dict[tuple[str, ...], list[NeededRight]] = {}
    for right in rights:
        found.setdefault((right.resource_type, right.name, right.pattern), []).append(right)
    yield from found.values()
