"""What the network between a client and a broker does when it is told to."""

import random
import socket
import struct
import threading
import time
from contextlib import contextmanager

import pytest

from kit.link import CLEAR, LATE_SECONDS, Link, LinkShape, Way
from mmtool.lab.ports import PortReservation, wait_until

SECONDS = 5.0


@pytest.fixture
def ports():
    held = PortReservation()
    yield held.take(), held.take()
    held.release()


class Echo:
    """Answers each byte with itself, and knows what it heard, in how many pieces, and how connections ended."""

    def __init__(self, port):
        self._listening = socket.create_server(("127.0.0.1", port))
        self.heard, self.pieces = b"", 0
        self.taken, self.ends = [], []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                taken, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(taken,), daemon=True).start()

    def _answer(self, taken):
        self.taken.append(taken)
        try:
            while got := taken.recv(1 << 16):
                self.heard += got
                self.pieces += 1
                taken.sendall(got)
            self.ends.append("closed")
        except OSError as error:
            self.ends.append(type(error))

    def ended(self):
        """How the only connection did."""
        wait_until(lambda: self.ends, "its end", SECONDS)
        return self.ends

    def close(self):
        self._listening.close()


@pytest.fixture
def far(ports):
    """A server, a link to it, and how to reach it."""
    listen, port = ports
    echo = Echo(port)
    with Link(listen, port) as link:
        yield echo, link, lambda: socket.create_connection(("127.0.0.1", listen), SECONDS)
    echo.close()


def asked(connection, what=b"ping"):
    connection.settimeout(SECONDS)
    connection.sendall(what)
    got = b""
    while len(got) < len(what):
        part = connection.recv(1 << 16)
        if not part:
            raise ConnectionError("closed")
        got += part
    return got


@contextmanager
def silence(connection):
    """Nothing may be answered within it."""
    connection.settimeout(0.3)
    with pytest.raises(TimeoutError):
        connection.recv(10)
    yield


def test_a_thin_link_takes_its_time(far):
    _, link, connect = far
    with connect() as connection:
        link.change(LinkShape(bytes_per_second=100_000))
        began = time.monotonic()
        asked(connection, b"x" * 20_000)
        assert time.monotonic() - began >= 0.2


@pytest.mark.parametrize(("way", "heard"), [(Way.THERE, b""), (Way.BACK, b"ping")])
def test_a_silent_way_holds_back_what_arrives_later(far, way, heard):
    echo, link, connect = far
    with connect() as connection:
        link.change(LinkShape(silent=frozenset({way})))
        connection.sendall(b"ping")
        with silence(connection):
            assert echo.heard == heard
        link.change(CLEAR)
        connection.settimeout(SECONDS)
        assert connection.recv(10) == b"ping"


def test_what_was_asked_on_a_connection_that_was_given_up_is_heard_later(far):
    echo, link, connect = far
    with connect() as connection:
        link.change(LinkShape(silent=frozenset(Way)))
        connection.sendall(b"late")
    time.sleep(0.2)
    assert echo.heard == b""
    link.change(CLEAR)
    wait_until(lambda: echo.heard == b"late", "what was asked", SECONDS)


def test_a_cut_is_a_reset_at_both_ends_and_no_orderly_close(far):
    echo, link, connect = far
    with connect() as connection:
        asked(connection)
        link.cut()
        connection.settimeout(SECONDS)
        with pytest.raises(ConnectionResetError):
            connection.recv(10)
    assert echo.ended() == [ConnectionResetError]


def test_a_connection_that_ends_in_silence_is_told_of_when_the_network_is_back(far):
    echo, link, connect = far
    with connect() as connection:
        asked(connection)
        link.change(LinkShape(silent=frozenset(Way)))
    time.sleep(0.3)
    assert echo.ends == []
    link.change(CLEAR)
    assert echo.ended() == ["closed"]


@pytest.mark.parametrize("way", list(Way))
def test_each_way_is_half_of_a_round_trip(far, way):
    echo, link, connect = far
    with connect() as connection:
        asked(connection)
        link.change(LinkShape(round_trip_seconds=0.4))
        here = connection if way is Way.THERE else echo.taken[0]
        began = time.monotonic()
        here.sendall(b"more")
        if way is Way.THERE:
            wait_until(lambda: echo.heard == b"pingmore", "what was sent", SECONDS)
        else:
            assert connection.recv(10) == b"more"
        assert time.monotonic() - began >= 0.2


def test_slices_are_small_and_whole(far):
    echo, link, connect = far
    what = random.Random(1).randbytes(200_000)
    with connect() as connection:
        link.change(LinkShape(round_trip_seconds=0.02, chunk_bytes=100))
        asked(connection)
        assert asked(connection, what) == what
    assert echo.heard == b"ping" + what
    assert link.carried == (len(echo.heard), len(echo.heard))
    assert echo.pieces > 20


@pytest.mark.parametrize("shape", [CLEAR, LinkShape(silent=frozenset(Way)), LinkShape(refuses=True)])
@pytest.mark.parametrize("cuts", [0, 1, 2])
def test_a_link_keeps_nothing_of_connections_that_have_ended(far, shape, cuts):
    _, link, connect = far
    with connect() as one, connect() as other:
        asked(other)
        link.change(shape)
        one.sendall(b"more")
        for _ in range(cuts):
            link.cut()
            time.sleep(0.05)
    link.change(CLEAR)
    wait_until(lambda: not link._tasks and not link._ends, "the ends of both", SECONDS)


def test_a_link_that_refuses_resets_new_connections_alone(far):
    _, link, connect = far
    with connect() as old:
        asked(old)
        link.change(LinkShape(refuses=True))
        with pytest.raises(ConnectionResetError), connect() as connection:
            connection.recv(10)
        assert asked(old) == b"ping"


def frame(key, text=b"text"):
    """A request of Kafka, as far as a link looks; its echo is the answer."""
    return struct.pack(">ih", 2 + len(text), key) + text


@pytest.mark.parametrize("chunk_bytes", [1, 1 << 16])
def test_an_answer_is_swallowed_with_its_connection_and_counted_others_are_not(far, chunk_bytes):
    echo, link, connect = far
    link.change(LinkShape(swallows=frozenset({27}), chunk_bytes=chunk_bytes))
    with connect() as connection:
        assert asked(connection, frame(0) + frame(3)) == frame(0) + frame(3)
        with pytest.raises(ConnectionError):
            asked(connection, frame(27))
    assert echo.heard.startswith(
        frame(0) + frame(3) + frame(27)[:6]
    )  # the echo begins before it has heard all
    wait_until(lambda: link.unanswered == {27: 1}, "its count", SECONDS)
    link.change(CLEAR)
    with connect() as connection:
        assert asked(connection, frame(27)) == frame(27)


def test_a_late_request_arrives_after_its_connection_was_reset(far):
    echo, link, connect = far
    link.change(LinkShape(late=frozenset({27})))
    assert LATE_SECONDS[0] < SECONDS
    with connect() as connection:
        assert asked(connection, frame(0)) == frame(0)
        with pytest.raises(ConnectionError):
            asked(connection, frame(27))
    assert echo.heard == frame(0)
    wait_until(lambda: echo.heard == frame(0) + frame(27), "the late request", SECONDS)
    wait_until(lambda: link.unanswered == {27: 1}, "its count", SECONDS)
