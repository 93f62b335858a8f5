"""A fetch session and a broker that follows KIP-227: whatever gets lost, both mean the same places in the end."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.fetch import FetchAnswer, FetchPartition, FetchSession

TOPICS = ("a", "b")


def place(topic, partition, offset=0, size=1 << 20):
    return FetchPartition(topic, f"id-{topic}", partition, offset, size)


def key_of(at):
    return at.topic_id, at.partition


@dataclass
class Broker:
    """What KIP-227 says of sessions: an id and an epoch name one, epoch 0 makes one and ends the one it names."""

    slots: int = 9
    sessions: dict = field(default_factory=dict)
    made: int = 0

    def serve(self, request):
        """(error, session id, what it reads for this request)"""
        read = {key_of(p): p for p in request.partitions}
        if request.session_epoch == 0:
            self.sessions.pop(request.session_id, None)
            if len(self.sessions) >= self.slots:
                return Code.NONE, 0, read
            self.made += 1
            self.sessions[self.made] = (1, read)
            return Code.NONE, self.made, read
        if request.session_id not in self.sessions:
            return Code.FETCH_SESSION_ID_NOT_FOUND, 0, {}
        epoch, places = self.sessions[request.session_id]
        if epoch != request.session_epoch:
            return Code.INVALID_FETCH_SESSION_EPOCH, 0, {}
        for gone in request.forgotten:
            places.pop(key_of(gone), None)
        places.update(read)
        self.sessions[request.session_id] = (epoch + 1, places)
        return Code.NONE, request.session_id, dict(places)


def ask(session):
    return session.request(max_wait_ms=500, max_bytes=1 << 20, read_committed=True)


CHANGES = st.lists(
    st.tuples(st.booleans(), st.sampled_from(TOPICS), st.integers(0, 2), st.integers(0, 9)), max_size=5
)
TURNS = st.lists(
    st.tuples(CHANGES, st.sampled_from(["answered", "answered", "request lost", "answer lost", "evicted"])),
    max_size=12,
)


@given(TURNS, st.integers(0, 2))
def test_the_broker_reads_what_was_put_and_not_dropped(turns, slots):
    session, broker, wanted = FetchSession(), Broker(slots), {}
    for changes, fate in turns:
        for is_put, topic, partition, offset in changes:
            at = place(topic, partition, offset)
            if is_put:
                session.put(at)
                wanted[key_of(at)] = at
            else:
                session.drop(key_of(at))
                wanted.pop(key_of(at), None)
        request = ask(session)
        if fate == "request lost":
            session.lost()
            continue
        if fate == "evicted":
            broker.sessions.clear()
        error, session_id, reads = broker.serve(request)
        if fate == "answer lost":
            session.lost()
        elif session.answered(FetchAnswer(0, error, [], session_id)):
            assert reads == wanted


def test_after_the_first_answer_only_what_moved_is_named():
    session = FetchSession()
    for partition in range(1000):
        session.put(place("a", partition))
    assert len(ask(session).partitions) == 1000
    assert session.answered(FetchAnswer(0, Code.NONE, [], 7))
    session.put(place("a", 5, 42))
    session.drop(("id-a", 6))
    request = ask(session)
    assert (request.session_id, request.session_epoch) == (7, 1)
    assert (request.partitions, request.forgotten) == ([place("a", 5, 42)], [place("a", 6)])


def test_a_topic_is_named_once_whatever_the_order_of_its_partitions():
    session = FetchSession()
    for topic, partition in (("a", 0), ("b", 0), ("a", 1)):
        session.put(place(topic, partition))
    assert [p.topic for p in ask(session).partitions] == ["a", "a", "b"]


def test_an_answer_with_another_error_has_everything_told_anew_in_a_session_of_its_own():
    session = FetchSession()
    session.put(place("a", 0))
    ask(session)
    session.answered(FetchAnswer(0, Code.NONE, [], 7))
    ask(session)
    assert not session.answered(FetchAnswer(0, Code.UNKNOWN_TOPIC_ID, [], 0))
    request = ask(session)
    assert (request.session_id, request.session_epoch, len(request.partitions)) == (7, 0, 1)


def test_a_session_that_reads_a_topic_without_an_id_names_all_as_long_as_it_does():
    """A broker refuses a session that changes between names and ids (KIP-516)."""
    session, nameless = FetchSession(), FetchPartition("old", "old", 0, 0, 1)
    session.put(nameless)
    session.put(place("a", 0))
    ask(session)
    session.answered(FetchAnswer(0, Code.NONE, [], 7))
    session.put(place("a", 0, 5))
    beside = ask(session)
    session.answered(FetchAnswer(0, Code.NONE, [], 7))
    session.drop(("old", 0))
    assert [request.usable()[-1] for request in (beside, ask(session))] == [11, 11]
    session.lost()
    assert ask(session).usable()[-1] == 13
