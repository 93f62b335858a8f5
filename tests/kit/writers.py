"""A producer that runs beside a test."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from kit.load import Load, Transactions, produce
from mmtool.errors import MmtoolError
from mmtool.lab.demo_apps import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECONDS_OF_A_LOAD = 1.3  # it ends after the load under way
_LEAST_RECORDS = 36
_HEADERS = (("written-by", b"a running writer"), ("empty", b""))
_LINGER_MS = 100.0  # ten requests a second: the machine is for what is tested


@dataclass
class RunningWriter:
    """Writes numbered records into a topic until its context ends.

    Attributes:
        transactions: Write in transactions of this many records, every third one aborted; 0 for none.
        tolerant: A load that fails is followed by the next one: its broker may be away. What became of its records
            is for who reads them to find out; its transaction is ended by the next one, and the last one does not fail.
            At the end one more transaction is committed in every partition: where a broker lists no leader in the
            moment of a commit, as after a freeze, Kafka skips the markers and says that it is committed, and the
            transaction is open there until its producer's next one.
        age_ms: How old the records are when they are written.
        keyed: Each record has a key of its own and headers, for mirrors that might lose those.
        key_count: So many keys in turn instead, for topics that are compacted; 0 for none.
        records: Acknowledged and committed.
        failed: Loads that came to no end.

    Raises:
        MmtoolError: When the context ends: what ended it early.
    """

    bootstrap: str
    topic: str
    partitions: int
    records_per_second: float
    transactions: int = 0
    record_bytes: int = 300
    tolerant: bool = False
    keyed: bool = False
    key_count: int = 0
    age_ms: int = 0
    records: int = 0
    failed: int = 0
    _worker: Worker = field(init=False)

    def __post_init__(self) -> None:
        self._transactional_id = (
            f"w-{uuid.uuid4().hex}"  # of all loads: one fences what an earlier one left open
        )
        self._is_whole = True
        self._worker = Worker(f"writer of {self.topic}", self._run)

    def __enter__(self) -> Self:
        self._worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def ask_to_stop(self) -> None:
        """Ends soon; `stop` waits for it."""
        self._worker.stopping.set()

    def stop(self) -> None:
        """Ends after the load under way, or the next that succeeds; nothing is on its way then, or in a transaction."""
        self._worker.finish()

    def _run(self) -> None:
        for load in self._loads():
            self._write(load)

    def _write(self, load: Load) -> None:
        self._is_whole = False
        try:
            loaded = produce(self.bootstrap, load)
        except MmtoolError:
            self.failed += 1
            if not self.tolerant:
                raise
        else:
            self._is_whole = True
            self.records += load.count - len(loaded.aborted)

    def _loads(self) -> Iterator[Load]:
        first, count = 0, max(_LEAST_RECORDS, round(self.records_per_second * _SECONDS_OF_A_LOAD))
        while not (self._worker.stopping.is_set() and self._is_whole):
            yield self._load(count, first, abort_every=3)
            first += count  # no two records are ever equal
        if self.tolerant and self.transactions:
            yield self._load(self.transactions, first, abort_every=0)

    def _load(self, count: int, first: int, *, abort_every: int) -> Load:
        how = Transactions(self._transactional_id, self.transactions, abort_every)
        return Load(
            self.topic,
            count,
            self.partitions,
            self.record_bytes,
            records_per_second=self.records_per_second,
            linger_ms=_LINGER_MS,
            keys="cyclic" if self.key_count else "sequence" if self.keyed else "none",
            key_count=self.key_count,
            headers=_HEADERS if self.keyed else (),
            transactions=how if self.transactions else None,
            first_sequence=first,
            first_timestamp_ms=int(time.time() * 1000) - self.age_ms if self.age_ms else 0,
        )
