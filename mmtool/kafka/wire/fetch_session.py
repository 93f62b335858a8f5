"""Incremental fetch sessions (KIP-227): requests name only the changed partitions, answers only the new data.

A Fetch that names five thousand idle partitions costs both sides tens of milliseconds each time; in a session it names
the few that moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.fetch import FetchPartition, FetchRequest

if TYPE_CHECKING:
    from mmtool.kafka.wire.fetch import FetchAnswer
    from mmtool.translation.types import TopicId

    Key = tuple[TopicId, int]

_NO_SESSION = 0
_FULL = 0
_LAST_EPOCH = (1 << 31) - 1
_SESSION_ERRORS = (
    Code.FETCH_SESSION_ID_NOT_FOUND,
    Code.INVALID_FETCH_SESSION_EPOCH,
    Code.FETCH_SESSION_TOPIC_ID_ERROR,
)


class FetchSession:
    """The partitions that are read from one broker over one connection, one request at a time.

    A. Once the broker has answered a request, its session holds exactly the partitions that were put and not dropped
       before that request was made.
    B. After a missing answer, or one that refuses the session, the next request names all partitions again.
    C. To a broker that gives no session each request names all partitions, the one that was put last at the end.
    """

    def __init__(self) -> None:
        self._places: dict[Key, FetchPartition] = {}
        self._untold: dict[Key, None] = {}
        self._dropped: dict[Key, FetchPartition] = {}
        self._without_id: set[Key] = set()
        self._id = _NO_SESSION
        self._epoch = _FULL

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: Key) -> bool:
        return key in self._places

    def put(self, place: FetchPartition) -> None:
        """Add a partition to the session, or change the offset of one."""
        key = (place.topic_id, place.partition)
        self._places.pop(
            key, None
        )  # to the end: where there is no session, the first places are served first
        self._places[key] = place
        self._untold[key] = None
        self._dropped.pop(key, None)
        if place.topic_id == place.topic:
            self._without_id.add(key)

    def drop(self, key: Key) -> None:
        """Remove a partition from the session."""
        place = self._places.pop(key, None)
        if place is not None:
            self._untold.pop(key, None)
            self._without_id.discard(key)
            self._dropped[key] = place

    def request(self, *, max_wait_ms: int, max_bytes: int, read_committed: bool) -> FetchRequest:
        """The next request; `answered` or `lost` must follow before the next call."""
        full = self._epoch == _FULL
        told = list(self._places.values()) if full else [self._places[key] for key in self._untold]
        dropped = [] if full else list(self._dropped.values())
        self._untold.clear()
        self._dropped.clear()
        return FetchRequest(
            _neighbours(told),
            max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            read_committed=read_committed,
            session_id=self._id,
            session_epoch=self._epoch,
            forgotten=_neighbours(dropped),
            by_name=bool(self._without_id),
        )

    def answered(self, answer: FetchAnswer) -> bool:
        """Note the answer to the last request; False when the broker refused it, so that nothing was fetched."""
        if answer.error_code in _SESSION_ERRORS:
            self._id, self._epoch = _NO_SESSION, _FULL
            return False
        if answer.error_code != Code.NONE:
            self.lost()
            return False
        self._id = answer.session_id
        if self._id == _NO_SESSION:
            self._epoch = _FULL
        else:
            self._epoch = self._epoch + 1 if self._epoch < _LAST_EPOCH else 1
        return True

    def lost(self) -> None:
        """Note that no answer came: the broker may have missed changes, so the next request sends all partitions."""
        self._epoch = _FULL


def _neighbours(places: list[FetchPartition]) -> list[FetchPartition]:
    """Sort partitions by topic, which a request names once; topics stay in the order of their first partition."""
    rank: dict[str, int] = {}
    for place in places:
        rank.setdefault(place.topic, len(rank))
    return sorted(places, key=lambda place: rank[place.topic])
