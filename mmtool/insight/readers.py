"""Find the topics that each group of a cluster reads, from its commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.plan.groups.facts import OWN_GROUP_PREFIX

if TYPE_CHECKING:
    from mmtool.insight.flow_now import FlowNow


def readers_of(flow: FlowNow) -> dict[str, frozenset[str]]:
    """The flow's topics in which each source group has commits; groups that may not be read are left out.

    Raises:
        UnreachableError, NotAuthorisedError: The source does not answer.
    """
    groups = flow.clusters.source.groups
    names = [name for name in groups.listing().consumers if not name.startswith(OWN_GROUP_PREFIX)]
    return {
        name: frozenset(place.topic for place in commits) & flow.topics.keys()
        for name, commits in groups.commits_each(names).items()
    }
