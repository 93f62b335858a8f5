"""Make a lab broker's log cleaner check every 100 ms instead of every 15 s."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kit.lab_admin import alter_broker

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def quick_cleaner(bootstrap: str) -> Iterator[None]:
    """Let broker 0's log cleaner check every 100 ms, and every 15 s again when the context ends."""
    alter_broker(bootstrap, 0, log_cleaner_backoff_ms="100")
    try:
        yield
    finally:
        alter_broker(bootstrap, 0, log_cleaner_backoff_ms="15000")
