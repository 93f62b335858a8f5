"""The tables of checks, in the order of `Check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.doctor.flow_checks import GROUP_CHECKS, MM2_CHECKS, TOPIC_CHECKS

if TYPE_CHECKING:
    from mmtool.doctor.examination import CheckOf, ExaminedCluster, ExaminedFlow

CLUSTER_CHECKS: tuple[CheckOf[ExaminedCluster], ...] = ()
"""Made once for each cluster."""

FLOW_CHECKS: tuple[CheckOf[ExaminedFlow], ...] = (*TOPIC_CHECKS, *GROUP_CHECKS, *MM2_CHECKS)
"""Made once for each flow."""
