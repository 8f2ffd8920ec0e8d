"""The load generator: a process that keeps requests on their way over many connections, and checks every answer.

    python -m benchmarks.beside_kafka.load '{"kind": "produce", ...}'    a Workload; prints a Load; both are JSON

It must not be what is measured. So requests are built before the first is sent, answers are compared with prebuilt
ones, what came in one read is answered by one write, and it tells how much of its time it was busy.
"""

import contextlib
import json
import select
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.beside_kafka.workload import Workload, WrongAnswerError

SILENCE_SECONDS: Final = 60.0  # without any answer: the broker hangs
_BUFFER_BYTES: Final = 1 << 20
_REPOSITORY: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Load:
    """What was answered in the time measured, and how long the generator itself was at work."""

    requests: int
    seconds: float
    cpu_seconds: float
    batch_bytes: int

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds

    @property
    def busy(self) -> float:
        """How much of a core the generator used."""
        return self.cpu_seconds / self.seconds

    @property
    def mb_per_second(self) -> float:
        return self.per_second * self.batch_bytes / 1e6


def run_load(workload: Workload) -> Load:
    """In a process of its own. Raises subprocess.CalledProcessError, with what it said on the screen."""
    command = [sys.executable, "-m", "benchmarks.beside_kafka.load", workload.to_json()]
    done = subprocess.run(command, cwd=_REPOSITORY, stdout=subprocess.PIPE, check=True)
    return Load(**json.loads(done.stdout))


class _Connection:
    """One socket and what is said over it. The kernel's buffers may take only a part of a large request."""

    def __init__(self, workload: Workload, partition: int, poll: select.epoll) -> None:
        self._talk = workload.talk(partition)
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._unsent = memoryview(b"")
        self._poll = poll
        self.outstanding = 0
        self.left = workload.requests or sys.maxsize  # that may still be sent
        self.sock = socket.create_connection(("127.0.0.1", workload.port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        poll.register(self.sock, select.EPOLLIN)

    def ask(self, count: int) -> None:
        """Send so many more requests, if they are not too many."""
        count = min(count, self.left)
        if not count:
            return
        self.left -= count
        self.outstanding += count
        requests = self._talk.requests(count)
        if self._unsent:
            self._unsent = memoryview(b"".join((self._unsent, requests)))
            return
        self._unsent = requests
        if not self._send():
            self._poll.modify(self.sock, select.EPOLLIN | select.EPOLLOUT)

    def go_on(self) -> None:
        """The socket takes more."""
        if self._send():
            self._poll.modify(self.sock, select.EPOLLIN)

    def _send(self) -> bool:
        """What the socket takes; was that all?"""
        with contextlib.suppress(BlockingIOError):
            self._unsent = self._unsent[self.sock.send(self._unsent) :]
        return not self._unsent

    def receive(self) -> int:
        """Read once; how many answers are complete by that. Raises WrongAnswerError."""
        return self._receive_part() if self._talk.rest_bytes else self._receive_many()

    def _receive_many(self) -> int:
        """Small answers: as many as have come."""
        filled = self._filled + self._read(self._view[self._filled :])
        size, at, count = self._talk.head_bytes, 0, 0
        while filled - at >= size:
            self._talk.check(self._buffer, at)
            at += size
            count += 1
        self._filled = filled - at
        if at and self._filled:
            self._view[: self._filled] = self._view[at:filled]
        self.outstanding -= count
        return count

    def _receive_part(self) -> int:
        """A large answer: its head, which is checked, or some of the rest, which nobody wants."""
        head_bytes, rest_bytes = self._talk.head_bytes, self._talk.rest_bytes
        if self._filled < head_bytes:
            self._filled += self._read(self._view[self._filled : head_bytes])
            if self._filled == head_bytes:
                self._talk.check(self._buffer, 0)
            return 0
        size = min(head_bytes + rest_bytes - self._filled, len(self._view))
        self._filled += self._read(self._view[:size], socket.MSG_TRUNC)
        if self._filled < head_bytes + rest_bytes:
            return 0
        self._filled = 0
        self.outstanding -= 1
        return 1

    def _read(self, space: memoryview, flags: int = 0) -> int:
        size = self.sock.recv_into(space, flags=flags)
        if not size:
            raise WrongAnswerError("the broker closed the connection")
        return size


class Generator:
    """Runs a workload once, in this process."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._poll = select.epoll()
        connections = [_Connection(workload, partition, self._poll) for partition in range(workload.connections)]
        self._connections = {connection.sock.fileno(): connection for connection in connections}
        self._answered = 0

    def run(self) -> Load:
        """Raises WrongAnswerError, OSError."""
        try:
            return self._run()
        finally:
            for connection in self._connections.values():
                connection.sock.close()
            self._poll.close()

    def _run(self) -> Load:
        cpu_start, start = time.process_time(), time.perf_counter()
        end = start + self._workload.seconds if self._workload.seconds else float("inf")
        for connection in self._connections.values():
            connection.ask(self._workload.in_flight)
        now = start
        while now < end and self._is_waiting:
            self._turn()
            now = time.perf_counter()
        load = Load(self._answered, now - start, time.process_time() - cpu_start, self._workload.batch_bytes)
        for connection in self._connections.values():
            connection.left = 0
        while self._is_waiting:  # what is still on its way is checked, too, but not counted
            self._turn()
        return load

    @property
    def _is_waiting(self) -> bool:
        return any(connection.outstanding for connection in self._connections.values())

    def _turn(self) -> None:
        events = self._poll.poll(SILENCE_SECONDS)
        if not events:
            raise WrongAnswerError(f"no answer within {SILENCE_SECONDS:.0f} s")
        for fd, event in events:
            connection = self._connections[fd]
            if event & select.EPOLLOUT:
                connection.go_on()
            if event & ~select.EPOLLOUT:
                count = connection.receive()
                self._answered += count
                connection.ask(count)


if __name__ == "__main__":
    print(json.dumps(asdict(Generator(Workload.from_json(sys.argv[1])).run())))
