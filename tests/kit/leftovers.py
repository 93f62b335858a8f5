"""What clients leave on a real cluster that no client library makes on purpose."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kit.batches import TRANSACTIONAL, PlainRecord, batch_of
from kit.lab_admin import alter_broker
from kit.raw_producer import asked
from mmtool.kafka.state.claims import claim
from mmtool.kafka.wire.cluster import retrying
from mmtool.kafka.wire.codec import Cursor, array, int16, int32, string
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.groups import Coordinated
from mmtool.kafka.wire.produce import ACKS_ALL, ProducePartition, ProduceRequest
from mmtool.kafka.wire.request import WireRequest

if TYPE_CHECKING:
    from mmtool.kafka.wire.cluster import WireCluster

_TIMEOUT_MS = 10_000
_SESSION_MS = 300_000
_HOUR_MS = 3_600_000
_INVALID_TXN_STATE = 48
_LOOKS = 100
_PAUSE_SECONDS = 0.1


def hang_transaction(bootstrap: str, topic: str, partition: int = 0) -> int:
    """A transaction that its coordinator does not know of, an hour old by its records; its producer id.

    As a batch leaves it that comes after its transaction was aborted (KIP-890). A broker that verifies transactions
    refuses such a batch, so the cluster's only one is told not to while it is written.

    Raises:
        AssertionError: The broker refused it.
    """
    alter_broker(bootstrap, 0, transaction_partition_verification_enable="false")
    try:
        return asked(bootstrap, lambda wire: _hang(wire, topic, partition))
    finally:
        alter_broker(bootstrap, 0, transaction_partition_verification_enable=None)


async def _hang(wire: WireCluster, topic: str, partition: int) -> int:
    name = f"{topic}-lost"
    claimed = await claim(wire, name)
    then = int(time.time() * 1000) - _HOUR_MS
    batch = batch_of(
        [PlainRecord(0, then, b"k", b"v")],
        flags=TRANSACTIONAL,
        producer=(claimed.producer_id, claimed.epoch, 0),
    ).write()
    topic_id = (await wire.refresh([topic]))[topic].topic_id
    place = ProducePartition(topic, topic_id, partition, batch)
    request = TransactionalProduce([place], _TIMEOUT_MS, name)
    for _ in range(_LOOKS):  # the broker goes by its new setting a moment after it was told
        (answer,) = (await wire.send_to_leader(topic, partition, request)).partitions
        if answer.error_code != _INVALID_TXN_STATE:
            break
        await asyncio.sleep(_PAUSE_SECONDS)
    assert answer.error_code == Code.NONE, answer
    return claimed.producer_id


@dataclass(frozen=True, slots=True)
class TransactionalProduce(ProduceRequest):
    """A batch of one partition under a transactional id."""

    transactional_id: str

    def usable(self) -> tuple[int, ...]:
        """The last version in which a broker does not add the partition to the transaction by itself."""
        return (7,)

    def pieces(self, version: int) -> list[bytes | bytearray]:
        (only,) = self.partitions
        return [
            string(self.transactional_id) + int16(ACKS_ALL) + int32(self.timeout_ms),
            array(
                [string(only.topic) + array([int32(only.partition) + int32(len(only.batch)) + only.batch])]
            ),
        ]


def join_as_worker(bootstrap: str, group: str) -> None:
    """A member of Kafka Connect's protocol in a group, for five minutes.

    Raises:
        AssertionError: The coordinator refused it.
    """
    asked(bootstrap, lambda wire: _join(wire, group))


async def _join(wire: WireCluster, group: str) -> None:
    async def attempt() -> tuple[int, str]:
        node = await wire.coordinator(group, Coordinated.GROUP)
        code = await wire.send(node, JoinGroupRequest(group, "connect", "compatible"))
        return code, ""

    code, _ = await retrying(attempt, what=group, alias=wire.alias)
    assert code == Code.NONE, code


@dataclass(frozen=True, slots=True)
class JoinGroupRequest(WireRequest[int]):
    """Joins a group; the answer is the error code."""

    API_KEY = 11
    VERSIONS = (2,)

    group: str
    protocol_type: str
    protocol: str

    def body(self, version: int) -> bytes:
        metadata = int32(0)
        times = int32(_SESSION_MS) + int32(_SESSION_MS)
        who = string("") + string(self.protocol_type)
        return string(self.group) + times + who + array([string(self.protocol) + metadata])

    def answer(self, version: int, cursor: Cursor) -> int:
        cursor.int32()
        return cursor.int16()
