"""Ports of the lab stay its own, also while nothing listens on them."""

import socket
import subprocess
import sys

import pytest

from mmtool.lab.ports import PortReservation


@pytest.fixture
def ports():
    reservation = PortReservation()
    yield reservation
    reservation.release()


def test_no_port_is_given_twice(ports):
    other = PortReservation()
    given = [reservation.take() for _ in range(20) for reservation in (ports, other)]
    other.release()
    assert len(set(given)) == 40


def test_a_port_can_be_listened_on(ports):
    with socket.socket() as server:
        server.bind(("127.0.0.1", ports.take()))
        server.listen()


def test_another_process_does_not_get_a_reserved_port(ports):
    code = f"from mmtool.lab.ports import PortReservation; print(PortReservation().keep({ports.take()}))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


def test_a_port_that_somebody_listens_on_is_not_taken(ports):
    port = ports.take()
    ports.release()
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", port))
        stranger.listen()
        assert not ports.keep(port)


def test_asking_again_for_an_own_port_does_not_lose_it(ports):
    port, other = ports.take(), PortReservation()
    assert (ports.keep(port), other.keep(port)) == (False, False)


def test_a_released_port_can_be_kept_again(ports):
    port = ports.take()
    ports.release()
    assert ports.keep(port)
