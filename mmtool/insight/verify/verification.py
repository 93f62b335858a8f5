"""The service of ``mmtool verify``: prepare each flow, compare its ranges on Spark, add up the findings.

It also finds half-mirrored transactions of a flow, also from the target alone.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import REPORT, MmtoolError, UnreachableError
from mmtool.insight.target_only import TargetSide, look_at_target
from mmtool.insight.verify.job import jobs_of, run_job
from mmtool.insight.verify.preparation import PreparedFlow, Uncompared, passed, prepare
from mmtool.insight.verify.ranges import RANGE_RECORDS, Joint, plan_ranges
from mmtool.insight.verify.verdicts import ComparedRow, Findings, Verdict
from mmtool.kafka.batches.records import is_abort_marker
from mmtool.kafka.clients import blocking_wire
from mmtool.kafka.mirror_maker import Mm2Topics
from mmtool.kafka.wire.metadata import LATEST
from mmtool.kafka.wire.scan import AtMost, list_offsets, read_range
from mmtool.output import warn
from mmtool.plan.failover.half_transactions import (
    HalfTransaction,
    Share,
    half_transactions,
    told_by_target,
    transactions_on_target,
)
from mmtool.plan.groups.facts import GroupSelection
from mmtool.plan.records.documents import OffsetKind
from mmtool.plan.words import Names, counted, joined, then
from mmtool.runtime.process import usable_cores
from mmtool.runtime.threads import Unawaited

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from mmtool.insight.flow_now import FlowClusters
    from mmtool.insight.verify.job import Compared, Job
    from mmtool.insight.verify.preparation import PreparedFlow, Since
    from mmtool.insight.verify.verdicts import ComparisonRow
    from mmtool.kafka.batches import BatchView
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.plan.failover.half_transactions import HalfTransaction
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.replication.spark.rounds import Rounds
    from mmtool.translation.types import TopicId, TopicPartition


_SAMPLE_RECORDS = 20_000
_WAVE = 8
"""Tasks of a wave, for each slot of Spark."""
_AGAIN = 3
"""So often a partition is planned anew whose log has moved on before it was read."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a comparison.

    Attributes:
        topics: ``--topic``: only these; empty for all.
        sample: Which part of the records, 0 < sample <= 1.
        since: ``--since``; None: as far back as both logs go.
        transactions: ``--transactions``: look for half-mirrored ones as well.
    """

    topics: tuple[str, ...] = ()
    sample: float = 1.0
    since: Since | None = None
    transactions: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether all records are compared that both logs still have."""
        return self.sample >= 1 and self.since is None

    @property
    def sample_words(self) -> str:
        """Which part of the records is compared, for a report."""
        of_these = "" if self.since is None else " from there on"
        return (
            f"all{of_these}"
            if self.sample >= 1
            else f"{100 * self.sample:g}%{of_these}, in ranges chosen at random"
        )

    @property
    def since_words(self) -> str:
        """Where the comparison begins, for a report."""
        if self.since is None:
            return "the beginning of both logs"
        if self.since == "last":
            return "the point up to which the last run found both sides the same"
        return f"records from {self.since.isoformat()} on"


