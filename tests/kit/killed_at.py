"""``python -m kit.killed_at WHEN WHAT ARGUMENT...``: mmtool, which dies by SIGKILL at a certain place.

WHEN and WHAT are ``before`` or ``after`` a step, once that is on record, or ``while-writing`` a group: in place of its
request, when those of other groups have been answered; or ``while-salvaging`` diverged records, in place of a batch,
which WHAT counts from 0.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import time
from typing import TYPE_CHECKING

from mmtool.kafka.groups.groups import KafkaGroups
from mmtool.kafka.logs.sequence_append import KafkaAppender
from mmtool.kafka.state.journal import KafkaJournal
from mmtool.plan.records.journal import EntryKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mmtool.kafka.batches import ReadyBatch
    from mmtool.kafka.ports import Problem
    from mmtool.plan.groups.facts import Commit, GroupKind
    from mmtool.plan.records.journal import JournalEntry
    from mmtool.translation.types import TopicPartition

_OTHERS_SECONDS = 2.0
_STATES = {"before": "running", "after": "done"}


def main(when: str, what: str, *arguments: str) -> None:
    """Run mmtool with the arguments."""
    if when == "while-writing":
        _die_at_write(what)
    elif when == "while-salvaging":
        _die_at_batch(int(what))
    else:
        _die_at_word(_STATES[when], what)
    sys.argv = ["mmtool", *arguments]
    runpy.run_module("mmtool", run_name="__main__", alter_sys=True)


def _die_at_word(state: str, step: str) -> None:
    append = KafkaJournal.append

    def heard(self: KafkaJournal, entries: Sequence[JournalEntry]) -> None:
        append(self, entries)
        if any(
            (e.kind, e.body.get("step"), e.body.get("step_state")) == (EntryKind.STEP, step, state)
            for e in entries
        ):
            os.kill(os.getpid(), signal.SIGKILL)

    KafkaJournal.append = heard  # type: ignore[method-assign]


def _die_at_write(victim: str) -> None:
    alter = KafkaGroups.alter

    def heard(
        groups: KafkaGroups,
        group: str,
        offsets: Mapping[TopicPartition, Commit],
        kind: GroupKind | None = None,
    ) -> dict[TopicPartition, Problem]:
        if group == victim:
            time.sleep(_OTHERS_SECONDS)
            os.kill(os.getpid(), signal.SIGKILL)
        return alter(groups, group, offsets, kind)

    KafkaGroups.alter = heard  # type: ignore[method-assign,assignment]


def _die_at_batch(number: int) -> None:
    append, left = KafkaAppender.append, [number]

    def heard(self: KafkaAppender, place: TopicPartition, batch: ReadyBatch) -> None:
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        append(self, place, batch)

    KafkaAppender.append = heard  # type: ignore[method-assign]


if __name__ == "__main__":
    main(*sys.argv[1:])
