"""Look for new topics and partitions in a running driver, and report each problem once."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import UsageError
from mmtool.events import Event, Notice, NoticeDeduplicator, flow_fields, flow_notice
from mmtool.plan.words import few, retried
from mmtool.translation.names import RenamePolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mmtool.replication.driver.flow_run import FlowRun


_AGAIN_SECONDS = 15.0


@dataclass(slots=True)
class TopicRefresher:
    """Looks for topics and partitions of every flow, at the interval of its settings.

    Attributes:
        runs: The flows.
        say: Called with sentences for the operator.
    """

    runs: Sequence[FlowRun]
    say: Callable[[str], None]
    _at: float = 0.0
    _asked: bool = False
    _unplanned: set[str] = field(default_factory=set)
    _sayings: NoticeDeduplicator = field(init=False)

    def __post_init__(self) -> None:
        self._sayings = NoticeDeduplicator(self.say)

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._at or any(run.wants_look for run in self.runs)

    def soon(self) -> None:
        """Make `look` due now, and for all flows once, because the settings have changed."""
        self._at, self._asked = 0.0, True

    async def look(self) -> bool:
        """Refresh the topics of the flows once; returns whether the next round differs.

        A cancelled call is due again at once; a flow whose refresh failed, within 15 s. Such a call may have found
        changes that no later one sees as new, so the flow's next refresh counts as a change.
        """
        asked, self._asked = self._asked, False
        intervals = (run.flow.settings.refresh_topics_interval_seconds for run in self.runs)
        self._at = time.monotonic() + min(intervals, default=_AGAIN_SECONDS)
        changed, told = False, [run.view.refused for run in self.runs]
        try:
            for run in self.runs:
                settings, again = run.flow.settings, run.name in self._unplanned
                if run.life.is_claimed and (asked or again or run.wants_look or settings.refresh_topics):
                    changed |= await self._refreshed(run)
        except asyncio.CancelledError:
            self._at, self._asked = 0.0, asked
            raise
        if (
            changed
            or told != [run.view.refused for run in self.runs]
            or any(run.warnings for run in self.runs)
        ):
            self.warn()
        return changed

    async def _refreshed(self, run: FlowRun) -> bool:
        again = run.name in self._unplanned
        self._unplanned.add(run.name)
        try:
            changed = await run.refresh()
        except Exception as error:  # noqa: BLE001  a cluster that is away for a moment ends no round
            said = f"the topic list could not be refreshed: {retried(error)}; mmtool keeps trying"
            self._sayings.once(run.name, flow_notice(run.name, said, Event.TOPICS_UNREADABLE))
            self._at = min(self._at, time.monotonic() + _AGAIN_SECONDS)
            return False
        self._unplanned.discard(run.name)
        self._sayings.is_well(run.name)
        return changed or again

    def warn(self) -> None:
        """Report the problems with the topics of the last refresh, and the flows' other warnings."""
        for run in self.runs:
            if run.view.matched == 0 and run.life.is_claimed:
                source = run.flow.identity.source_alias
                starts = (
                    "mirroring starts when such a topic exists"
                    if run.flow.settings.refresh_topics
                    else "when such a topic exists, stop and start `mmtool replicate` (refresh.topics.enabled = false)"
                )
                said = (
                    f"nothing to mirror yet: `topics` and topics.exclude select no topic of {source} that mmtool may"
                    f" read; {starts}"
                )
                self.say(flow_notice(run.name, said, Event.NO_TOPIC))
            if run.view.left_out:
                self._sayings.once(f"{run.name} left out", _left_out(run))
            for topic, reason in run.view.refused.items():
                halted = flow_notice(
                    run.name,
                    f"topic {topic} is not mirrored: {reason}",
                    Event.TOPIC_HALTED,
                    topic=topic,
                    reason=reason,
                )
                self._sayings.once(f"{run.name} {topic}", halted)
            for topic in run.view.topics:
                self._sayings.is_well(f"{run.name} {topic}")
            while run.warnings:
                self.say(Notice.of(run.warnings.pop(0)).under("", **flow_fields(run.name)))


def _left_out(run: FlowRun) -> str:
    target = run.flow.settings.target.alias
    remedy = f"set {run.flow.settings.alias_keys.target} to another alias"
    if isinstance(run.flow.settings.policy, RenamePolicy):
        remedy = (
            "let these producers write to other topics, or, if the flow has mirrored no topic yet, put ${source} into"
            " mmtool.topic.rename.format"
        )
    said = (
        f"not mirrored to {target}: {few(run.view.left_out)}; the replication policy reads these names as mirrors of"
        f" topics of {target}; nothing has to be done, unless producers write to these topics on"
        f" {run.flow.settings.source.alias}: then {remedy}"
    )
    return flow_notice(run.name, said, Event.TOPICS_LEFT_OUT, topics=run.view.left_out)


async def refuse_idle(runs: Sequence[FlowRun]) -> None:
    """Refuse a run until caught up if no flow matches a topic: it would end as if it had caught up.

    One idle flow of several is not refused: of two opposite flows, one may have no topic yet.

    Raises:
        UsageError: no flow matches a topic.
    """
    if any(await asyncio.gather(*(run.matches() for run in runs))):
        return
    which = "; ".join(f"flow {run.name} matches no topic of cluster {run.flow.source.alias}" for run in runs)
    names = ", ".join(f"{run.name}.topics" for run in runs)
    raise UsageError(
        which,
        remedy=f"check {names} and topics.exclude: they must select topics that exist and that mmtool may read",
        code="no_topic",
    )
