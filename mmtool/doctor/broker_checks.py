"""Doctor checks of a flow's brokers and of this host: cluster ids, replicas, disks, Spark."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mmtool.doctor.disks import CopyFacts, judge_copy, judge_disks, largest_sizes
from mmtool.doctor.finding import Check, ok, problem, warning
from mmtool.doctor.flow_scope import identity_of, mirrored_topics, mm2_topics, own_topics
from mmtool.doctor.host import master_addresses, memory_bytes, unreachable_addresses
from mmtool.doctor.releases import release_of
from mmtool.doctor.replicas import Factor, ReplicaFacts, judge_replicas
from mmtool.doctor.spark import SparkFacts, judge_spark
from mmtool.errors import UsageError
from mmtool.java import java_binary
from mmtool.plan.topics.configs import MIN_ISR
from mmtool.runtime.cores import usable_cores
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from mmtool.doctor.examination import ExaminedCluster, ExaminedFlow
    from mmtool.doctor.finding import Finding
    from mmtool.kafka.admin.details import ClusterDetailsPort

_CAPS_MIN_ISR = (3, 7)


def check_same_cluster(flow: ExaminedFlow) -> Iterable[Finding]:
    """Check that the flow's two aliases name two different clusters."""
    source, target = flow.clusters.source.probe(), flow.clusters.target.probe()
    if source != target:
        yield ok(Check.CLUSTER_ID, "", "source and target are two clusters", flow.name)
        return
    one, other = flow.settings.source.alias, flow.settings.target.alias
    message = f"{one} and {other} are the same cluster, {source}: `mmtool replicate` does not start"
    remedy = f"set {one}.bootstrap.servers and {other}.bootstrap.servers to servers of two different clusters"
    yield problem(Check.CLUSTER_ID, "", flow.name, message, remedy)


# --- replicas ---------------------------------------------------------------------------------------------


def check_replicas(flow: ExaminedFlow) -> Iterable[Finding]:
    """Check the replicas of topics that are read on the source and written on the target."""
    mirrored = mirrored_topics(flow)
    return judge_replicas([_source_side(flow, mirrored), _target_side(flow, mirrored.values())], flow.name)


def _source_side(flow: ExaminedFlow, topics: Collection[str]) -> ReplicaFacts:
    details, syncs = flow.source, mm2_topics(flow, "source")
    key, replicas = "offset-syncs.topic.replication.factor", flow.settings.offset_syncs_replication_factor
    factors = tuple(Factor(key, replicas, name) for name in _absent(details, syncs))
    known = {name: one for name, one in details.topics().items() if name in topics}
    return ReplicaFacts(details.alias, len(details.brokers()), factors, None, known, {}, is_written=False)


def _target_side(flow: ExaminedFlow, topics: Iterable[str]) -> ReplicaFacts:
    details, own = flow.target, (*own_topics(identity_of(flow)), *mm2_topics(flow, "target"))
    written = {*topics, *own}
    known = {name: one for name, one in details.topics().items() if name in written}
    return ReplicaFacts(
        details.alias,
        len(details.brokers()),
        tuple(_target_factors(flow, _absent(details, own))),
        _default_in_sync(details),
        known,
        _in_sync_of(details, known),
        is_written=True,
        refuses_short=_refuses_short(details),
    )


def _absent(details: ClusterDetailsPort, names: Collection[str]) -> list[str]:
    return [name for name in names if name not in details.topics()]


def _target_factors(flow: ExaminedFlow, absent: Collection[str]) -> Iterator[Factor]:
    """The replication factors of topics that the flow may create; mirrored topics may be created at any time."""
    settings = flow.settings
    yield Factor("replication.factor", settings.replication_factor, "mirrored topics")
    if any(name != settings.checkpoints_topic for name in absent):
        key = "offset-syncs.topic.replication.factor"
        yield Factor(key, settings.offset_syncs_replication_factor, "topics mmtool-*")
    if settings.checkpoints_topic in absent:
        key = "checkpoints.topic.replication.factor"
        yield Factor(key, settings.checkpoints_replication_factor, settings.checkpoints_topic)


def _default_in_sync(details: ClusterDetailsPort) -> int | None:
    told = (values.get(MIN_ISR) for values in details.broker_configs([MIN_ISR]).values())
    return max((int(value) for value in told if value), default=None)


def _in_sync_of(details: ClusterDetailsPort, topics: Collection[str]) -> dict[str, int]:
    configs = details.configs(topics, [MIN_ISR])
    return {name: int(entries[MIN_ISR].value or 1) for name, entries in configs.items() if MIN_ISR in entries}


def _refuses_short(details: ClusterDetailsPort) -> bool:
    releases = [release_of(one.apis) for one in details.listeners() if one.apis is not None]
    return any(release[:2] < _CAPS_MIN_ISR for release in releases)


# --- disks ------------------------------------------------------------------------------------------------


def check_disks(cluster: ExaminedCluster) -> Iterable[Finding]:
    """Check the log directories of every broker of a cluster."""
    answers = cluster.details.log_dirs(())
    for node, error in sorted(answers.failed.items()):
        message = f"log directories of broker {node} of {cluster.alias} were not checked: {error.message}"
        yield warning(Check.DISK, cluster.alias, f"broker {node}", message, error.remedy)
    if answers:
        yield from judge_disks(cluster.alias, answers)


def check_room(flow: ExaminedFlow) -> Iterable[Finding]:
    """Check that the target has disk space for what is still to be mirrored."""
    mirrored = mirrored_topics(flow)
    source, target = flow.source.log_dirs(mirrored), flow.target.log_dirs(mirrored.values())
    there = largest_sizes(target.values())
    held = largest_sizes(source.values())
    counterparts = {
        place: there.get(TopicPartition(mirrored[place.topic], place.partition), 0) for place in held
    }
    dirs = tuple(one for dirs in target.values() for one in dirs)
    replicas = max(flow.settings.replication_factor, 1)
    return judge_copy(CopyFacts(flow.target.alias, held, counterparts, replicas, dirs), flow.name)


# --- Spark ------------------------------------------------------------------------------------------------


def check_spark(flow: ExaminedFlow) -> Iterable[Finding]:
    """Check Java, this host's memory and the Spark master."""
    return judge_spark(_spark_facts(flow, os.environ))


def _spark_facts(flow: ExaminedFlow, environ: Mapping[str, str]) -> SparkFacts:
    settings, fault = flow.settings, ("", "")
    java = ""
    try:
        java = str(java_binary())
    except UsageError as error:
        fault = (error.message, error.remedy)
    addresses = master_addresses(settings.spark_master)
    return SparkFacts(
        flow.name,
        settings.spark_master,
        dict(settings.spark_conf),
        settings.shards,
        settings.buffer_bytes,
        java,
        fault,
        unreachable_addresses(addresses),
        addresses,
        usable_cores(),
        memory_bytes(),
        any(environ.get(name) for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR")),
    )
