"""A server that acknowledges a record and hands it to the consumer at once: what the client of `latency` costs itself.

    python -m benchmarks.beside_kafka.tail_sink '{"kind": "produce", ...}'    prints its port; ends with its client

A record takes the same way as through a broker, over two connections and back to where it came from, with nothing in
between but a process that wakes up, reads, and writes prebuilt answers. No broker can be faster.
"""

import json
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.beside_kafka.tail_talk import TailTalk
from benchmarks.beside_kafka.workload import ProduceTalk, Workload

_REPOSITORY: Final = Path(__file__).parents[2]


def run_client(workload: Workload) -> list[float]:
    """Latencies in microseconds, by a client in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.beside_kafka.tail_client", workload.to_json()]
    done = subprocess.run(command, cwd=_REPOSITORY, stdout=subprocess.PIPE, check=True)
    return [float(each) for each in json.loads(done.stdout)]


def client_alone(workload: Workload) -> list[float]:
    """The same without a broker."""
    command = [sys.executable, "-m", "benchmarks.beside_kafka.tail_sink", workload.to_json()]
    with subprocess.Popen(command, cwd=_REPOSITORY, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            return run_client(replace(workload, port=int(process.stdout.readline())))
        finally:
            process.terminate()  # it has ended by itself, unless the client did not get that far


def _serve(workload: Workload) -> None:
    """One client, until it hangs up."""
    acknowledged, fetched = ProduceTalk(workload, partition=0), TailTalk(workload)
    record, request = bytearray(acknowledged.request_bytes), bytearray(fetched.request_bytes)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        producer, consumer = (listening.accept()[0] for _ in range(2))
    for sock in (producer, consumer):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while consumer.recv_into(request, 0, socket.MSG_WAITALL) and producer.recv_into(record, 0, socket.MSG_WAITALL):
        consumer.sendall(fetched.answer)
        producer.sendall(acknowledged.answers(1))
        fetched.take(fetched.answer)


if __name__ == "__main__":
    _serve(Workload.from_json(sys.argv[1]))
