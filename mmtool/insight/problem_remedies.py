"""What to do about a request on group offsets that failed, by the name of its problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.kafka.errors import KINDS, Kind
from mmtool.kafka.remedies import AWAY, GRANT, REMEDIES
from mmtool.plan.words import first_part, joined
from mmtool.translation.refusals import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

_OURS = {UnreachableError.code: Kind.AWAY, NotAuthorisedError.code: Kind.DENIED}
_ACTIVE = "stop the client that also commits for the group on {alias}: a consumer with assign(), or a tool"
_BY_KIND = {
    Kind.AWAY: AWAY,
    Kind.DENIED: GRANT,
    Kind.BUSY: "stop the consumers of the group on {alias}",
    Kind.GONE: "check whether the topic or the group was deleted on {alias}",
}
"""The clause for a problem that has none in `REMEDIES`."""


def remedy_of(problems: Iterable[str], where: str, denied: str = GRANT) -> str:
    """One clause for each cause of some problems, without a command to run afterwards; empty where no cause is known.

    Args:
        problems: Names of problems, as `mmtool.kafka.ports.Problem` has them.
        where: The cluster's alias.
        denied: The clause for a missing right.
    """
    templates = dict.fromkeys(filter(None, map(_template, problems)))
    return joined(
        *(denied if one == GRANT else one.format(alias=where, topic="the topic") for one in templates)
    )


def _template(name: str) -> str:
    if name == Reason.ACTIVE_ON_TARGET:
        return _ACTIVE
    kind = _OURS.get(name) or KINDS.get(name)
    return first_part(REMEDIES.get(name, "")) or ("" if kind is None else _BY_KIND.get(kind, ""))
