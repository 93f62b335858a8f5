"""Doctor check ``hanging_transaction``: open transactions that block the mirror and read_committed readers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from mmtool.config import FlowSettings
from mmtool.doctor.examination import ExaminedFlow
from mmtool.doctor.finding import SOURCE, Finding, flow_check, problem, warning
from mmtool.doctor.retention import span_words
from mmtool.errors import NotAuthorisedError
from mmtool.kafka.admin.fences import KafkaFences
from mmtool.kafka.logs.missing_times import first_missing_times
from mmtool.kafka.ports import FencePort, FirstMissing
from mmtool.plan.failover.fence_plan import OpenTransaction
from mmtool.runtime.process import now_ms
from mmtool.translation.types import UNKNOWN, TopicPartition

_IDLE_MS = 10_000
_GRACE_MS = 60_000
"""Time in ms for a coordinator to abort a transaction: it looks for expired ones every 10 s."""
_LOOK_SECONDS = 5.0


class Open(NamedTuple):
    """A transaction that is open on one partition of the source.

    Attributes:
        found: The brokers' answer about it.
        age_ms: For how long it has been open there; None where that is unknown.
        idle_ms: For how long its producer has appended nothing; None likewise.
    """

    found: OpenTransaction
    age_ms: int | None
    idle_ms: int | None


@flow_check(
    "hanging_transaction", "no transaction of an idle or failed producer is open on a mirrored topic", SOURCE
)
def check_transactions(flow: ExaminedFlow) -> Iterator[Finding]:
    """Transactions that are open on mirrored topics.

    Problem: a transaction is open for longer than its coordinator allows
    Warning: the producer of an open transaction has been idle for 10 s; a transaction hangs, and the flow reads
        uncommitted
    Effect: records after it are not mirrored (`read_committed`)
    Remedy: the `kafka-transactions.sh abort` command in the row
    """
    ends, stable = flow.source_bounds(), flow.stable_bounds()
    # only partitions whose last stable offset is below their end have an open transaction
    held = sorted(at for at, log in stable.items() if at in ends and log.log_end < ends[at].log_end)
    if not held:
        return
    port = KafkaFences(flow.settings.source, flow.seconds)
    limit_ms = int(1000 * flow.clusters.source.longest_transaction_seconds())
    for topic in sorted({place.topic for place in held}):
        places = [place for place in held if place.topic == topic]
        try:
            found = _open(flow, port, places)
        except NotAuthorisedError as error:  # of one topic: the others are asked all the same
            yield warning(
                flow.settings.source.alias,
                topic,
                f"could not be checked: {error.message}",
                error.remedy,
            )
            continue
        for one in found:
            yield from judge_transaction(flow.settings, one, limit_ms)


def _open(flow: ExaminedFlow, port: FencePort, places: Collection[TopicPartition]) -> list[Open]:
    found = port.open_transactions(places)
    if not found:
        return []
    writers = port.writers({one.place for one in found})
    last = {
        (place, writer.producer_id): writer.last_timestamp_ms
        for place, of in writers.items()
        for writer in of
        if writer.last_timestamp_ms is not UNKNOWN
    }
    topics = flow.mirrored()
    firsts = {
        one: FirstMissing(
            one.place.topic, topics[one.place.topic].topic_id, one.place.partition, one.open_from
        )
        for one in found
    }
    begun = first_missing_times(
        flow.settings.source, list(firsts.values()), _LOOK_SECONDS, read_committed=False
    )
    at_ms = now_ms()
    return [
        Open(
            one,
            _since(at_ms, one.since_ms if one.since_ms is not UNKNOWN else begun.get(firsts[one])),
            _since(at_ms, last.get((one.place, one.producer_id))),
        )
        for one in found
    ]


def _since(at_ms: int, then_ms: int | None) -> int | None:
    return None if then_ms is None or then_ms > at_ms else at_ms - then_ms


def judge_transaction(settings: FlowSettings, one: Open, limit_ms: int) -> Iterator[Finding]:
    """The finding of an open transaction: hanging ones are a problem, ones with an idle producer a warning.

    Args:
        settings: The flow's settings.
        one: The transaction.
        limit_ms: ``transaction.max.timeout.ms`` of the source: no transaction may be open for longer.
    """
    found, age_ms = one.found, one.age_ms
    ends_after = limit_ms if found.timeout_ms is UNKNOWN else found.timeout_ms
    abort = (  # Kafka's own tool (KIP-664)
        f"kafka-transactions.sh --bootstrap-server {settings.source.bootstrap_servers} abort --topic"
        f" {found.place.topic} --partition {found.place.partition} --start-offset {found.open_from}"
    )
    rests = min(known for known in (one.idle_ms, age_ms, limit_ms) if known is not None)
    say = warning
    if age_ms is not None and age_ms > ends_after + _GRACE_MS:
        say = problem if settings.reads_committed else warning
        why = (
            f"longer than the coordinator allows ({span_words(ends_after)}): the transaction hangs, and no"
            " producer ends it"
        )
        remedy = abort
    elif (age_ms is not None or one.idle_ms is not None) and rests >= _IDLE_MS:
        why = f"and its producer has written nothing for {span_words(rests)}"
        remedy = (
            f"let the producer commit or abort; else the coordinator aborts the transaction {span_words(ends_after)}"
            f" after it began; if the transaction is still open then: {abort}"
        )
    else:
        return
    waits = "are not mirrored" if settings.reads_committed else "are not read by read_committed consumers"
    stops = f"records from offset {found.open_from} on {waits} until it ends"
    age = "" if age_ms is None else f"for {span_words(age_ms)}, "
    name = "" if found.transactional_id is UNKNOWN else f" ({found.transactional_id})"
    yield say(
        settings.source.alias,
        str(found.place),
        f"on {settings.source.alias}, producer id {found.producer_id}{name} has a transaction open on {found.place}"
        f" from offset {found.open_from}, {age}{why}; {stops}",
        remedy,
    )
