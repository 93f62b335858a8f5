"""Logins on an open connection: what a broker that reads its bytes in order receives, and what callers get."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.protocol import raw, read
from mmtool.kafka.wire.codec import int16, int32, int64, string
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.connection import Connection
from mmtool.kafka.wire.request import WireRequest
from mmtool.kafka.wire.sasl import (
    Authenticated,
    Handshake,
    Login,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    Session,
    UnprovenBrokerError,
)

HANDSHAKE, AUTHENTICATE, ASKED = 17, 36, 3
LIFETIME_MS = 10_000
HALF_SECOND = 0.5
SECONDS = 5.0
VERSIONS = {HANDSHAKE: (0, 1), AUTHENTICATE: (0, 2), ASKED: (0, 0)}


@dataclass
class Numbered(WireRequest[int]):
    """A request that is answered with its own number."""

    API_KEY = ASKED
    VERSIONS = (0,)

    number: int

    def body(self, version):
        return int32(self.number)

    def answer(self, version, cursor):
        return cursor.int32()


@dataclass
class Broker:
    """A transport, and the broker behind it: reads one request after the other, when it is told to.

    Attributes:
        read: What it has read: ``handshake``, ``token``, or the number of a request.
        read_at: When, by the test's clock.
        refuses: The number of the login that it refuses.
    """

    refuses: int = 0
    lifetime_ms: int = LIFETIME_MS
    now: float = 0.0
    read: list[object] = field(default_factory=list)
    read_at: list[float] = field(default_factory=list)
    logins: int = 0
    closed: bool = False
    _bytes: bytearray = field(default_factory=bytearray)
    _unread: deque[bytes] = field(default_factory=deque)

    def set_protocol(self, protocol):
        self.protocol = protocol

    def set_write_buffer_limits(self, **_limits):
        pass

    def close(self):
        self.closed = True

    def write(self, data):
        self._bytes += data
        while len(self._bytes) >= 4 and len(self._bytes) >= 4 + (size := int.from_bytes(self._bytes[:4])):
            self._unread.append(bytes(self._bytes[4 : 4 + size]))
            del self._bytes[: 4 + size]

    def answer_one(self):
        """Read the oldest request and answer it."""
        if not self._unread or self.closed:
            return False
        frame = self._unread.popleft()
        key, _version, number = struct.unpack_from(">hhi", frame)
        self.read_at.append(self.now)
        answer = int32(number) + self._answers(key, frame)
        framed = int32(len(answer)) + answer
        self.protocol.get_buffer(-1)[: len(framed)] = framed
        self.protocol.buffer_updated(len(framed))
        return True

    def _answers(self, key, frame):
        if key == HANDSHAKE:
            self.read.append("handshake")
            return int16(Code.NONE) + int32(1) + string("TWO-STEPS")
        if key == AUTHENTICATE:
            self.read.append("token")
            is_last = self.read[-2] == "token"
            self.logins += is_last
            refused = is_last and self.logins == self.refuses
            code, reason = (
                (Code.SASL_AUTHENTICATION_FAILED, "wrong password") if refused else (Code.NONE, None)
            )
            return int16(code) + string(reason) + int32(0) + int64(self.lifetime_ms if is_last else 0)
        self.read.append(struct.unpack_from(">i", frame, len(frame) - 4)[0])
        return int32(self.read[-1])


class TwoSteps:
    """An authenticator that sends two tokens, as SCRAM does."""

    def __init__(self):
        self.left = [b"first", b"last"]

    async def step(self, payload):
        await asyncio.sleep(0)
        return (self.left.pop(0), True) if self.left else None


async def settle():
    for _ in range(8):
        await asyncio.sleep(0)


async def connected(broker, authenticator=TwoSteps, **login):
    """A connection that is logged in."""
    stream = SimpleNamespace(transport=broker)
    task = SimpleNamespace(cancel=lambda: None)
    opened = SimpleNamespace(_versions=VERSIONS, _writer=stream, _reader=None, _read_task=task)
    how = Login(login.get("mechanism", "TWO-STEPS"), authenticator)
    connection = Connection(opened, "me", SECONDS, how, lambda: broker.now)
    first = asyncio.create_task(connection.log_in())
    await answered(broker)
    await first
    return connection


async def answered(broker):
    """Until the broker has answered all that it got."""
    await settle()
    while broker.answer_one():
        await settle()


moves = st.lists(
    st.one_of(st.just("ask"), st.just("answer"), st.just("cancel"), st.floats(0.0, LIFETIME_MS / 1000)),
    max_size=60,
)


@given(moves, st.integers(0, 4))
def test_no_request_comes_into_a_login_and_none_is_lost_doubled_or_overtaken(moves, refuses):
    """However requests, answers, cancelled callers and time come together, also where a login is refused."""

    async def scene():
        broker = Broker(refuses=refuses if refuses != 1 else 0)
        connection = await connected(broker)
        asked, cancelled = [], set()
        for move in moves:
            if move == "ask" and connection.connected():
                asked.append(asyncio.create_task(connection.send(Numbered(len(asked)))))
            elif move == "answer":
                broker.answer_one()
            elif move == "cancel" and asked and not asked[-1].done():
                asked[-1].cancel()
                cancelled.add(len(asked) - 1)
            elif isinstance(move, float):
                broker.now += move
            await settle()
        await answered(broker)
        return broker, cancelled, await asyncio.gather(*asked, return_exceptions=True)

    broker, cancelled, ended = asyncio.run(scene())
    refused = broker.closed
    numbers = [what for what in broker.read if isinstance(what, int)]
    assert numbers == sorted(set(numbers))
    marks = "".join({"handshake": "<", "token": "t"}.get(str(what), ".") for what in broker.read)
    assert set(marks.replace("<tt", "")) <= {"."}
    for number, result in enumerate(ended):
        if number in cancelled:
            continue
        assert result == number if not isinstance(result, BaseException) else refused
        assert isinstance(result, (int, ConnectionError))
    assert refused or set(range(len(ended))) - cancelled <= set(numbers)


@given(st.lists(st.floats(0.0, 2 * LIFETIME_MS / 1000), max_size=30))
def test_no_request_is_sent_in_the_last_half_second_of_its_session_and_idle_time_sends_nothing(pauses):
    async def scene():
        broker = Broker()
        connection = await connected(broker)
        for pause in pauses:
            broker.now += pause
            read = len(broker.read)
            await answered(broker)
            assert len(broker.read) == read
            asked = asyncio.create_task(connection.send(Numbered(0)))
            await answered(broker)
            assert await asked == 0
        return broker

    broker = asyncio.run(scene())
    logged_in = 0.0
    for what, at in zip(broker.read, broker.read_at, strict=True):
        if what == "token":
            logged_in = at
        assert what == "handshake" or at - logged_in < LIFETIME_MS / 1000 - HALF_SECOND


def test_a_refused_login_closes_the_connection_and_those_who_wait_are_told_why():
    async def scene():
        broker = Broker(refuses=2)
        connection = await connected(broker)
        broker.now += LIFETIME_MS / 1000
        asked = [asyncio.create_task(connection.send(Numbered(number))) for number in (0, 1)]
        await answered(broker)
        return broker, connection, await asyncio.gather(*asked, return_exceptions=True)

    broker, connection, ended = asyncio.run(scene())
    assert (broker.closed, connection.connected(), [type(one) for one in ended]) == (
        True,
        False,
        [ConnectionError, ConnectionError],
    )
    assert "wrong password" in str(ended[0])
    assert [what for what in broker.read if isinstance(what, int)] == []


def test_a_session_without_an_end_is_never_renewed():
    async def scene():
        broker = Broker(lifetime_ms=0)
        connection = await connected(broker)
        broker.now += 1e9
        asked = asyncio.create_task(connection.send(Numbered(7)))
        await answered(broker)
        return broker.logins, await asked

    assert asyncio.run(scene()) == (1, 7)


def test_requests_are_sent_while_a_token_is_fetched_but_not_at_the_end_of_the_session():
    """A token endpoint may take its time: the session still holds for a while."""

    async def scene():
        broker, fetched = Broker(), asyncio.Event()

        class Slow(TwoSteps):
            async def step(self, payload):
                if payload is None and broker.logins:
                    await fetched.wait()
                return await super().step(payload)

        connection = await connected(broker, Slow)
        broker.now += 0.92 * LIFETIME_MS / 1000
        asked = [asyncio.create_task(connection.send(Numbered(1)))]
        await answered(broker)
        broker.now += 0.04 * LIFETIME_MS / 1000
        asked.append(asyncio.create_task(connection.send(Numbered(2))))
        await answered(broker)
        before = list(broker.read)
        fetched.set()
        await answered(broker)
        return before[3:], broker.read[len(before) :], await asyncio.gather(*asked)

    assert asyncio.run(scene()) == ([1], ["handshake", "token", "token", 2], [1, 2])


def test_credentials_are_taken_anew_for_each_login():
    async def scene():
        taken, broker = [], Broker()

        def authenticator():
            taken.append(broker.now)
            return TwoSteps()

        connection = await connected(broker, authenticator)
        for _ in range(2):
            broker.now += LIFETIME_MS / 1000
            asked = asyncio.create_task(connection.send(Numbered(1)))
            await answered(broker)
            await asked
        return taken

    assert asyncio.run(scene()) == [0, 10, 20]


@pytest.mark.parametrize(
    ("lifetime", "slowest", "age", "due"),
    [
        (10, 0, 8.9, False),
        (10, 0, 9.1, True),
        (10, 1.5, 5.9, False),
        (10, 1.5, 6.1, True),
        (5, 0, 3.9, False),
        (5, 0, 4.1, True),
        (10, 60, 4.9, False),
        (10, 60, 5.1, True),
        (1, 0, 1.0, False),
        (1, 0, 1.2, True),
    ],
    ids=[
        f"{what}, {when}"
        for what in ("long", "slow", "seconds", "hung", "short")
        for when in ("early", "late")
    ],
)
def test_a_session_is_renewed_earlier_where_answers_are_slow_and_never_within_a_second(
    lifetime, slowest, age, due
):
    assert Session(100.0, lifetime, 0.9).is_due(100.0 + age, slowest) is due


@given(st.integers(20_000, 10**9))
def test_a_session_is_renewed_at_85_to_95_percent_of_its_lifetime(lifetime_ms):
    session = Session.granted(0.0, lifetime_ms)
    assert 0.85 <= session.share <= 0.95
    assert not session.is_due(0.849 * session.lifetime, 0.0)


def test_requests_and_answers_of_a_login_are_those_of_the_protocol():
    assert SaslHandshakeRequest("PLAIN").body(1) == raw("0005 504c41494e")
    assert read(SaslHandshakeRequest("PLAIN"), 1, "0021 00000001 0005 504c41494e") == (
        Handshake(33, ["PLAIN"]),
        0,
    )
    assert SaslAuthenticateRequest(b"ab").body(1) == raw("00000002 6162")
    answer = "003a 0002 6e6f 00000001 78"
    assert read(SaslAuthenticateRequest(b""), 0, answer) == (Authenticated(58, "no", b"x", 0), 0)
    told = read(SaslAuthenticateRequest(b""), 1, f"{answer} 0000000000001388")
    assert told == (Authenticated(58, "no", b"x", 5000), 0)


def test_a_token_is_shown_nowhere():
    assert "s3cret" not in repr(SaslAuthenticateRequest(b"s3cret"))


class Doubter(TwoSteps):
    """An authenticator that finds the broker's last answer wrong, as SCRAM's does."""

    async def step(self, payload):
        if not self.left:
            raise ValueError("Server sent wrong signature!")
        return await super().step(payload)


def test_a_broker_that_does_not_know_the_password_is_not_said_to_refuse_it():
    with pytest.raises(UnprovenBrokerError, match=r"did not prove that it knows the password \(TWO-STEPS\)"):
        asyncio.run(connected(Broker(), Doubter))
