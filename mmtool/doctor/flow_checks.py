"""The checks of a flow's topics, of its groups, and of an existing MirrorMaker 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.doctor.examination import CheckOf
from mmtool.doctor.finding import Check
from mmtool.doctor.groups import (
    examine_assign_group,
    examine_connect_group,
    examine_share_group,
    examine_streams_group,
)
from mmtool.doctor.loops import examine_loop
from mmtool.doctor.mirror_maker import (
    examine_checkpoints,
    examine_filters,
    examine_offset_lag,
    examine_scope,
)
from mmtool.doctor.retention import examine_compaction, examine_retention
from mmtool.doctor.topics import examine_names, examine_partitions, examine_schema_registry
from mmtool.doctor.transactions import examine_transactions

if TYPE_CHECKING:
    from mmtool.doctor.examination import ExaminedFlow

_SOURCE = frozenset({"source"})

TOPIC_CHECKS: tuple[CheckOf[ExaminedFlow], ...] = (
    CheckOf(Check.RETENTION, examine_retention, "no record is deleted before it is mirrored"),
    CheckOf(Check.COMPACTION, examine_compaction, "topics and mirrors are compacted alike"),
    CheckOf(Check.PARTITIONS, examine_partitions, "no mirror has other partitions than its topic"),
    CheckOf(Check.NAMES, examine_names, "every mirrored topic has a name of its own on the target"),
    CheckOf(Check.LOOP, examine_loop, "no record comes back to the cluster where it was born"),
    CheckOf(Check.SCHEMA_REGISTRY, examine_schema_registry, "no schemas are left behind", _SOURCE),
    CheckOf(Check.HANGING_TRANSACTION, examine_transactions, "no transaction holds the mirror", _SOURCE),
)
"""Of a flow's topics."""

GROUP_CHECKS: tuple[CheckOf[ExaminedFlow], ...] = (
    CheckOf(Check.ASSIGN_GROUP, examine_assign_group, "no group commits without being a member"),
    CheckOf(Check.STREAMS_GROUP, examine_streams_group, "no application loses its state"),
    CheckOf(Check.SHARE_GROUP, examine_share_group, "no share groups", _SOURCE),
    CheckOf(
        Check.CONNECT_GROUP, examine_connect_group, "no groups of Kafka Connect among the flow's", _SOURCE
    ),
)
"""Of its groups."""

MM2_CHECKS: tuple[CheckOf[ExaminedFlow], ...] = (
    CheckOf(Check.MM2_OFFSET_LAG, examine_offset_lag, "MirrorMaker 2 syncs the offsets of every partition"),
    CheckOf(Check.MM2_FILTERS, examine_filters, "MirrorMaker 2 translates the groups of what it mirrors"),
    CheckOf(
        Check.MM2_CHECKPOINTS, examine_checkpoints, "MirrorMaker 2's checkpoints keep up with the groups"
    ),
    CheckOf(Check.MM2_SCOPE, examine_scope, "every key stands where it is read", frozenset()),
)
"""Of an existing MirrorMaker 2."""
