"""A producer that runs beside a test."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from mmtool.errors import MmtoolError
from mmtool.lab.load import Load, Transactions, produce

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECONDS_OF_A_LOAD = 1.3  # it ends after the load under way
_LEAST_RECORDS = 36
_LINGER_MS = 100.0  # ten requests a second: the machine is for what is tested
_JOIN_SECONDS = 60.0


@dataclass
class RunningWriter:
    """Writes numbered records into a topic until its context ends.

    Attributes:
        transactions: Write in transactions of this many records, every third one aborted; 0 for none.
        tolerant: A load that fails is followed by the next one: its broker may be away. What became of its records
            is for who reads them to find out.
        failure: What ended it early; raised when the context ends.
    """

    bootstrap: str
    topic: str
    partitions: int
    records_per_second: float
    transactions: int = 0
    record_bytes: int = 300
    tolerant: bool = False
    records: int = 0
    failure: BaseException | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name=f"writer of {self.topic}", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def ask_to_stop(self) -> None:
        """Ends soon; `stop` waits for it."""
        self._stop.set()

    def stop(self) -> None:
        """Ends after the load under way; every record is then acknowledged."""
        self.ask_to_stop()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            for load in self._loads():
                self._write(load)
        except BaseException as error:  # noqa: BLE001  whoever ends the context must hear of it
            self.failure = error

    def _write(self, load: Load) -> None:
        try:
            loaded = produce(self.bootstrap, load)
        except MmtoolError:
            if not self.tolerant:
                raise
        else:
            self.records += loaded.records - len(loaded.aborted)

    def _loads(self) -> Iterator[Load]:
        first, count = 0, max(_LEAST_RECORDS, round(self.records_per_second * _SECONDS_OF_A_LOAD))
        while not self._stop.is_set():
            how = Transactions(f"w-{uuid.uuid4().hex}", self.transactions, 3) if self.transactions else None
            yield Load(
                self.topic,
                count,
                self.partitions,
                self.record_bytes,
                records_per_second=self.records_per_second,
                linger_ms=_LINGER_MS,
                transactions=how,
                first_sequence=first,
            )
            first += count  # no two records are ever equal
