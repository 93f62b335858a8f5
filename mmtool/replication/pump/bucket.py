"""A token bucket: bytes that may be moved now at a set rate. Callers pass the time; it has no clock."""

from __future__ import annotations

from mmtool.plan.flow.throttle import Use

BURST_SECONDS = 0.5
STEP_SECONDS = 0.1
_SET_ASIDE = 2
_ALL = 0.95


class TokenBucket:
    """The bytes that a task may move for one flow.

    A. A caller that takes only when `wait_seconds` is 0 takes in any ``t`` seconds at one rate at most
       ``rate * (t + BURST_SECONDS)`` bytes and the excess of the last taking.
    B. What is taken at once may be larger than what is there, so a batch of any size goes: the rest of the time that
       it is worth is waited for afterwards.
    """

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._balance = 0.0
        self._at = now
        self._gained = 0.0
        self._spilled = 0.0
        self._used_from = now

    def balance(self, now: float) -> float:
        """Bytes that may be taken now; negative after more was taken than the bucket held."""
        self._settle(now)
        return self._balance

    def take(self, count: int, now: float) -> None:
        """Take ``count`` bytes, which may be more than the bucket holds (B)."""
        self._settle(now)
        self._balance -= count

    def wait_seconds(self, now: float, under_way: int = 0) -> float:
        """Seconds until the bucket holds enough for a fetch: a step of `STEP_SECONDS`, and one per pending fetch.

        A step, because fetching byte by byte would be a request per batch. The size of pending answers is unknown, so a
        step is set aside for each, but only for the first few: fetches that bring nothing must not delay others for
        long.
        """
        steps = 1 + min(under_way, _SET_ASIDE)
        return max(steps * STEP_SECONDS - self.balance(now) / self._rate, 0.0)

    def set_rate(self, rate: float, now: float) -> None:
        """Change the rate, in bytes per second, from now on.

        A lower rate shrinks a debt in proportion: a debt stands for time, and a reader must not pause for minutes
        because of bytes that the former rate allowed.
        """
        self._settle(now)
        if self._balance < 0:
            self._balance = max(self._balance, self._balance * rate / self._rate)
        self._balance = min(self._balance, rate * BURST_SECONDS)
        self._rate = rate

    def use(self, now: float) -> Use:
        """The rate used since the last call, and whether all of the bucket's rate was used.

        Bytes that overflowed the bucket count as unused.
        """
        self._settle(now)
        seconds, gained, spilled = now - self._used_from, self._gained, self._spilled
        self._used_from, self._gained, self._spilled = now, 0.0, 0.0
        if seconds <= 0 or gained <= 0:
            return Use(self._rate, is_all=True)
        return Use((gained - spilled) / seconds, is_all=gained - spilled >= gained * _ALL)

    def _settle(self, now: float) -> None:
        gained = self._rate * (now - self._at)
        kept = min(gained, self._rate * BURST_SECONDS - self._balance)
        self._balance += kept
        self._gained += gained
        self._spilled += gained - kept
        self._at = now
