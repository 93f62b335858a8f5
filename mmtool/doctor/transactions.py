"""Doctor check ``hanging_transaction``: open transactions that block the mirror and read_committed readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmtool.doctor.finding import Check, Finding, Severity, warning
from mmtool.doctor.retention import span_words
from mmtool.errors import NotAuthorisedError
from mmtool.kafka.admin.fences import KafkaFences
from mmtool.kafka.logs.missing_times import first_missing_times
from mmtool.kafka.ports import FirstMissing
from mmtool.runtime.process import now_ms
from mmtool.translation.types import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from mmtool.config import FlowSettings
    from mmtool.doctor.examination import ExaminedFlow
    from mmtool.doctor.flow_view import FlowView
    from mmtool.kafka.ports import FencePort
    from mmtool.plan.failover.fence_plan import OpenTransaction
    from mmtool.translation.types import TopicPartition

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


def check_transactions(flow: ExaminedFlow) -> Iterator[Finding]:
    """Find transactions that are open on mirrored topics, hanging or with an idle producer."""
    view = flow.view
    held = _held_partitions(view)
    if not held:
        return
    port = KafkaFences(flow.settings.source, flow.seconds)
    limit_ms = int(1000 * view.clusters.source.longest_transaction_seconds())
    for topic in sorted({place.topic for place in held}):
        places = [place for place in held if place.topic == topic]
        try:
            found = _open(view, port, places)
        except NotAuthorisedError as error:  # of one topic: the others are asked all the same
            yield warning(
                Check.HANGING_TRANSACTION,
                flow.settings.source.alias,
                topic,
                f"could not be checked: {error.message}",
                error.remedy,
            )
            continue
        for one in found:
            yield from judge_transaction(flow.settings, one, limit_ms)


def _held_partitions(view: FlowView) -> list[TopicPartition]:
    """Partitions whose last stable offset is below their end: only these have an open transaction."""
    ends, stable = view.source_bounds(), view.stable_bounds()
    return sorted(
        place for place, log in stable.items() if place in ends and log.log_end < ends[place].log_end
    )


def _open(view: FlowView, port: FencePort, places: Collection[TopicPartition]) -> list[Open]:
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
    begun, at_ms = _first_times(view, found), now_ms()
    return [
        Open(
            one,
            _since(at_ms, one.since_ms if one.since_ms is not UNKNOWN else begun.get(one)),
            _since(at_ms, last.get((one.place, one.producer_id))),
        )
        for one in found
    ]


def _since(at_ms: int, then_ms: int | None) -> int | None:
    return None if then_ms is None or then_ms > at_ms else at_ms - then_ms


def _first_times(view: FlowView, found: Collection[OpenTransaction]) -> dict[OpenTransaction, int]:
    """The timestamp in ms of each transaction's first record, where it is known."""
    topics = view.mirrored()
    places = {
        FirstMissing(
            one.place.topic, topics[one.place.topic].topic_id, one.place.partition, one.open_from
        ): one
        for one in found
    }
    times = first_missing_times(view.settings.source, list(places), _LOOK_SECONDS, read_committed=False)
    return {one: times[place] for place, one in places.items() if place in times}


def judge_transaction(settings: FlowSettings, one: Open, limit_ms: int) -> Iterator[Finding]:
    """The finding of an open transaction: hanging ones are a problem, ones with an idle producer a warning.

    Args:
        settings: The flow's settings.
        one: The transaction.
        limit_ms: ``transaction.max.timeout.ms`` of the source: no transaction may be open for longer.
    """
    found, age_ms = one.found, one.age_ms
    ends_after = limit_ms if found.timeout_ms is UNKNOWN else found.timeout_ms
    rests = min(known for known in (one.idle_ms, age_ms, limit_ms) if known is not None)
    if age_ms is not None and age_ms > ends_after + _GRACE_MS:
        severity = Severity.PROBLEM if settings.reads_committed else Severity.WARNING
        why = (
            f"longer than the coordinator allows ({span_words(ends_after)}): the transaction hangs, and no"
            " producer ends it"
        )
        remedy = _abort(settings, found)
    elif (age_ms is not None or one.idle_ms is not None) and rests >= _IDLE_MS:
        severity = Severity.WARNING
        why = f"and its producer has written nothing for {span_words(rests)}"
        remedy = (
            f"let the producer commit or abort; else the coordinator aborts the transaction {span_words(ends_after)}"
            f" after it began; if the transaction is still open then: {_abort(settings, found)}"
        )
    else:
        return
    waits = "are not mirrored" if settings.reads_committed else "are not read by read_committed consumers"
    stops = f"records from offset {found.open_from} on {waits} until it ends"
    age = "" if age_ms is None else f"for {span_words(age_ms)}, "
    yield Finding(
        Check.HANGING_TRANSACTION,
        settings.source.alias,
        str(found.place),
        severity,
        f"on {settings.source.alias}, {_who(found)} has a transaction open on {found.place} from offset"
        f" {found.open_from}, {age}{why}; {stops}",
        remedy,
    )


def _who(found: OpenTransaction) -> str:
    name = "" if found.transactional_id is UNKNOWN else f" ({found.transactional_id})"
    return f"producer id {found.producer_id}{name}"


def _abort(settings: FlowSettings, found: OpenTransaction) -> str:
    """The command of Kafka's own tool that aborts the transaction (KIP-664)."""
    return (
        f"kafka-transactions.sh --bootstrap-server {settings.source.bootstrap_servers} abort --topic"
        f" {found.place.topic} --partition {found.place.partition} --start-offset {found.open_from}"
    )
