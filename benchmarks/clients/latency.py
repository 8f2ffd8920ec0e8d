"""From one process's send to another one's receive: a record every millisecond, each with the time of its sending.

    python -m benchmarks.clients.latency CLIENT ADDRESS TOPIC COUNT      prints microseconds, as JSON

The consumer is this process, and the producer one that it starts. Both read one clock, the system's monotonic one. The
first records are not counted: while they are sent, the consumer finds its place.
"""

import importlib
import json
import subprocess
import sys
import time
from pathlib import Path
from struct import Struct
from typing import Any, Final

from benchmarks.clients import VALUE

INTERVAL_SECONDS: Final = 0.001
WARM_UP: Final = 500  # records that are not counted
_NOW: Final = Struct(">Q")  # nanoseconds
_REST: Final = VALUE[_NOW.size :]
_REPOSITORY: Final = Path(__file__).parents[2]


def receive(client: str, address: str, topic: str, count: int) -> list[float]:
    """The latencies of `count` records, in microseconds."""
    command = [sys.executable, "-m", "benchmarks.clients.latency", client, address, topic, str(count), "send"]
    latencies = []
    with subprocess.Popen(command, cwd=_REPOSITORY) as producer:
        try:
            for value in _client(client).values(address, topic):
                (sent_at,) = _NOW.unpack_from(value)
                latencies.append((time.monotonic_ns() - sent_at) / 1e3)
                if len(latencies) == count + WARM_UP:
                    break
        finally:
            producer.kill() if len(latencies) < count + WARM_UP else producer.wait()
    return latencies[WARM_UP:]


def send(client: str, address: str, topic: str, count: int) -> None:
    send_value, end = _client(client).sender(address, topic)
    start = time.monotonic()
    for number in range(count + WARM_UP):
        due = start + number * INTERVAL_SECONDS - time.monotonic()
        if due > 0:
            time.sleep(due)
        send_value(_NOW.pack(time.monotonic_ns()) + _REST)
    end()


def _client(name: str) -> Any:
    return importlib.import_module(f"benchmarks.clients.{name}")


if __name__ == "__main__":
    name, where, what, number, *role = sys.argv[1:]
    if role:
        send(name, where, what, int(number))
    else:
        print(json.dumps(receive(name, where, what, int(number))))
