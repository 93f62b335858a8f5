"""A bare relay: it fetches a topic's batches from one broker and produces them to another; nothing else.

    python -m kit.relay SOURCE TARGET TOPIC MIRROR PARTITIONS [RECORDS]

It has no producer id, no offset runs and no recovery, changes nothing in a batch but its base offset, and talks over
raw sockets: what the brokers let through to a copier in Python. Each cluster has one broker. Runs until it is killed;
after RECORDS, it prints how many CPU seconds they took, and ends.
"""

from __future__ import annotations

import math
import os
import socket
import struct
import sys
import threading
import time
from collections import deque
from itertools import count
from queue import Empty, Queue
from typing import TYPE_CHECKING

from mmtool.lab.topics import create_topic, end_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FETCH, _FETCH_VERSION = 1, 11
_PRODUCE, _PRODUCE_VERSION = 0, 8
_FETCH_BYTES = 8 << 20
_IN_FLIGHT = 5
_WAITING = 64  # batches: enough for full requests
_BATCH_HEAD = struct.Struct(">qiiBIhi")
"""Base offset, length, leader epoch, magic, CRC, attributes and last offset delta."""

Batches = dict[int, list[memoryview]]
"""By partition, in order."""


class Connection:
    """A socket on which requests are sent, and answers received in the same order."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._numbers = count()

    def send(self, api: int, version: int, parts: Sequence[bytes | memoryview]) -> None:
        head = struct.pack(">hhih", api, version, next(self._numbers), 5) + b"relay"
        size = len(head) + sum(map(len, parts))
        left = [memoryview(part) for part in (struct.pack(">i", size) + head, *parts)]
        while left:
            sent = self._socket.sendmsg(left[:1000])
            while left and sent >= len(left[0]):
                sent -= len(left.pop(0))
            if sent:
                left[0] = left[0][sent:]

    def receive(self) -> memoryview:
        """The next answer, behind its correlation id."""
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])[4:]

    def _exactly(self, size: int) -> memoryview:
        buffer = memoryview(bytearray(size))
        filled = 0
        while filled < size:
            got = self._socket.recv_into(buffer[filled:])
            if not got:
                raise ConnectionError("the broker closed the connection")
            filled += got
        return buffer


def read(source: str, topic: str, partitions: int, fetched: Queue[Batches]) -> None:
    """Fetch all partitions from their beginnings; the next request is under way before an answer is handed on."""
    broker, positions = Connection(source), dict.fromkeys(range(partitions), 0)
    broker.send(_FETCH, _FETCH_VERSION, [_fetch(topic, positions)])
    while True:
        answer = _fetched(broker.receive(), len(topic.encode()))
        for partition, batches in answer.items():
            base, *_, delta = _BATCH_HEAD.unpack_from(batches[-1])
            del positions[partition]  # those that had nothing come first next time
            positions[partition] = base + delta + 1
            for batch in batches:
                batch[:8] = bytes(8)  # the target numbers its records itself, and takes no other base offset
        broker.send(_FETCH, _FETCH_VERSION, [_fetch(topic, positions)])
        if answer:
            fetched.put(answer)


def _fetch(topic: str, positions: dict[int, int]) -> bytes:
    head = struct.pack(">iiiibii", -1, 500, 1, _FETCH_BYTES, 0, 0, -1)
    each = max(1 << 20, _FETCH_BYTES // len(positions))
    wanted = [struct.pack(">iiqqi", p, -1, at, -1, each) for p, at in positions.items()]
    return head + _topic(topic, len(wanted)) + b"".join(wanted) + struct.pack(">ih", 0, 0)


def _topic(topic: str, partitions: int) -> bytes:
    name = topic.encode()
    return struct.pack(f">ih{len(name)}si", 1, len(name), name, partitions)


def _fetched(answer: memoryview, name_bytes: int) -> Batches:
    _throttle, error, _session, _topics = struct.unpack_from(">ihii", answer)
    assert not error, error
    at = 14 + 2 + name_bytes
    (partitions,) = struct.unpack_from(">i", answer, at)
    at += 4
    found: Batches = {}
    for _ in range(partitions):
        partition, error, _high, _stable, _start, aborted = struct.unpack_from(">ihqqqi", answer, at)
        assert not error, error
        at += 34 + 16 * max(aborted, 0) + 4
        (size,) = struct.unpack_from(">i", answer, at)
        at += 4
        if batches := list(_batches(answer[at : at + size])):
            found[partition] = batches
        at += max(size, 0)
    return found


def _batches(records: memoryview) -> Iterator[memoryview]:
    at = 0
    while at + _BATCH_HEAD.size <= len(records):
        size = 12 + struct.unpack_from(">i", records, at + 8)[0]
        if at + size > len(records):
            return  # cut off by the limit of a fetch
        yield records[at : at + size]
        at += size


def write(target: str, mirror: str, fetched: Queue[Batches], records: float) -> None:
    """Produce one batch of each partition in a request, as Kafka asks for; up to five requests are unanswered."""
    broker, waiting, unanswered = Connection(target), dict[int, deque[memoryview]](), 0
    while records > 0 or unanswered:
        while sum(map(len, waiting.values())) < _WAITING:
            try:
                answer = fetched.get(block=not (unanswered or waiting) and records > 0)
            except Empty:
                break
            for partition, batches in answer.items():
                waiting.setdefault(partition, deque()).extend(batches)
        while waiting and unanswered < _IN_FLIGHT:
            load = {partition: batches.popleft() for partition, batches in waiting.items()}
            waiting = {partition: batches for partition, batches in waiting.items() if batches}
            broker.send(_PRODUCE, _PRODUCE_VERSION, list(_produce(mirror, load)))
            unanswered += 1
            records -= sum(_BATCH_HEAD.unpack_from(batch)[-1] + 1 for batch in load.values())
        if unanswered:
            _check_produced(broker.receive(), len(mirror.encode()))
            unanswered -= 1


def _produce(mirror: str, load: dict[int, memoryview]) -> Iterator[bytes | memoryview]:
    yield struct.pack(">hhi", -1, -1, 30_000) + _topic(mirror, len(load))
    for partition, batch in load.items():
        yield struct.pack(">ii", partition, len(batch))
        yield batch


def _check_produced(answer: memoryview, name_bytes: int) -> None:
    at = 4 + 2 + name_bytes
    (partitions,) = struct.unpack_from(">i", answer, at)
    at += 4
    for _ in range(partitions):
        _partition, error = struct.unpack_from(">ih", answer, at)
        assert not error, error  # only a refused batch has messages of unknown length behind it
        at += 30 + 4 + 2


def _end(broken: threading.ExceptHookArgs) -> None:
    """A relay whose thread has failed ends, as one without threads would."""
    threading.__excepthook__(broken)
    os._exit(1)


def main() -> None:
    source, target, topic, mirror, partitions, *rest = sys.argv[1:]
    create_topic(target, mirror, int(partitions))
    while len(end_offsets(target, mirror)) < int(partitions):  # a new topic elects its leaders
        time.sleep(0.1)
    fetched: Queue[Batches] = Queue(maxsize=4)
    threading.excepthook = _end
    threading.Thread(target=read, args=(source, topic, int(partitions), fetched), daemon=True).start()
    began = time.process_time()
    write(target, mirror, fetched, int(rest[0]) if rest else math.inf)
    sys.stdout.write(f"{time.process_time() - began}\n")


if __name__ == "__main__":
    main()
