"""What the network between a client and a broker does when it is told to."""

import socket
import threading
import time
from contextlib import contextmanager

import pytest

from mmtool.lab.ports import PortReservation
from mmtool.testing.link import CLEAR, Link, LinkShape, Way

SECONDS = 5.0


@pytest.fixture
def ports():
    held = PortReservation()
    yield held.take(), held.take()
    held.release()


class Echo:
    """Answers each byte with itself, and knows what it heard."""

    def __init__(self, port):
        self._listening = socket.create_server(("127.0.0.1", port))
        self.heard = b""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                taken, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(taken,), daemon=True).start()

    def _answer(self, taken):
        try:
            while got := taken.recv(1 << 16):
                self.heard += got
                taken.sendall(got)
        except OSError:
            return

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


def test_a_clear_link_carries_everything(far):
    _, link, connect = far
    what = bytes(range(256)) * 4000
    with connect() as connection:
        assert asked(connection, what) == what
    assert link.carried == (len(what), len(what))


def test_a_far_end_answers_after_a_round_trip(far):
    _, link, connect = far
    with connect() as connection:
        link.change(LinkShape(round_trip_seconds=0.2))
        began = time.monotonic()
        asked(connection)
        assert 0.2 <= time.monotonic() - began < 0.2 + SECONDS


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
    deadline = time.monotonic() + SECONDS
    while echo.heard != b"late" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert echo.heard == b"late"


def test_a_cut_ends_connections_and_new_ones_work(far):
    _, link, connect = far
    with connect() as connection:
        asked(connection)
        link.cut()
        with pytest.raises(ConnectionError):
            asked(connection)
    with connect() as connection:
        assert asked(connection) == b"ping"


def test_a_link_that_refuses_takes_no_new_connection(far):
    _, link, connect = far
    with connect() as old:
        asked(old)
        link.change(LinkShape(refuses=True))
        with pytest.raises(ConnectionError), connect() as connection:
            asked(connection)
        assert asked(old) == b"ping"
