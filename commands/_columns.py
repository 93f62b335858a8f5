"""Headings of offset tables where groups move from a flow's target to its source."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.output import Column


def by_cluster(columns: Iterable[Column], source: str, target: str) -> tuple[Column, ...]:
    """The columns with headings that name the clusters: the offsets are written on the flow's source.

    Args:
        columns: The columns of the other direction.
        source: The alias of the flow's source.
        target: The alias of the flow's target.
    """
    titles = {
        "upstream_offset": f"OFFSET-ON-{source}",
        "target_topic": f"TOPIC-ON-{target}",
        "downstream_offset": f"OFFSET-ON-{target}",
        "target_offset_before": f"OFFSET-BEFORE-ON-{source}",
    }
    return tuple(replace(column, title=titles.get(column.key, column.title)) for column in columns)
