"""Claim shards, and fence their former owners.

A claim is InitProducerId on the shard's transactional id. In doubt (the last owner vanished) an aborted
transaction over every partition of the shard follows: its markers carry the new epoch, and a partition that
has seen a newer epoch of a producer id answers every older one with INVALID_PRODUCER_EPOCH. Without the
markers an older owner is fenced only by the new owner's first write to each partition, and can append until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from mmtool.errors import MmtoolError
from mmtool.kafka.errors import remedy_of_refusal
from mmtool.kafka.wire.cluster import WireCluster, retrying
from mmtool.kafka.wire.codes import Code, name_of
from mmtool.kafka.wire.request import WireRequest
from mmtool.kafka.wire.transactions import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest
from mmtool.translation.types import TopicPartition

A = TypeVar("A")
T = TypeVar("T")

_TRANSACTION_TIMEOUT_MS = 60_000
_CLAIMS_AT_ONCE = 16
_CLAIM_AGAIN = (
    "run the same command again; if that fails too, stop the other process that runs the flow (`mmtool status -c FILE`"
    " shows it), and run the command once more"
)


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to append under ``producer_id`` at ``epoch``, until another process claims a higher epoch."""

    producer_id: int
    epoch: int


class ClaimLostError(MmtoolError):
    """Another owner claimed the shard during this claim."""

    exit_code = 10
    code = "fenced"


async def claim(cluster: WireCluster, transactional_id: str) -> Claim:
    """Take the next epoch of a transactional id; writes no marker unless a transaction is open.

    Raises:
        NotAuthorisedError: without WRITE and DESCRIBE on the transactional id.
        UnreachableError: when its coordinator does not answer for a minute.
    """

    async def attempt() -> tuple[int, Claim]:
        request = InitProducerIdRequest(transactional_id, _TRANSACTION_TIMEOUT_MS)
        answer = await _ask(cluster, transactional_id, request)
        return answer.error_code, Claim(answer.producer_id, answer.epoch)

    code, claimed = await retrying(
        attempt,
        what=f"taking the next epoch of transactional id {transactional_id} on {cluster.alias}",
        alias=cluster.alias,
    )
    _check(cluster, code, transactional_id)
    return claimed  # type: ignore[no-any-return]


async def fence(
    cluster: WireCluster, transactional_id: str, claimed: Claim, partitions: Collection[TopicPartition]
) -> Claim:
    """Write a marker of ``claimed`` into each partition, and return a new claim with the next epoch.

    The second claim is answered only after every marker is written. Partitions that no longer exist are left out;
    a coordinator that has not heard of new ones is retried.

    Raises:
        ClaimLostError: when another owner claimed meanwhile.
        NotAuthorisedError, UnreachableError: as ``claim``.
    """
    existing = sorted(partitions)
    while existing:
        results = await _open(cluster, transactional_id, claimed, existing)
        gone = {tp for tp, code in results.items() if code == Code.UNKNOWN_TOPIC_OR_PARTITION}
        if not gone:
            break
        existing = [tp for tp in existing if tp not in gone]
    if existing:
        await _abort(cluster, transactional_id, claimed)
    return await claim(cluster, transactional_id)


async def _open(
    cluster: WireCluster, transactional_id: str, claimed: Claim, partitions: list[TopicPartition]
) -> dict[TopicPartition, int]:
    async def attempt() -> tuple[int, dict[TopicPartition, int]]:
        request = AddPartitionsToTxnRequest(transactional_id, claimed.producer_id, claimed.epoch, partitions)
        results = await _ask(cluster, transactional_id, request)
        code = _verdict(results)
        if code == Code.NONE and await _has_not_heard(cluster, results):
            code = Code.UNKNOWN_TOPIC_OR_PARTITION
        return code, results

    code, results = await retrying(
        attempt,
        what=f"shutting out older producers of transactional id {transactional_id} on {cluster.alias}",
        alias=cluster.alias,
    )
    _check(cluster, code, transactional_id)
    return results  # type: ignore[no-any-return]


async def _has_not_heard(cluster: WireCluster, results: Mapping[TopicPartition, int]) -> bool:
    """Whether a partition that the coordinator does not know exists, by the metadata of any broker.

    If it were left out of the fence, it would accept late batches of its last owner.
    """
    unknown = {tp for tp, code in results.items() if code == Code.UNKNOWN_TOPIC_OR_PARTITION}
    if not unknown:
        return False
    found = await cluster.refresh({tp.topic for tp in unknown})
    there = {(name, p.partition) for name, topic in found.items() for p in topic.partitions}
    return any(tuple(tp) in there for tp in unknown)


def _verdict(results: Mapping[TopicPartition, int]) -> int:
    """The first error code of the partitions, or NONE; a partition unknown to the coordinator is no error."""
    for code in results.values():
        if code not in (Code.NONE, Code.OPERATION_NOT_ATTEMPTED, Code.UNKNOWN_TOPIC_OR_PARTITION):
            return code
    return Code.NONE


async def _abort(cluster: WireCluster, transactional_id: str, claimed: Claim) -> None:
    async def attempt() -> tuple[int, None]:
        request = EndTxnRequest(transactional_id, claimed.producer_id, claimed.epoch)
        return await _ask(cluster, transactional_id, request), None

    code, _ = await retrying(
        attempt,
        what=f"shutting out older producers of transactional id {transactional_id} on {cluster.alias}",
        alias=cluster.alias,
    )
    _check(cluster, code, transactional_id)


async def _ask(cluster: WireCluster, transactional_id: str, request: WireRequest[A]) -> A:
    node = await cluster.coordinator(transactional_id)
    return await cluster.send(node, request, purpose="claims")


def _check(cluster: WireCluster, code: int, transactional_id: str) -> None:
    if code in (Code.INVALID_PRODUCER_EPOCH, Code.PRODUCER_FENCED):
        raise ClaimLostError(
            f"while mmtool claimed transactional id {transactional_id} on {cluster.alias}, another process claimed it"
            " too (or a delayed earlier request of this process did)",
            remedy=_CLAIM_AGAIN,
        )
    cluster.check_denied(code, f"WRITE on transactional id {transactional_id}")
    if code != Code.NONE:
        raise MmtoolError(
            f"cluster {cluster.alias} refuses a request for transactional id {transactional_id}: {name_of(code)}",
            remedy=remedy_of_refusal(name_of(code), cluster.alias),
        )


async def take_shards(
    cluster: WireCluster,
    transactional_ids: Mapping[int, str],
    in_doubt: Mapping[int, Collection[TopicPartition]],
) -> dict[int, Claim]:
    """Claim every shard, and fence the given partitions of shards in doubt.

    Args:
        cluster: The target.
        transactional_ids: Each shard's transactional id.
        in_doubt: Of some shards, the partitions that their last owner may still write to.
    """
    limit = asyncio.Semaphore(_CLAIMS_AT_ONCE)

    async def take(shard: int, transactional_id: str) -> tuple[int, Claim]:
        async with limit:
            claimed = await claim(cluster, transactional_id)
            if shard in in_doubt:
                claimed = await fence(cluster, transactional_id, claimed, in_doubt[shard])
            return shard, claimed

    return dict(await all_or_none([take(*item) for item in transactional_ids.items()]))


async def all_or_none(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all coroutines and return their results; when one fails, cancel the others before the caller retries."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
