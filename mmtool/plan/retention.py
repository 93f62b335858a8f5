"""What a source deletes before it was mirrored: what has gone, and what is about to go."""

from __future__ import annotations

from typing import NamedTuple

from mmtool.plan.words import counted, moment


class Retention(NamedTuple):
    """What a cluster keeps of each partition of a topic; None where it keeps everything, or does not tell.

    Attributes:
        ms: For how long.
        bytes: How much.
    """

    ms: int | None = None
    bytes: int | None = None


def deleted_unmirrored(position: int, log_start: int) -> str:
    """That the source's log begins behind the mirror's position, and which offsets that makes."""
    return f"the source deleted offsets {position} to {log_start - 1} before they were mirrored"


def passing(oldest_ms: int, now_ms: int, keeps: Retention, first_ms: int | None) -> str:
    """That retention is about to pass the mirror, once half of a record's time is over; empty before.

    A log that has reached its size keeps a record for as long as it has kept the one that it is to delete next.

    Args:
        oldest_ms: When the first record that is not mirrored was written.
        now_ms: The time.
        keeps: What the source keeps of the topic.
        first_ms: When the first record of a log that was deleted from was written; None where nothing was deleted.
    """
    spans = {"retention.ms": keeps.ms}
    if keeps.bytes is not None and first_ms is not None:
        spans["retention.bytes"] = now_ms - first_ms
    due = {name: span for name, span in spans.items() if span is not None and now_ms - oldest_ms >= span / 2}
    if not due:
        return ""
    name = min(due, key=lambda name: due[name])
    from_ms = oldest_ms + due[name]
    when = f"from {moment(from_ms)} on, {_in(from_ms - now_ms)}," if from_ms > now_ms else "at any moment"
    return f"{when} the source may delete what is not mirrored yet ({name})"


def _in(ms: int) -> str:
    """Roughly, and never more than is left."""
    seconds = ms // 1000
    for name, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 2 * size:
            return f"in {seconds // size} {name}s"
    return f"in {counted(seconds, 'second')}"
