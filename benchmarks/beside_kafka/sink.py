"""A server that answers a workload rightly and does nothing else: how fast the load generator is when nobody is slow.

    python -m benchmarks.beside_kafka.sink '{"kind": "produce", ...}'    prints its port; ends with its standard input

It counts bytes that the kernel throws away, and sends prebuilt answers. What the generator reaches here is the most
that it can measure. Large answers are sent by a thread for each connection: `sendfile` leaves the interpreter to the
others, so that a single sender is not what limits the generator.
"""

import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.beside_kafka.load import Load, run_load
from benchmarks.beside_kafka.workload import Workload

_REPOSITORY: Final = Path(__file__).parents[2]
_BUFFER_BYTES: Final = 1 << 20


def generator_alone(workload: Workload) -> Load:
    """The load that the generator makes against a sink."""
    with _running_sink(workload) as port:
        return run_load(replace(workload, port=port))


@contextmanager
def _running_sink(workload: Workload) -> Iterator[int]:
    command = [sys.executable, "-m", "benchmarks.beside_kafka.sink", workload.to_json()]
    with subprocess.Popen(command, cwd=_REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.stdin.close()


class _Peer:
    """One connection of the generator; partitions are given in the order of their connections."""

    def __init__(self, sock: socket.socket, workload: Workload, partition: int) -> None:
        self.sock = sock
        self._talk = workload.talk(partition)
        self._received = 0
        self._file = -1  # of a large answer

    @property
    def has_large_answers(self) -> bool:
        return self._talk.rest_bytes > 0

    def serve(self) -> None:
        """Until it hangs up; for a thread of its own."""
        buffer = bytearray(_BUFFER_BYTES)
        while self.receive(buffer):
            pass

    def receive(self, buffer: bytearray) -> bool:
        """Read once, and answer the requests that are whole by that. False at the end."""
        size = self.sock.recv_into(buffer, flags=socket.MSG_TRUNC)
        count, self._received = divmod(self._received + size, self._talk.request_bytes)
        if count and self._talk.rest_bytes:
            self._send_large(count)
        elif count:
            self.sock.sendall(self._talk.answers(count))
        return size > 0

    def _send_large(self, count: int) -> None:
        """As a broker does: what is behind the head comes from a file, and is not copied."""
        head_bytes, rest_bytes = self._talk.head_bytes, self._talk.rest_bytes
        for _ in range(count):
            answer = self._talk.answers(1)
            if self._file < 0:
                self._file = os.memfd_create("answer")
                os.write(self._file, answer)
            self.sock.sendall(memoryview(answer)[:head_bytes], socket.MSG_MORE)
            sent = 0
            while sent < rest_bytes:
                sent += os.sendfile(self.sock.fileno(), self._file, head_bytes + sent, rest_bytes - sent)


def _serve(workload: Workload) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    poll = select.epoll()
    poll.register(listening, select.EPOLLIN)
    poll.register(sys.stdin, select.EPOLLIN)
    peers: dict[int, _Peer] = {}
    buffer = bytearray(_BUFFER_BYTES)
    while True:
        for fd, _ in poll.poll():
            if fd == sys.stdin.fileno():
                return
            if fd == listening.fileno():
                sock, _ = listening.accept()
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peer = peers[sock.fileno()] = _Peer(sock, workload, len(peers))
                if peer.has_large_answers:
                    threading.Thread(target=peer.serve, daemon=True).start()
                else:
                    poll.register(sock, select.EPOLLIN)
            elif not peers[fd].receive(buffer):
                poll.unregister(fd)


if __name__ == "__main__":
    _serve(Workload.from_json(sys.argv[1]))
