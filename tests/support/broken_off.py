"""A peer that says something and breaks off, both before whoever listens has read any of it."""

import select
import socket
from struct import pack

_WAIT_MS = 120_000


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection; the first does not block."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        far = socket.create_connection(listening.getsockname())
        near, _ = listening.accept()
    near.setblocking(False)
    return near, far


def say_and_break_off(far: socket.socket, near: socket.socket, data: bytes) -> None:
    """Return when the data and the reset behind it have arrived at `near`."""
    far.sendall(data)
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, pack("ii", 1, 0))  # a reset, and not a farewell
    far.close()
    arrived = select.poll()
    arrived.register(near, select.POLLERR)
    assert arrived.poll(_WAIT_MS), "the reset did not arrive"
