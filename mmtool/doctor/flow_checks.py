"""Doctor checks of a flow's topics, of its groups, and of an existing MirrorMaker 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.doctor.examination import CheckOf
from mmtool.doctor.finding import Check
from mmtool.doctor.groups import (
    check_assign_group,
    check_connect_group,
    check_share_group,
    check_streams_group,
)
from mmtool.doctor.loops import check_loop
from mmtool.doctor.mirror_maker import (
    check_checkpoints,
    check_filters,
    check_offset_lag,
    check_scope,
)
from mmtool.doctor.retention import check_compaction, check_retention
from mmtool.doctor.topics import check_names, check_partitions, check_schema_registry
from mmtool.doctor.transactions import check_transactions

if TYPE_CHECKING:
    from mmtool.doctor.examination import ExaminedFlow

_SOURCE = frozenset({"source"})

TOPIC_CHECKS: tuple[CheckOf[ExaminedFlow], ...] = (
    CheckOf(
        Check.RETENTION,
        check_retention,
        "records are kept until they are mirrored, and mirrors keep them as long as their source topics do",
    ),
    CheckOf(Check.COMPACTION, check_compaction, "each mirror has the cleanup.policy of its source topic"),
    CheckOf(
        Check.PARTITIONS, check_partitions, "each mirror has or gets as many partitions as its source topic"
    ),
    CheckOf(Check.NAMES, check_names, "every mirrored topic has a valid name of its own on the target"),
    CheckOf(Check.LOOP, check_loop, "no record returns to the cluster where it was produced"),
    CheckOf(
        Check.SCHEMA_REGISTRY,
        check_schema_registry,
        "the topic _schemas is mirrored under its own name, or the source has no such topic",
        _SOURCE,
    ),
    CheckOf(
        Check.HANGING_TRANSACTION,
        check_transactions,
        "no transaction of an idle or failed producer is open on a mirrored topic",
        _SOURCE,
    ),
)
"""Checks of a flow's topics."""

GROUP_CHECKS: tuple[CheckOf[ExaminedFlow], ...] = (
    CheckOf(Check.ASSIGN_GROUP, check_assign_group, "no group commits offsets while it has no members"),
    CheckOf(
        Check.STREAMS_GROUP,
        check_streams_group,
        "no Kafka Streams application would lose its state in a failover",
    ),
    CheckOf(Check.SHARE_GROUP, check_share_group, "none of the flow's groups is a share group", _SOURCE),
    CheckOf(
        Check.CONNECT_GROUP,
        check_connect_group,
        "none of the flow's groups belongs to Kafka Connect",
        _SOURCE,
    ),
)
"""Checks of a flow's groups."""

MM2_CHECKS: tuple[CheckOf[ExaminedFlow], ...] = (
    CheckOf(Check.MM2_OFFSET_LAG, check_offset_lag, "MirrorMaker 2 writes offset syncs of every partition"),
    CheckOf(
        Check.MM2_FILTERS,
        check_filters,
        "MirrorMaker 2's topic and group filters agree with the properties file",
    ),
    CheckOf(Check.MM2_CHECKPOINTS, check_checkpoints, "MirrorMaker 2's checkpoints keep up with the groups"),
    CheckOf(
        Check.MM2_SCOPE,
        check_scope,
        "every key of the properties file is in a scope where it is read",
        frozenset(),
    ),
)
"""Checks of an existing MirrorMaker 2."""
