"""Read a flow's offset map from its two clusters, for programs that translate offsets themselves."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mmtool.errors import UsageError
from mmtool.plan.groups.offsets import Direction, PartitionFacts
from mmtool.translation.answers import Reason, Refused
from mmtool.translation.offset_map import MappedPartition, OffsetMap
from mmtool.translation.types import UNKNOWN

if TYPE_CHECKING:
    import os
    from collections.abc import Collection

    from mmtool.insight.flow_now import FlowClusters

_REQUEST: Final = timedelta(seconds=30)


def load_offset_map(
    config: str | os.PathLike[str] | None = None,
    source: str | None = None,
    target: str | None = None,
    *,
    topics: Collection[str] = (),
    timeout: timedelta = _REQUEST,
) -> OffsetMap:
    """Read a flow's offset map from its clusters, as it is now.

    Reads offset runs and the bounds of both logs, and changes nothing. The principals need the rights of
    ``mmtool acls --for read``.

    Args:
        config: MirrorMaker 2's properties file; None means the one that ``MMTOOL_CONFIG`` names.
        source: Alias of the flow's source; needed if the file enables several flows.
        target: Alias of the flow's target; likewise.
        topics: Topics of the source that the map is to have; none means all topics that the flow mirrors.
        timeout: The time limit of one request to a cluster.

    Returns:
        The map of all partitions of these topics. A partition that cannot be translated is part of it: its offsets
        are refused with the reason.

    Raises:
        MmtoolError: The file has errors, several flows match, the flow does not mirror a topic of ``topics``, a cluster
            does not answer or denies a right, or stored state cannot be read. ``code`` says which.
    """
    import os
    from pathlib import Path

    from mmtool.config import load_settings
    from mmtool.insight.flow_now import connect

    if isinstance(topics, str):  # also a collection, of its letters
        raise UsageError(
            f"topics is the string {topics!r}", remedy=f"name topics in a list: topics=[{topics!r}]"
        )
    path = None if config is None else Path(config)
    return read_offset_map(connect(load_settings(path, os.environ).one(source, target), timeout), topics)


def read_offset_map(clusters: FlowClusters, topics: Collection[str] = ()) -> OffsetMap:
    """The map of a flow's topics, or of those that ``topics`` names, by both clusters' present answers.

    Raises:
        MmtoolError: As `mmtool.insight.translation.look` and `mmtool.insight.partitions.partition_facts`.
    """
    from mmtool.insight.partitions import partition_facts
    from mmtool.insight.translation import look

    facts = partition_facts(look(clusters, topics), Direction.FORWARD)
    return OffsetMap({place: _mirror(known) for place, known in facts.items()})


def _mirror(facts: PartitionFacts) -> MappedPartition | Refused:
    """What `mmtool.plan.groups.offsets.answer_of` decides for all commits of a partition, and what it translates by."""
    if facts.problem:
        return Refused(Reason.PARTITION_MISSING)
    if facts.map is None:
        return Refused(Reason.NEVER_RAN)
    if facts.target_log is UNKNOWN:
        return Refused(Reason.PARTITION_MISSING)
    if facts.back is not None and facts.has_others:
        return Refused(Reason.AMBIGUOUS)
    return MappedPartition(facts.map, facts.target_log, facts.source_log, facts.back)
