"""Saved plans: written to a file by a rehearsal, and checked by their fingerprint before they are executed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mmtool import __version__
from mmtool.errors import RefusedError, StalePlanError, UsageError
from mmtool.failover.operation.states import OperationState, Trigger
from mmtool.failover.report.runbook import Runbook
from mmtool.plain_text import group_options
from mmtool.plan.groups.offsets import Direction, topic_names
from mmtool.plan.records.documents import UnreadableDocumentError
from mmtool.plan.runbook.by_hand import ToolCluster
from mmtool.plan.runbook.plan_file import PlanOrigin, SavedPlan, another_cluster, fingerprint_of, read_plan
from mmtool.plan.words import counted
from mmtool.runtime.files import file_errors
from mmtool.runtime.process import operator
from mmtool.translation.types import or_none

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from mmtool.config import FlowSettings
    from mmtool.failover.modes.rehearsal import SavableRehearsal
    from mmtool.failover.operation.records import Recorded
    from mmtool.insight.flow_now import FlowNow
    from mmtool.insight.target_only import TargetNow
    from mmtool.kafka.ports import ClusterPort
    from mmtool.plan.groups.facts import GroupFacts
    from mmtool.plan.groups.offsets import GroupPlan
    from mmtool.plan.runbook.plan_file import Fingerprint, SideSeen
    from mmtool.plan.topics.facts import TopicFacts
    from mmtool.translation.types import ClusterId, Unknown


def seen_of_flow(flow: FlowNow, groups: Iterable[GroupFacts], plans: Collection[GroupPlan]) -> Fingerprint:
    """The fingerprint of a plan whose clusters both answered: a planned failover or a failback."""
    source = _side(flow.identity.source_id, flow.topics)
    target = _side(flow.identity.target_id, flow.target_topics)
    home = any(plan.direction is Direction.REVERSE for plan in plans)
    here, there = (target, source) if home else (source, target)
    return fingerprint_of(here, there, groups, dict(topic_names(plans)))


def seen_of_target(now: TargetNow, plans: Iterable[GroupPlan]) -> Fingerprint:
    """The fingerprint of an emergency's plan, from the target alone: of the source it has the mirrored topics."""
    topics: dict[str, tuple[str, int]] = {}
    for place, known in now.facts.partitions.items():
        if known.map is not None:
            _, counted_yet = topics.get(place.topic, ("", 0))
            topics[place.topic] = known.map.about.topic_id, counted_yet + 1
    here: SideSeen = {"cluster_id": or_none(now.source_id), "topics": topics}
    there = _side(now.target_id, now.topics)
    return fingerprint_of(here, there, now.facts.groups, dict(topic_names(plans)))


def _side(cluster_id: ClusterId | Unknown, topics: Mapping[str, TopicFacts]) -> SideSeen:
    return {
        "cluster_id": or_none(cluster_id),
        "topics": {name: (topic.topic_id, topic.partitions) for name, topic in topics.items()},
    }


_REHEARSE = "rehearse again with --out FILE, and review the new plan"
_OTHER_CLUSTER = f"check -c, and bootstrap.servers of that cluster; if the cluster was replaced, {_REHEARSE}"


def saved_of(rehearsal: SavableRehearsal, options: Mapping[str, str]) -> SavedPlan:
    """The plan of a rehearsal with its origin (operator, time, mmtool version), to be written to a file.

    Args:
        rehearsal: The rehearsal whose plan the operator saw.
        options: The command's options other than the groups, by name.
    """
    origin = PlanOrigin(operator(), int(time.time() * 1000), __version__)
    return SavedPlan(rehearsal.plan, rehearsal.seen, origin, dict(options), rehearsal.warnings)


def runbook_of(saved: SavedPlan, settings: FlowSettings, config: str, *, kept: Path | None) -> Runbook:
    """The content of the page with the plan to read.

    Args:
        saved: The plan.
        settings: The settings of the plan's flow.
        config: The properties file, as the operator names it.
        kept: The file with the saved plan itself; None if it was not saved.
    """
    here, there = settings.source, settings.target
    flow = ("-s", here.alias, "-t", there.alias)
    groups = group_options(saved.groups)
    said = [word for option in saved.option_words for word in option]
    meant = ("--plan", str(kept)) if kept is not None else (*flow, *groups, *said)
    return Runbook(
        saved,
        ToolCluster(here.alias, here.bootstrap_servers),
        ToolCluster(there.alias, there.bootstrap_servers),
        config,
        meant,
    )


def load(path: Path) -> SavedPlan:
    """Read a saved plan from a file.

    Raises:
        UsageError: The file cannot be read, or does not hold an intact saved plan.
    """
    with file_errors(f"--plan {path}", "name a file that a rehearsal wrote with --out FILE", near=path):
        content = path.read_bytes()
    try:
        return read_plan(content)
    except UnreadableDocumentError as error:
        remedy = f"{_REHEARSE}; or give --plan the unchanged file that this version of mmtool wrote"
        raise UsageError(f"--plan {path}: {error}", remedy=remedy, code="unreadable_plan") from error


def check_clusters(saved: SavedPlan, there: ClusterPort, here: ClusterPort | None = None) -> None:
    """Raise if a saved plan was made for other clusters than those that answer now.

    Args:
        saved: The plan.
        there: The cluster that the groups move to.
        here: The cluster that they move from; None in an emergency.

    Raises:
        StalePlanError: A cluster's id is not the one in the plan.
        UnreachableError, NotAuthorisedError: A cluster does not answer.
    """
    found = another_cluster(saved.plan.way.target, saved.seen["there"]["cluster_id"], there.probe())
    if here is not None:
        found += another_cluster(saved.plan.way.source, saved.seen["here"]["cluster_id"], here.probe())
    refuse_stale(saved.plan.operation_id, found, _OTHER_CLUSTER)


def check_fresh(saved: SavedPlan, rehearsal: SavableRehearsal) -> None:
    """Raise if the facts that a saved plan depends on have changed, or the plan made now differs.

    Raises:
        StalePlanError: The message has the first difference, and the number of others.
    """
    refuse_stale(saved.plan.operation_id, saved.stale(rehearsal.plan, rehearsal.seen))


def refuse_stale(operation_id: str, differences: Sequence[str], remedy: str = _REHEARSE) -> None:
    """Raise for a saved plan with differences; return if there are none.

    Raises:
        StalePlanError: The message has the first difference, and the number of others.
    """
    if not differences:
        return
    others = len(differences) - 1
    more = f"; {counted(others, 'more difference')}" if others else ""
    raise StalePlanError(
        f"the plan {operation_id} is stale: {differences[0]}{more}",
        remedy=f"nothing was changed; {remedy}",
    )


def is_spent(saved: SavedPlan, found: Recorded | None) -> bool:
    """Whether the saved plan was already executed to its end.

    Args:
        saved: The plan.
        found: The operation with the plan's id in the journal; None if there is none.

    Raises:
        RefusedError: The plan's operation was started and is not completed, or was cancelled or rolled back.
    """
    if found is None:
        return False
    if found.state is OperationState.COMPLETED:
        return True
    name = saved.plan.operation_id
    resumable = found.may(Trigger.RESUME)
    raise RefusedError(
        f"operation {name} is {found.state}: a plan is executed once",
        remedy=(
            f"`mmtool failover resume {name} -c FILE --execute` completes it"
            if resumable
            else "rehearse again with --out FILE, and execute the new plan"
        ),
        code="open_operation" if resumable else "wrong_state",
    )
