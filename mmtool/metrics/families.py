"""The tables of mmtool's metric families and levels of detail; `docs/reference/metrics.md` is generated from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

_FLOW = ("source", "target")
_PLACE = (*_FLOW, "topic", "partition")
_GROUP = (*_FLOW, "group")


class MetricType(StrEnum):
    """Prometheus' type of a family."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family.

    Attributes:
        name: As in ``/metrics``.
        labels: At the most detailed level.
        meaning: The help text: one sentence, with the unit.
        coarser: The value where ``topic`` or ``partition`` is left out; empty where the family never has them.
    """

    name: str
    kind: MetricType
    labels: tuple[str, ...]
    meaning: str
    coarser: str = ""

    @property
    def base_name(self) -> str:
        """The family's name in OpenMetrics, without the suffix of a counter's samples."""
        return self.name.removesuffix("_total") if self.kind is MetricType.COUNTER else self.name


RECORDS = Family(
    "mmtool_records_total",
    MetricType.COUNTER,
    _PLACE,
    "Records mirrored by the `mmtool replicate` that runs the flow, or that ran it last; each process starts at 0.",
    "sum",
)
BYTES = Family(
    "mmtool_bytes_total",
    MetricType.COUNTER,
    _PLACE,
    "Bytes of record batches mirrored by the `mmtool replicate` that runs the flow, or that ran it last; each process"
    " starts at 0.",
    "sum",
)
LAG_RECORDS = Family(
    "mmtool_lag_records",
    MetricType.GAUGE,
    _PLACE,
    "Offsets between the next record to mirror and the source's end.",
    "sum",
)
LAG_SECONDS = Family(
    "mmtool_lag_seconds",
    MetricType.GAUGE,
    _PLACE,
    "Age of the oldest record that is missing on the target, in seconds; 0 without lag; absent where a partition is"
    " behind for an unknown time.",
    "maximum",
)
LATENCY = Family(
    "mmtool_replication_latency_seconds",
    MetricType.HISTOGRAM,
    (*_FLOW, "topic"),
    "Time from a record's timestamp to its acknowledgement on the target, in seconds; for a timestamp ahead of the"
    " clock, from when the mirror last had everything that the source had.",
    "sum",
)
PARTITION_STATE = Family(
    "mmtool_partition_state",
    MetricType.GAUGE,
    (*_PLACE, "state"),
    "1 for the current state, as `mmtool status` names it; the other states have no series.",
    "number of partitions in that state",
)
DATA_LOSS = Family(
    "mmtool_data_loss_records_total",
    MetricType.COUNTER,
    _PLACE,
    "Offsets that the source deleted before they were mirrored; mirroring continued after them.",
    "sum",
)
UNREADABLE = Family(
    "mmtool_transform_errors_total",
    MetricType.COUNTER,
    _PLACE,
    "Values that were no JSON for a ready-made function, and were copied or left out.",
    "sum",
)
LAST_SUCCESS = Family(
    "mmtool_last_success_timestamp_seconds",
    MetricType.GAUGE,
    _FLOW,
    "Unix time of the last report of the flow's workers in which a partition was `running` or `caught_up`.",
)
OWNER_INFO = Family(
    "mmtool_owner_info",
    MetricType.GAUGE,
    (*_FLOW, "owner"),
    "1 for the `mmtool replicate` that runs the flow now, as HOST/PID; no series while none runs it.",
)
SPARK_SLOTS = Family(
    "mmtool_spark_slots",
    MetricType.GAUGE,
    (*_FLOW, "kind"),
    "Spark slots of the flow's Spark job, by kind: `wanted` (one for each task) and `held`.",
)
CHECKPOINT_AGE = Family(
    "mmtool_checkpoint_age_seconds",
    MetricType.GAUGE,
    _GROUP,
    "Age of the group's last checkpoint on the target, in seconds; the largest value of its partitions.",
)
GROUP_LAG = Family(
    "mmtool_group_lag_records",
    MetricType.GAUGE,
    _GROUP,
    "Records between the group's commits and the log ends on the source, summed over the group's partitions.",
)
GROUP_REREAD = Family(
    "mmtool_group_reread_records",
    MetricType.GAUGE,
    _GROUP,
    "Upper limit of the records that the group would read again if it failed over now; summed over its partitions.",
)
FAILOVER_READY = Family(
    "mmtool_failover_ready",
    MetricType.GAUGE,
    _GROUP,
    "1 while every partition of the group can fail over now, else 0; absent while a failover has moved the group.",
)
FAILOVER_STATE = Family(
    "mmtool_failover_state",
    MetricType.GAUGE,
    (*_FLOW, "operation", "mode", "state"),
    "1 for the current state of each open operation on the flow, and for the state of the last operation.",
)
CLUSTER_UP = Family(
    "mmtool_cluster_up", MetricType.GAUGE, ("cluster",), "1 while the cluster answers, 0 while it does not."
)
CERTIFICATE_EXPIRY = Family(
    "mmtool_certificate_expiry_timestamp_seconds",
    MetricType.GAUGE,
    ("cluster",),
    "Unix time of the earliest expiry among the certificates of the configured client certificate chain.",
)
BUILD_INFO = Family(
    "mmtool_build_info",
    MetricType.GAUGE,
    ("version",),
    "1 for the version of mmtool that serves the metrics.",
)

FAMILIES = tuple(family for family in list(globals().values()) if isinstance(family, Family))
"""All families, as they are defined above: in the order of ``/metrics``."""


# --- the detail level of metrics: the fewer labels, the fewer series -------------------------------------


class Level(StrEnum):
    """``--metrics-level``: each level has the metrics of the one before it, in more detail."""

    FLOW = "flow"
    TOPIC = "topic"
    PARTITION = "partition"
    GROUP = "group"

    @property
    def place_labels(self) -> tuple[str, ...]:
        """The labels that name a value's topic and partition within its flow, at this level."""
        return {Level.FLOW: (), Level.TOPIC: ("topic",)}.get(self, ("topic", "partition"))
