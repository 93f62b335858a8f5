"""Remedies that move or derive a flow's stored positions, as the ends of sentences for the operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmtool.translation.types import TopicPartition

START_AGAIN = "then start `mmtool replicate` again"


def seek_to(place: TopicPartition, offset: int | str, flow: str) -> str:
    """The steps after which mirroring of a partition continues at an offset of the source.

    Args:
        place: The source partition.
        offset: The offset, or a word that stands for it.
        flow: The options that select the flow.
    """
    return (
        f"stop `mmtool replicate`, write the line `{place.topic},{place.partition},{offset}` to a file offsets.csv, run"
        f" `mmtool flow seek {flow} --csv offsets.csv --execute`, {START_AGAIN}"
    )


MISSING = "a cluster does not have the partition"
"""The meaning of the reason partition_missing."""


def forget_missing(flow: str) -> str:
    """What deletes the stored state of a topic that a cluster does not have."""
    return (
        f"`mmtool flow forget {flow} --topic TOPIC --execute` deletes the stored state of a topic that a cluster no"
        " longer has; if the source has the topic, the next start of `mmtool replicate` mirrors it from `mmtool.start`"
    )


def rebuild(topic: str, flow: str) -> str:
    """The steps that derive a topic's offset runs from both logs."""
    return (
        f"stop `mmtool replicate`, run `mmtool flow rebuild {flow} --topic {topic} --execute`, {START_AGAIN}"
    )
