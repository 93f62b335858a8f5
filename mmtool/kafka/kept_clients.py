"""Clients that the process keeps for the next caller: a new one connects and logs in, and with a token sleeps a second.

They are kept by cluster and purpose; when a cluster's settings have changed, as by a renewed login, those with the old
settings are dropped.
"""

from __future__ import annotations

import os
import time
from collections import deque
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError
from confluent_kafka.admin import AdminClient

from mmtool.kafka.clients import librdkafka_config, new_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mmtool.config import ClusterSettings

T = TypeVar("T")

_IDLE_SECONDS = 30.0
"""How long a reader is kept without use, in seconds: its connections may have broken unnoticed since."""


class HearingClient(NamedTuple):
    """A client of confluent-kafka, and the newest errors that it reported when it was polled."""

    client: Any
    heard: deque[Any]


class _Shelf:
    """What is kept for one purpose with one cluster's settings; each reader with the time when it was handed back."""

    def __init__(self, cluster: ClusterSettings) -> None:
        self.cluster = cluster
        self.lock = Lock()
        self.shared: Any = None
        self.readers: list[tuple[float, HearingClient]] = []

    def take_reader(self) -> HearingClient | None:
        """An idle reader that no other caller gets; None where there is none that is surely sound."""
        with self.lock:
            oldest = time.monotonic() - _IDLE_SECONDS
            self.readers = [one for one in self.readers if one[0] > oldest]
            reader = self.readers.pop()[1] if self.readers else None
        if reader is not None:
            reader.client.consume(1_000, 0)  # what it still held, and the errors since
        return None if reader is None or reader.heard else reader


_shelves: dict[tuple[str, str], _Shelf] = {}
_lock = Lock()
_of_parent: list[object] = []


def _begin_child() -> None:
    """Leave the parent's clients alone after a fork: they have no threads here, so destroying one would never end."""
    global _shelves, _lock
    _of_parent.append(_shelves)
    _shelves, _lock = {}, Lock()


os.register_at_fork(after_in_child=_begin_child)


def _shelf(cluster: ClusterSettings, purpose: str) -> _Shelf:
    with _lock:
        shelf = _shelves.get((cluster.alias, purpose))
        if shelf is None or shelf.cluster != cluster:
            shelf = _shelves[cluster.alias, purpose] = _Shelf(cluster)
        return shelf


def shared(
    cluster: ClusterSettings,
    purpose: str,
    create: Callable[[], T],
    is_sound: Callable[[T], bool] = lambda _: True,
) -> T:
    """The client of a cluster for this purpose, which threads use at the same time; created anew if it is not sound."""
    shelf = _shelf(cluster, purpose)
    with shelf.lock:
        if shelf.shared is None or not is_sound(shelf.shared):
            shelf.shared = create()
        return shelf.shared  # type: ignore[no-any-return]


def admin_client(cluster: ClusterSettings) -> HearingClient:
    """The process's one AdminClient of a cluster.

    Raises:
        ConfigError, UnreachableError: As `new_client`.
    """

    def create() -> HearingClient:
        config = librdkafka_config(cluster, role="admin", client_id_suffix="admin")
        return _hearing(AdminClient, config, cluster)

    return shared(cluster, "admin", create, _has_brokers)


def _has_brokers(kept: HearingClient) -> bool:
    """Whether the client has not lost all brokers that it knows; those of a rebuilt cluster have other addresses."""
    kept.client.poll(0)
    return KafkaError._ALL_BROKERS_DOWN not in [error.code() for error in kept.heard]  # noqa: SLF001  a public name


@contextmanager
def lent_reader(cluster: ClusterSettings, *, committed: bool = False) -> Iterator[Any]:
    """A Consumer without a group for this caller alone, handed back at the end; after an error it is closed.

    Raises:
        ConfigError, UnreachableError: As `new_client`.
    """
    shelf = _shelf(cluster, f"reader, committed: {committed}")
    reader = shelf.take_reader() or _hearing(Consumer, reader_config(cluster, committed=committed), cluster)
    try:
        yield reader.client
        reader.client.unassign()
    except BaseException:
        reader.client.close()
        raise
    reader.heard.clear()  # it has answered since
    with shelf.lock:
        shelf.readers.append((time.monotonic(), reader))


def reader_config(cluster: ClusterSettings, *, committed: bool = False) -> dict[str, Any]:
    """librdkafka's configuration of a consumer without a group that reports the end of each partition."""
    return {
        **librdkafka_config(cluster, role="consumer", client_id_suffix="-reader"),
        "group.id": "mmtool.reader",  # librdkafka wants a name; nothing is ever committed or joined
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        "fetch.wait.max.ms": 10,
        "auto.offset.reset": "earliest",
    }


def _hearing(
    factory: Callable[[dict[str, Any]], Any], config: dict[str, Any], cluster: ClusterSettings
) -> HearingClient:
    heard: deque[Any] = deque(maxlen=100)
    return HearingClient(new_client(factory, config | {"error_cb": heard.append}, cluster), heard)