@dataclass(slots=True)
class Verification:
    """The result of a comparison.

    Attributes:
        flows: Which flows were compared.
        rows: One per partition, by flow, topic and number.
        halves: With ``--transactions``, those that are on the target in part, by the flow's name.
        warnings: Sentences.
    """

    flows: list[FlowIdentity] = field(default_factory=list)
    rows: list[ComparedRow] = field(default_factory=list)
    halves: dict[str, list[HalfTransaction]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def summary(self) -> str:
        """How many partitions have which verdict, and how much was compared."""
        verdicts = Counter(str(row.verdict) for row in self.rows)
        said = ", ".join(f"{verdicts[v]:,} {v}" for v in Verdict if verdicts[v])
        records = sum(row.findings.compared for row in self.rows)
        lag = sum(row.lag_records or 0 for row in self.rows)
        unknown = sum(row.lag_records is None for row in self.rows)
        lags = joined(
            f"{counted(lag, 'source offset')} not mirrored" if lag else "",
            f"the lag of {counted(unknown, 'partition')} is unknown" if unknown else "",
        )
        whole = f"{counted(len(self.rows), 'partition')}: {said}; {counted(records, 'record')} compared"
        return joined(whole, lags)

    def documents(self) -> list[ComparisonRow]:
        """The contract's rows; with ``--transactions`` each has those that touch its partition."""
        rows = [row.document() for row in self.rows]
        if self.halves:
            for row, document in zip(self.rows, rows, strict=True):
                halves = self.halves.get(f"{row.source_alias}->{row.target_alias}", [])
                mine = [h for h in halves if row.place in {share.place for share, _ in h.shares}]
                document["half_mirrored"] = [half.document() for half in mine]
        return rows


def verify(flows: Sequence[FlowClusters], options: Options, say: Callable[[str], None]) -> Verification:
    """Compare both sides of every flow.

    Args:
        flows: Which ones.
        options: How much of them.
        say: Called with sentences about how far it is.

    Raises:
        UnreachableError, NotAuthorisedError: A cluster does not answer, or not us; or nothing could be read.
        UsageError: No topic is matched.
        MmtoolError: Spark fails.
    """
    with _spark(flows[0]) as spark:
        prepared = [_prepared(clusters, options) for clusters in flows]
        found = Verification(
            [flow.identity for flow in prepared],
            warnings=[sentence for flow in prepared for sentence in flow.warnings],
        )
        for flow in prepared if options.transactions else ():
            name, target = flow.clusters.settings.name, flow.clusters.settings.target.alias
            halves = found.halves[name] = read_half_transactions(flow)
            found.warnings += [f"{name}: a transaction is only partly on {target}: {half}" for half in halves]
        if not any(flow.partitions for flow in prepared):
            found.rows = [row for flow in prepared for row in _rows(flow, {})]
            return found
        for flow in prepared:
            found.rows += _rows(flow, _compared(flow, options, spark(), say))
    found.warnings += [sentence for flow in prepared for sentence in flow.points.warnings]
    return found


def _prepared(clusters: FlowClusters, options: Options) -> PreparedFlow:
    try:
        return prepare(clusters, options.topics, options.since)
    except UnreachableError as error:
        if options.transactions:  # what the target alone knows may be all that there is
            name = clusters.settings.name
            try:
                warn(f"{name}: {tell_from_target(clusters, options.topics)}")
            except MmtoolError as other:
                if other.message != error.message:
                    warn(
                        f"{name}: transactions that are only partly on {clusters.settings.target.alias} cannot be"
                        f" listed: {other.message}"
                    )
        raise


@contextmanager
def _spark(clusters: FlowClusters) -> Iterator[Callable[[], Rounds]]:
    """Spark, which starts while the clusters are asked. A command that ends earlier does not wait for it."""
    settings = clusters.settings

    def start() -> Rounds:
        from mmtool.replication.spark.rounds import local_master, open_rounds

        return open_rounds(settings.spark_master or local_master(usable_cores()), settings.spark_conf)

    def stop(started: Future[Rounds]) -> None:
        if started.exception() is None:
            started.result().stop()

    starting = Unawaited().submit(start)
    try:
        yield starting.result
    finally:
        starting.add_done_callback(stop)


def _compared(
    flow: PreparedFlow, options: Options, rounds: Rounds, say: Callable[[str], None]
) -> dict[TopicPartition, list[Compared]]:
    """By partition; one whose log moved on while it waited is planned anew."""
    done: dict[TopicPartition, list[Compared]] = {}
    wanted: Collection[TopicPartition] = flow.partitions.keys()
    for _ in range(_AGAIN):
        _compare(flow, wanted, options, rounds, done, say)
        moved = {place for place in wanted if any(result.moved for result in done.get(place, ()))}
        if not moved:
            break
        flow = prepare(flow.clusters, sorted({place.topic for place in moved}), options.since)
        wanted = moved & flow.partitions.keys()
        for place in moved:
            done.pop(place)
    of_all = [result for results in done.values() for result in results]
    if of_all and all(result.problem and not result.unmade for result in of_all):
        raise UnreachableError(
            f"no log could be read: {of_all[0].problem}",
            remedy=then(of_all[0].remedy) if of_all[0].remedy else "run the same command again",
        )
    return done


def _compare(
    flow: PreparedFlow,
    wanted: Collection[TopicPartition],
    options: Options,
    rounds: Rounds,
    done: dict[TopicPartition, list[Compared]],
    say: Callable[[str], None],
) -> None:
    """In waves: how far it is, is said and kept after each of them."""
    name = flow.clusters.settings.name
    size = RANGE_RECORDS if options.sample >= 1 else _SAMPLE_RECORDS
    ranges = [
        part
        for place in sorted(wanted)
        for part in plan_ranges(flow.partitions[place], size)
        if options.sample >= 1 or part.is_last or random.random() < options.sample
    ]
    jobs = jobs_of(flow.compared, ranges, 2 * RANGE_RECORDS)
    say(f"{name}: comparing {counted(len(wanted), 'partition')} in {counted(len(ranges), 'range')}")
    wave = _WAVE * (rounds.asked_slots() or usable_cores())
    for start in range(0, len(jobs), wave):
        results = _run(rounds, jobs[start : start + wave])
        for result in results:
            done.setdefault(result.part.source, []).append(result)
        if options.sample >= 1:
            points, starts, is_external = {}, {}, flow.clusters.settings.is_external
            for place, of in done.items():
                since = flow.partitions[place].since if place in flow.partitions else None
                first = min(result.part.start for result in of)
                point = passed(since if isinstance(since, Joint) else None, of)
                starts[place] = first.upstream
                differs = is_external and any(result.findings.counts for result in of)
                if point is not None or differs:  # it takes back what was verified before
                    points[place] = first if point is None else point
            flow.points.save(points, starts)
        if any(result.lost for result in results):
            for cluster in (flow.clusters.source, flow.clusters.target):
                cluster.probe()  # the ranges to come would wait in vain for a cluster that is away
        if start + wave < len(jobs):
            records = sum(result.findings.compared for results in done.values() for result in results)
            say(
                f"{name}: compared {records:,} records, {len(jobs) - start - wave} of {len(jobs)} Spark tasks left"
            )


def _run(rounds: Rounds, jobs: Sequence[Job]) -> list[Compared]:
    from mmtool.replication.spark.log import reason_of

    try:
        return [result for results in rounds.each(jobs, run_job) for result in results]
    except MmtoolError:
        raise
    except Exception as error:
        raise MmtoolError(
            f"Spark failed: {reason_of(error)}",
            remedy=f"run the same command again; if Spark fails again, {REPORT}",
        ) from error


def _rows(flow: PreparedFlow, compared: dict[TopicPartition, list[Compared]]) -> list[ComparedRow]:
    settings = flow.clusters.settings
    rows = []
    for place in sorted(flow.targets):
        results = compared.get(place, [])
        unread = (Uncompared(one.problem, one.remedy, one.version) for one in results if one.problem)
        changes = flow.compared.transforms.get(place.topic)
        left = flow.problems.get(place) or next(unread, Uncompared(""))
        stopped = flow.stopped.get(place, Uncompared(""))
        rows.append(
            ComparedRow(
                settings.source.alias,
                settings.target.alias,
                place,
                flow.targets[place],
                Findings.joined(result.findings for result in results),
                flow.lag(place),
                left.why,
                cure=left.remedy or stopped.remedy,
                stop=stopped.why,
                is_by_mm2=place in flow.partitions and flow.partitions[place].facts.map is None,
                is_shared=flow.compared.shared,
                offsets=OffsetKind.of(place in flow.partitions and flow.partitions[place].facts.same_offsets),
                is_external=settings.is_external,
                version=left.version,
                function=changes.function if changes is not None and not changes.is_own else "",
            )
        )
    return rows


_NO_GROUP = GroupSelection(matching=lambda _: False)


def tell_from_target(flow: FlowClusters, topics: Collection[str] = ()) -> str:
    """One sentence about transactions of a flow whose source does not answer.

    Args:
        flow: The flow; no group of it is asked about.
        topics: ``--topic``: only these; empty for all.

    Raises:
        UnreachableError, NotAuthorisedError: The target does not answer either, or denies a part.
        RefusedError: Stored state that cannot be read.
    """
    settings = flow.settings
    side = TargetSide(settings, flow.target, flow.state, Mm2Topics(settings, target_only=True))
    facts = look_at_target(side, _NO_GROUP, int(time.time() * 1000)).facts
    known = transactions_on_target(facts, topics or None)
    return told_by_target(known, Names(settings.source.alias, settings.target.alias))


_LONGEST_MS = 900_000
"""``transaction.max.timeout.ms`` by default: no transaction is open for longer."""
_AT_ONCE = 8
_SECONDS = 600.0


def read_half_transactions(flow: PreparedFlow) -> list[HalfTransaction]:
    """Transactions over the flow's partitions of which the target holds only a part.

    Raises:
        UnreachableError: The source's logs cannot be read.
    """
    parts = flow.partitions
    frontiers = {place: part.frontier for place, part in parts.items() if part.frontier is not None}
    ids = {place: parts[place].source_id for place in frontiers}
    cluster = flow.clusters.settings.source
    wire = blocking_wire(cluster, "verify", "consumer", _SECONDS)

    async def read(there: WireCluster) -> list[Share]:
        await there.refresh({place.topic for place in ids})
        behind = await _shares(there, ids, frontiers)
        waiting = [share.first_ms for share in behind if share.committed is not False]
        if not waiting:
            return []
        since = dict.fromkeys(ids, max(min(waiting) - _LONGEST_MS, 0))
        return await _shares(there, ids, await list_offsets(there, since, read_committed=False))

    return half_transactions(wire.ask(read, "reading transactions"), frontiers)


async def _shares(
    cluster: WireCluster, ids: Mapping[TopicPartition, TopicId], starts: Mapping[TopicPartition, int]
) -> list[Share]:
    """Every transaction's records from an offset of each partition to its end."""
    ends = await list_offsets(cluster, dict.fromkeys(starts, LATEST), read_committed=False)
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(place: TopicPartition) -> list[Share]:
        async with turns:
            views = read_range(
                cluster, place.topic, ids[place], place.partition,
                starts[place], AtMost(ends.get(place, starts[place])), read_committed=False,
            )  # fmt: skip
            return await _shares_of(place, views)

    return [share for found in await asyncio.gather(*map(one, starts)) for share in found]


async def _shares_of(place: TopicPartition, views: AsyncIterator[BatchView]) -> list[Share]:
    """The transactions of one partition, from its batches in order; those without a marker are open."""
    begun: dict[int, Share] = {}
    ended: list[Share] = []
    async for view in views:
        header = view.header
        if not header.is_transactional:
            continue
        if not header.is_control:
            first = Share(
                place,
                header.producer_id,
                header.producer_epoch,
                header.base_offset,
                header.last_offset,
                header.base_timestamp,
                header.max_timestamp,
                None,
            )
            share = begun.setdefault(header.producer_id, first)
            begun[header.producer_id] = share._replace(last=header.last_offset, end_ms=header.max_timestamp)
        elif header.producer_id in begun:
            share = begun.pop(header.producer_id)
            end_ms = max(header.max_timestamp, share.end_ms)
            ended.append(share._replace(end_ms=end_ms, committed=not is_abort_marker(view)))
    return [*ended, *begun.values()]
