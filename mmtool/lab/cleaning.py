"""The log cleaner, made to look often: what it does in minutes otherwise."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECONDS = 10.0
_BACKOFF = "log.cleaner.backoff.ms"


@contextmanager
def quick_cleaner(bootstrap: str) -> Iterator[None]:
    """Broker 0's cleaner looks every 100 ms, and every 15 s again when the context ends."""
    _set(bootstrap, "100")
    try:
        yield
    finally:
        _set(bootstrap, "15000")


def _set(bootstrap: str, value: str) -> None:
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        ResourceType,
    )

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    entry = ConfigEntry(_BACKOFF, value, incremental_operation=AlterConfigOpType.SET)
    broker = ConfigResource(ResourceType.BROKER, "0", incremental_configs=[entry])
    admin.incremental_alter_configs([broker])[broker].result(_SECONDS)
