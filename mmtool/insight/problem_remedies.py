"""What to do about a request on group offsets that failed, by the name of its problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.kafka.errors import KINDS, Kind
from mmtool.plan.words import joined
from mmtool.translation.refusals import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

GRANT = "grant mmtool's principal the missing right: `mmtool doctor -c FILE` prints the kafka-acls.sh command"
"""The remedy of a denied request that may have needed one of several rights."""

_OURS = {UnreachableError.code: Kind.AWAY, NotAuthorisedError.code: Kind.DENIED}
_BY_NAME = {
    "OFFSET_METADATA_TOO_LARGE": "raise offset.metadata.max.bytes on {where}",
    "GROUP_SUBSCRIBED_TO_TOPIC": "stop the group's consumers on {where}",
    Reason.ACTIVE_ON_TARGET: "stop the client that also commits for the group on {where}: a consumer with assign(), or"
    " a tool",
}
_BY_KIND = {
    Kind.AWAY: "check {where}.bootstrap.servers and the brokers of {where}",
    Kind.DENIED: "{denied}",
    Kind.BUSY: "stop the group's consumers on {where}",
    Kind.GONE: "check whether the topic or the group was deleted on {where}",
}


def remedy_of(problems: Iterable[str], where: str, denied: str = GRANT) -> str:
    """One clause for each cause of some problems, without a command to run afterwards; empty where no cause is known.

    Args:
        problems: Names of problems, as `mmtool.kafka.ports.Problem` has them.
        where: The cluster's alias.
        denied: The clause for a missing right.
    """
    templates = dict.fromkeys(filter(None, map(_template, problems)))
    return joined(*(one.format(where=where, denied=denied) for one in templates))


def _template(name: str) -> str:
    kind = _OURS.get(name) or KINDS.get(name)
    return _BY_NAME.get(name) or ("" if kind is None else _BY_KIND.get(kind, ""))
