"""A producer that sends on time, and a consumer that always has a fetch waiting at the broker: how long records travel.

    python -m benchmarks.beside_kafka.tail_client '{"port": ...}'    a Workload; prints microseconds; both are JSON

One thread does both ends, so one clock measures. Records are sent when they are due, whether or not those before have
arrived: a broker that stalls is seen with all that it holds up. The client's own work is part of what is measured, so
it is little: requests are prebuilt, answers are compared, and garbage is not collected meanwhile.
"""

import gc
import json
import select
import socket
import sys
import time
from collections import deque
from struct import Struct
from typing import Final

from benchmarks.beside_kafka.tail_talk import MAX_BYTES, TailTalk
from benchmarks.beside_kafka.workload import ProduceTalk, Workload, WrongAnswerError

INTERVAL_SECONDS: Final = 0.001
WARM_UP_RECORDS: Final = 1000  # of each round, not counted: connections, and the first record's search
SILENCE_SECONDS: Final = 60
_SIZE: Final = Struct(">i")
_TIMEVAL: Final = Struct("@ll")


class TailClient:
    """Its producer connects first, which a sink must know."""

    def __init__(self, workload: Workload, *, warm_up_records: int = WARM_UP_RECORDS) -> None:
        self._acknowledged = ProduceTalk(workload, partition=0)
        self._fetched = TailTalk(workload)
        self._producer = _connected(workload.port)
        self._consumer = _connected(workload.port)
        self._warm_up_records = warm_up_records
        self._count = warm_up_records + round(workload.seconds / INTERVAL_SECONDS)
        self._record = self._acknowledged.requests(1)
        self._acknowledgement = bytearray(self._acknowledged.head_bytes)
        self._sent_at: deque[float] = deque()
        self._latencies: list[float] = []

    def run(self) -> list[float]:
        """Microseconds from a record's send to its receipt. Raises WrongAnswerError, OSError."""
        gc.collect()
        gc.disable()
        try:
            self._run()
        finally:
            gc.enable()
            self._producer.close()
            self._consumer.close()
        return [seconds * 1e6 for seconds in self._latencies[self._warm_up_records :]]

    def _run(self) -> None:
        producer, consumer, latencies = self._producer, self._consumer, self._latencies
        clock, sockets = time.perf_counter, [producer, consumer]
        consumer.sendall(self._fetched.request)
        start = clock()
        sent = 0
        while len(latencies) < self._count:
            due = start + sent * INTERVAL_SECONDS - clock() if sent < self._count else SILENCE_SECONDS
            if due <= 0:
                self._sent_at.append(clock())
                producer.sendall(self._record)
                sent += 1
                continue
            readable, _, _ = select.select(sockets, (), (), due)  # epoll would count in milliseconds
            if consumer in readable:
                self._receive()
            if producer in readable:
                self._hear()
            if not readable and sent == self._count:
                raise WrongAnswerError(f"{self._count - len(latencies)} records did not arrive within a minute")

    def _hear(self) -> None:
        """One acknowledgement, which must be the next one."""
        size = self._producer.recv_into(self._acknowledgement, 0, socket.MSG_WAITALL)
        if size < len(self._acknowledgement):
            raise WrongAnswerError("the broker closed the producer's connection")
        self._acknowledged.check(self._acknowledgement, 0)

    def _receive(self) -> None:
        """An answer to a fetch; the next one is on its way before its records are counted."""
        answer = self._consumer.recv(MAX_BYTES)
        now = time.perf_counter()
        if answer != self._fetched.answer:
            answer = self._whole(answer)
            now = time.perf_counter()
        count = self._fetched.take(answer)
        self._consumer.sendall(self._fetched.request)
        for _ in range(count):
            self._latencies.append(now - self._sent_at.popleft())

    def _whole(self, beginning: bytes) -> bytes:
        """The frame that begins so; nothing follows it, since one fetch at a time is asked."""
        answer = self._filled(beginning, _SIZE.size)
        return self._filled(answer, _SIZE.size + _SIZE.unpack_from(answer)[0])

    def _filled(self, data: bytes, size: int) -> bytes:
        if len(data) < size:
            data += self._consumer.recv(size - len(data), socket.MSG_WAITALL)
        if len(data) < size:
            raise WrongAnswerError("the broker closed the consumer's connection")
        return data


def _connected(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A time-out of Python's own would be another system call before each.
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, option, _TIMEVAL.pack(SILENCE_SECONDS, 0))
    return sock


if __name__ == "__main__":
    print(json.dumps(TailClient(Workload.from_json(sys.argv[1])).run()))
