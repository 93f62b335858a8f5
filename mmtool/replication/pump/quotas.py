"""Track which cluster's client quotas throttle a flow (KIP-219)."""

from __future__ import annotations

import time

_LONG_MS = 500
"""The shortest throttle time that counts: brokers ask for less when a client is hardly above its quota."""

_REMEMBERED_SECONDS = 10.0


class Quotas:
    """The clusters whose brokers answered with a long throttle time lately.

    A. A cluster is named until `_REMEMBERED_SECONDS` after the last wait that it asked for.
    """

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def note(self, alias: str, throttle_ms: int) -> None:
        """Note that a broker of cluster ``alias`` throttles this client for ``throttle_ms``."""
        if throttle_ms >= _LONG_MS:
            self._until[alias] = time.monotonic() + throttle_ms / 1000 + _REMEMBERED_SECONDS

    @property
    def aliases(self) -> list[str]:
        """The clusters whose quotas throttle the flow now, sorted."""
        now = time.monotonic()
        return sorted(alias for alias, until in self._until.items() if until > now)

    @property
    def of(self) -> str:
        """`aliases` as one phrase; empty when there are none."""
        return " and ".join(self.aliases)
