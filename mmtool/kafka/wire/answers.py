"""Ask many brokers: each broker once, or about many items, each at its own node and with its own answer."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from mmtool.errors import MmtoolError
from mmtool.kafka.errors import unreachable
from mmtool.kafka.patience import AT_ONCE, FIRST_PAUSE_SECONDS, PAUSE_SECONDS, RetriableError, handfuls
from mmtool.kafka.ports import Answers
from mmtool.kafka.wire.cluster import ConnectionLostError, WireCluster
from mmtool.kafka.wire.request import UnsupportedByBrokerError, WireRequest
from mmtool.runtime.threads import within

A = TypeVar("A")
K = TypeVar("K")
V = TypeVar("V")

_LOST = (ConnectionLostError, TimeoutError, UnsupportedByBrokerError)


async def answers_of(
    cluster: WireCluster,
    requests: Mapping[int, WireRequest[A]],
    purpose: str = "",
    *,
    seconds: float | None = None,
    lost: tuple[type[Exception], ...] = _LOST,
) -> dict[int, A]:
    """Send each broker its request, all at once and with one try; return the answers that come within ``seconds``.

    ``lost`` are the failures after which a broker is left out; any other one is raised.
    """
    sent = (
        within(seconds, cluster.send(node, request, purpose=purpose)) for node, request in requests.items()
    )
    found: dict[int, A] = {}
    for node, answer in zip(requests, await asyncio.gather(*sent, return_exceptions=True), strict=True):
        if not isinstance(answer, BaseException):
            found[node] = answer
        elif not isinstance(answer, lost):
            raise answer
    return found


class NoSuchItemError(MmtoolError):
    """An item that does not exist: it has no answer, and that is no failure."""


@dataclass(slots=True)
class Question(Generic[K, A, V]):
    """One question about items that have different nodes: partitions and their leaders, groups and their coordinators.

    For reading, and for what may be sent again. `node_of` and `take` raise `RetriableError` where a later answer may
    replace the error, and the error of the item otherwise. It is asked once.

    Attributes:
        alias: The cluster's.
        what: The request, as ``describing group``; the item follows.
        prepare: Looks up the nodes of the items that have no answer yet.
        node_of: The node of one item.
        send: Sends the request about some items to one node, and returns the answer about each.
        take: An item's value from its answer.
        seconds: How long an item is asked about again, where its `RetriableError` does not say it.
        try_seconds: How long one broker is waited for, as another one may be the node by then; None: without an end.
        at_once: How many items share a request.
        lost: Called with each item whose answer did not come, or may change: its node may be another one by now.
        longest_pause: Between two tries, in seconds.
    """

    alias: str
    what: str
    prepare: Callable[[list[K]], Awaitable[object]]
    node_of: Callable[[K], int]
    send: Callable[[int, list[K]], Awaitable[Mapping[K, A]]]
    take: Callable[[K, A], V]
    seconds: float
    try_seconds: float | None
    at_once: int
    lost: Callable[[K], object] = lambda _: None
    longest_pause: float = PAUSE_SECONDS
    _found: Answers[K, V] = field(default_factory=Answers)
    _waits: dict[K, RetriableError] = field(default_factory=dict)

    async def ask(self, items: Iterable[K]) -> Answers[K, V]:
        """Ask each item's node, repeatedly while its answer may change; return answers, and errors in ``failed``.

        Raises:
            UnsupportedByBrokerError: a broker does not know the request.
        """
        now = asyncio.get_running_loop().time
        began, pause = now(), FIRST_PAUSE_SECONDS
        left = list(items)
        while left:
            self._waits = {}
            await self._try(left)
            left = []
            for item, passing in self._waits.items():
                if now() - began < (self.seconds if passing.seconds is None else passing.seconds):
                    left.append(item)
                else:
                    with self._judged(item):
                        raise passing.final
            if left:
                await asyncio.sleep(pause)
                pause = min(2 * pause, self.longest_pause)
        return self._found

    async def _try(self, items: list[K]) -> None:
        led: dict[int, list[K]] = defaultdict(list)
        few = asyncio.Semaphore(AT_ONCE)
        try:
            await within(self.try_seconds, self.prepare(items))
        except (ConnectionLostError, TimeoutError) as error:
            self._lose(items, error)
            return
        for item in items:
            with self._judged(item):
                led[self.node_of(item)].append(item)
        await asyncio.gather(
            *(self._ask(node, some, few) for node, of in led.items() for some in handfuls(of, self.at_once))
        )

    async def _ask(self, node: int, items: list[K], few: asyncio.Semaphore) -> None:
        try:
            async with few:
                answers = await within(self.try_seconds, self.send(node, items))
        except (ConnectionLostError, TimeoutError) as error:
            self._lose(items, error if str(error) else f"broker {node} did not answer in time")
            return
        for item in items:
            if item in answers:  # else of a request that is answered for some of them alone
                with self._judged(item):
                    self._found[item] = self.take(item, answers[item])

    @contextmanager
    def _judged(self, item: K) -> Iterator[None]:
        """Note an error of the block as the item's failure, or as a reason to ask again."""
        try:
            yield
        except RetriableError as passing:
            self.lost(item)
            self._waits[item] = passing
        except NoSuchItemError:
            pass
        except MmtoolError as error:
            self._found.failed[item] = error

    def _lose(self, items: list[K], why: object) -> None:
        for item in items:
            self.lost(item)
            self._waits[item] = RetriableError(unreachable(self.alias, f"{self.what} {item}", why))
