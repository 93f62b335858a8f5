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
        """Bytes that may be taken; negative when more was taken than there was."""
        self._settle(now)
        return self._balance

    def take(self, count: int, now: float) -> None:
        self._settle(now)
        self._balance -= count

    def wait_seconds(self, now: float, under_way: int = 0) -> float:
        """How long until a step's worth is there: fetching byte by byte would be a request per batch.

        Nobody knows what fetches that are under way will bring: a step's worth is set aside for each, but not so much
        that those which bring nothing would hold up the others for long.
        """
        steps = 1 + min(under_way, _SET_ASIDE)
        return max(steps * STEP_SECONDS - self.balance(now) / self._rate, 0.0)

    def set_rate(self, rate: float, now: float) -> None:
        """Another rate from now on.

        Under a lower one a debt shrinks with it: it stands for time, and nobody is to be silent for minutes because
        of what was in order a moment ago.
        """
        self._settle(now)
        if self._balance < 0:
            self._balance = max(self._balance, self._balance * rate / self._rate)
        self._balance = min(self._balance, rate * BURST_SECONDS)
        self._rate = rate

    def use(self, now: float) -> Use:
        """What was used since the last call, and whether that was all: what ran over was not needed."""
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
