"""``mmtool failover release``: remove the marks of failed-over topics, so that they are mirrored again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.commands import _options as options
from mmtool.commands._connections import one_flow
from mmtool.commands._consent import consent
from mmtool.output import Column, OutputFormat, Result, finish, talk

if TYPE_CHECKING:
    from mmtool.failover.modes.release import Release

RELEASED = (Column("topic"), Column("operation_id"), Column("state"), Column("reason"))


def release(
    *,
    config: options.Config = None,
    source: options.Source = None,
    target: options.Target = None,
    topic: options.ReleasedTopic = None,
    execute: options.Execute = False,
    yes: options.Yes = False,
    output: options.Output = OutputFormat.TABLE,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Let `mmtool replicate` mirror failed-over topics again; without --topic, all of them.

    Use it where groups stay on the target after an emergency failover: a failback releases their topics by itself.
    """
    from mmtool.failover.service.release import release_topics

    def agreed(found: Release) -> bool:
        def shown() -> Result:
            return Result("failover release", found.rows(released=False), RELEASED, found.warnings)

        if not execute or not found.marks:
            finish(shown(), output, None)
            talk(
                f"nothing was changed; add --execute to {found.question}"
                if found.marks
                else f"no topic of {found.identity.name} has failed over: there is nothing to release"
            )
            return False
        consent(found.question, yes=yes, about=shown)
        return True

    done = release_topics(one_flow(config, source, target), tuple(topic or ()), timeout, agreed)
    if done is None:
        return
    finish(Result("failover release", done.rows(released=True), RELEASED, applied=True), output, None)
    talk("a running `mmtool replicate` mirrors the released topics again within seconds")
