"""The first answer of clusters that a new properties file names: whether they let mmtool in, and how large they are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.doctor.entrances import LOGIN_STAGES, judge_away
from mmtool.errors import MmtoolError, NotAuthorisedError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmtool.doctor.examination import ExaminedCluster


@dataclass(frozen=True, slots=True)
class Answer:
    """A cluster that answered, and lets mmtool in.

    Attributes:
        cluster_id: The id that its brokers report.
        brokers: How many are alive.
    """

    cluster_id: str
    brokers: int


def ask_each(clusters: Sequence[ExaminedCluster]) -> dict[str, Answer | MmtoolError]:
    """Ask all clusters at the same time; by alias, the answer or the reason why there is none."""
    with ThreadPoolExecutor(max(1, len(clusters))) as pool:
        answers = pool.map(_ask, clusters)
        return {cluster.alias: answer for cluster, answer in zip(clusters, answers, strict=True)}


def _ask(cluster: ExaminedCluster) -> Answer | MmtoolError:
    """Listeners are probed first: a client retries an unreachable listener until its time is up."""
    listeners = cluster.details.listeners()
    away = judge_away(cluster.alias, listeners)
    if away is not None:
        kind = NotAuthorisedError if listeners[0].failed in LOGIN_STAGES else UnreachableError
        return kind(away.message, remedy=away.remedy)
    try:
        return Answer(cluster.port.probe(), len(cluster.details.brokers()))
    except MmtoolError as error:
        return error
