"""A cluster that is gone, as its clients see it: an address that never answers, and one that refuses."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self


class BlackHole:
    """Two addresses on loopback. A context manager.

    Attributes:
        attempts: How many connections were made to the one that listens.
    """

    def __init__(self) -> None:
        self._silent, self._refusing = (_bound() for _ in range(2))
        self._silent.listen()
        self._taken: list[socket.socket] = []
        self._thread = threading.Thread(target=self._take, name="black hole", daemon=True)

    @property
    def bootstrap(self) -> str:
        """Both, as ``bootstrap.servers``."""
        return ",".join("127.0.0.1:{1}".format(*one.getsockname()) for one in (self._silent, self._refusing))

    @property
    def attempts(self) -> int:
        return len(self._taken)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._silent, self._refusing, *self._taken):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _take(self) -> None:
        with suppress(OSError):
            while True:
                taken, _ = self._silent.accept()
                self._taken.append(taken)


def _bound() -> socket.socket:
    """A port of its own; nobody else gets it while this is open, and who connects without `listen` is refused."""
    one = socket.socket()
    one.bind(("127.0.0.1", 0))
    return one


class SilentAddress:
    """An address of loopback on which no connection is ever accepted: its queue is full. A context manager."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)

    def __enter__(self) -> Self:
        self._sockets = [socket.socket()]
        self._sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._sockets[0].bind(self._address)
        self._sockets[0].listen(0)
        for _ in range(3):
            waiting = socket.socket()
            waiting.setblocking(False)
            waiting.connect_ex(self._address)
            self._sockets.append(waiting)
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._sockets:
            one.close()
