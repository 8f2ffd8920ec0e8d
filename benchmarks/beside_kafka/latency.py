"""From the producer's send to the consumer's receive: one record every millisecond, one consumer that waits for it.

    python -m benchmarks.beside_kafka.latency '{"port": ...}'    a Workload; prints microseconds; both are JSON

One thread does both ends, so one clock measures. Records are sent when they are due, whether or not those before have
arrived: a broker that stalls is seen with all that it holds up. The client is the same for both brokers, and its own
work, some tens of microseconds, is part of what is measured.
"""

import json
import select
import subprocess
import sys
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from statistics import quantiles
from typing import Final

from benchmarks.beside_kafka.contest import Contest
from benchmarks.beside_kafka.nodes import Node
from benchmarks.beside_kafka.topics import create_topic, delete_topic
from benchmarks.beside_kafka.workload import FETCH_VERSION, ProduceTalk, Workload, WrongAnswerError
from benchmarks.figures import Figure
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.protocol.records import iter_batches
from tests.support.wire_client import WireClient

INTERVAL_SECONDS: Final = 0.001
WARM_UP_RECORDS: Final = 1000  # of each round, not counted: connections, and the first record's search
_MAX_BYTES: Final = 1 << 20
_REPOSITORY: Final = Path(__file__).parents[2]


def end_to_end(contest: Contest) -> list[Figure]:
    """The median of the rounds' medians, and of their 99th percentiles."""
    effort = contest.effort
    contest.take_turns(1, lambda node: _measure(node, effort.warm_up_seconds if node.needs_warm_up else 1.0))
    rounds = contest.take_turns(effort.rounds, lambda node: _measure(node, effort.seconds))
    figures = []
    for percent, goal in ((50, 0.5), (99, 0.2)):
        ours, kafkas = ([quantiles(found, n=100)[percent - 1] for found in turns] for turns in rounds)
        name = f"end to end at {1 / INTERVAL_SECONDS:,.0f}/s, p{percent}"
        figures.append(Figure.beside(name, "us", ours, kafkas, goal=goal, at_most=True))
    return figures


def _measure(node: Node, seconds: float) -> list[float]:
    """Latencies in microseconds, by a client in a process of its own."""
    workload = Workload("produce", batch_bytes=200, connections=1, in_flight=1, topic="latency", seconds=seconds)
    topic_id = create_topic(node, workload.topic, 1)
    arguments = replace(workload, port=node.port, topic_id=topic_id).to_json()
    command = [sys.executable, "-m", "benchmarks.beside_kafka.latency", arguments]
    done = subprocess.run(command, cwd=_REPOSITORY, stdout=subprocess.PIPE, check=True)
    delete_topic(node, workload.topic)
    return [float(each) for each in json.loads(done.stdout)]


class _Client:
    """A producer that sends on time, and a consumer that always has a fetch waiting at the broker."""

    def __init__(self, workload: Workload) -> None:
        self._talk = ProduceTalk(workload, partition=0)
        self._topic_id = bytes.fromhex(workload.topic_id)
        self._producer = WireClient(("127.0.0.1", workload.port))
        self._consumer = WireClient(("127.0.0.1", workload.port))
        self._batch_bytes = workload.batch_bytes
        self._count = WARM_UP_RECORDS + round(workload.seconds / INTERVAL_SECONDS)
        self._sent_at: deque[float] = deque()
        self._next_offset = 0
        self._fetch_id = 0
        self._answer = bytearray(self._talk.head_bytes)

    def run(self) -> list[float]:
        """Raises WrongAnswerError."""
        latencies: list[float] = []
        self._fetch()
        start = time.perf_counter()
        sent = 0
        while len(latencies) < self._count:
            due = start + sent * INTERVAL_SECONDS - time.perf_counter() if sent < self._count else 60.0
            if due <= 0:
                self._send()
                sent += 1
                continue
            readable, _, _ = select.select([self._producer.sock, self._consumer.sock], [], [], due)
            if self._consumer.sock in readable:
                latencies += self._receive()
            if self._producer.sock in readable:
                self._hear()
            if not readable and sent == self._count:
                raise WrongAnswerError(f"{self._count - len(latencies)} records did not arrive within a minute")
        return [latency * 1e6 for latency in latencies[WARM_UP_RECORDS:]]

    def _send(self) -> None:
        self._sent_at.append(time.perf_counter())
        self._producer.sock.sendall(self._talk.requests(1))

    def _hear(self) -> None:
        """One acknowledgement, which must be the next one."""
        view, size = memoryview(self._answer), 0
        while size < len(view):
            size += self._producer.sock.recv_into(view[size:])
        self._talk.check(self._answer, 0)

    def _fetch(self) -> None:
        rows = [FetchPartition(0, fetch_offset=self._next_offset, partition_max_bytes=_MAX_BYTES)]
        topics = [FetchTopic(topic_id=self._topic_id, partitions=rows)]
        request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=_MAX_BYTES, topics=topics)
        self._fetch_id = self._consumer.send("Fetch", FETCH_VERSION, request)

    def _receive(self) -> list[float]:
        """The latencies of the records that a fetch brought. The next fetch is on its way before they are counted."""
        response = self._consumer.receive("Fetch", FETCH_VERSION, self._fetch_id)
        now = time.perf_counter()
        (topic,) = response.responses
        (row,) = topic.partitions
        if response.error_code or row.error_code:
            raise WrongAnswerError(f"a fetch failed: {response.error_code}, {row.error_code}")
        first_offset = self._next_offset
        offsets = [header.base_offset for _, header in iter_batches(row.records)]
        self._next_offset += len(offsets)
        self._fetch()
        if offsets != list(range(first_offset, self._next_offset)):
            raise WrongAnswerError(f"offsets {offsets}, and {first_offset} was due")
        return [now - self._sent_at.popleft() for _ in offsets]


if __name__ == "__main__":
    print(json.dumps(_Client(Workload.from_json(sys.argv[1])).run()))
