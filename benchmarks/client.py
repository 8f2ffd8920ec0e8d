"""Our client beside those that people use with Python, all against one Headrace broker, in one run.

    python -m benchmarks client             about two minutes
    python -m benchmarks client --quick     the same with less of everything, within half a minute

Clients take turns, each in a process of its own, with values of 100 bytes and one partition. Ratios are those of each
round, since a round sees one and the same machine.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count as count_up
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple, TypeVar

from benchmarks.beside_kafka.nodes import Headrace, Node
from benchmarks.beside_kafka.topics import create_topic, delete_topic, end_offsets
from benchmarks.clients import WrongCountError
from benchmarks.clients.latency import INTERVAL_SECONDS
from benchmarks.figures import Figure

IMPORT_GOAL_MS: Final = 120
_REPOSITORY: Final = Path(__file__).parents[1]
_NAMES: Final = {"ours": "headrace", "confluent": "confluent-kafka", "aio": "aiokafka", "kafka_python": "kafka-python"}
_OURS, _CONFLUENT = "ours", "confluent"
_SLOW: Final = ("aio", "kafka_python")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Effort:
    rounds: int
    records: int
    few_records: int  # for clients that need a second for these
    latencies: int
    imports: int


FULL: Final = Effort(rounds=5, records=1_000_000, few_records=60_000, latencies=3_000, imports=9)
QUICK: Final = Effort(rounds=1, records=300_000, few_records=20_000, latencies=1_000, imports=3)


def run() -> list[Figure]:
    return measure(FULL)


def run_quick() -> list[Figure]:
    return measure(QUICK)


def measure(effort: Effort) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory, Headrace(Path(directory) / "node") as node:
        stage = Stage(node)
        return [
            *_columns(stage, effort),
            *_producers(stage, effort),
            *_consumers(stage, effort),
            _latency(stage, effort),
            _import(effort),
        ]


class Rate(NamedTuple):
    """What a client reached, and what each record cost it, which holds when others use the machine."""

    per_second: float
    cpu_us: float


class Stage:
    """The broker, and how a client gets its work done there."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._numbers = count_up()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._node.port}"

    @contextmanager
    def topic(self) -> Iterator[str]:
        """A new one; it is gone at the end."""
        name = f"clients-{next(self._numbers)}"
        create_topic(self._node, name, 1)
        yield name
        delete_topic(self._node, name)

    def produced(self, client: str, work: str, records: int) -> "Rate":
        """Into a new topic, where all of them are then."""
        with self.topic() as topic:
            rate = self.rate(client, work, topic, records)
            if end_offsets(self._node, topic, 1) != [records]:
                raise WrongCountError(f"{client} wrote {records} records, and not all of them are there")
        return rate

    def rate(self, client: str, work: str, topic: str, records: int) -> "Rate":
        seconds, cpu_seconds = self._run("benchmarks.clients", client, work, self.address, topic, str(records))
        return Rate(records / seconds, cpu_seconds / records * 1e6)

    def latency_us(self, client: str, records: int) -> float:
        """The median."""
        with self.topic() as topic:
            return float(median(self._run("benchmarks.clients.latency", client, self.address, topic, str(records))))

    def _run(self, *command: str) -> Any:
        with self._node.explaining():
            done = subprocess.run([sys.executable, "-m", *command], cwd=_REPOSITORY, stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout)


# What is measured


def _columns(stage: Stage, effort: Effort) -> Iterable[Figure]:
    """Tables beside records, of the client that moves records fastest."""
    records = effort.records
    written = _turns(
        effort,
        {
            _OURS: lambda: stage.produced("ours_arrow", "write", records),
            _CONFLUENT: lambda: stage.produced(_CONFLUENT, "produce", records),
        },
    )
    with stage.topic() as topic:
        stage.rate(_CONFLUENT, "produce", topic, records)
        read = _turns(
            effort,
            {
                _OURS: lambda: stage.rate("ours_arrow", "read", topic, records),
                _CONFLUENT: lambda: stage.rate(_CONFLUENT, "consume_many", topic, records),
            },
        )
    yield _rates("arrow.write", written, _CONFLUENT, goal=2.0)
    yield _rates("arrow.read", read, _CONFLUENT, goal=1.5, note="beside consume(10_000)")


def _producers(stage: Stage, effort: Effort) -> Iterable[Figure]:
    def produce(client: str) -> Callable[[], Rate]:
        return lambda: stage.produced(client, "produce", _records(effort, client))

    rates = _turns(effort, {client: produce(client) for client in _NAMES})
    for client in _SLOW:
        yield _rates("producer, one record at a time", rates, client, goal=4.0)
    yield _rates("producer, one record at a time", rates, _CONFLUENT, goal=0.35)


def _consumers(stage: Stage, effort: Effort) -> Iterable[Figure]:
    with stage.topic() as topic:
        stage.rate(_CONFLUENT, "produce", topic, effort.records)

        def consume(client: str, work: str = "consume") -> Callable[[], Rate]:
            return lambda: stage.rate(client, work, topic, _records(effort, client))

        many = "many"
        works = {client: consume(client) for client in _NAMES} | {many: consume(_CONFLUENT, "consume_many")}
        rates = _turns(effort, works)
    for client in _SLOW:
        yield _rates("consumer, one record at a time", rates, client, goal=4.0)
    yield _rates("consumer, one record at a time", rates, _CONFLUENT, goal=0.5, note="beside poll()")
    at_once = {_OURS: rates[_OURS], _CONFLUENT: rates[many]}
    yield _rates("consumer, one record at a time", at_once, _CONFLUENT, goal=None, note="beside consume(10_000)")


def _latency(stage: Stage, effort: Effort) -> Figure:
    def wait(client: str) -> Callable[[], float]:
        return lambda: stage.latency_us(client, effort.latencies)

    medians = _turns(effort, {client: wait(client) for client in (_OURS, _CONFLUENT)})
    return Figure.beside(
        f"end to end at {1 / INTERVAL_SECONDS:,.0f}/s, p50",
        "us",
        medians[_OURS],
        medians[_CONFLUENT],
        goal=1.5,
        at_most=True,
        note="linger.ms=0",
        peer_name=_NAMES[_CONFLUENT],
    )


def _import(effort: Effort) -> Figure:
    """The best of several times, since noise only ever adds; the first is for byte code and the disk's cache."""
    script = (
        "import sys, time; start, cpu = time.perf_counter(), time.process_time()\n"
        "import headrace; headrace.Producer('127.0.0.1:9')\n"
        "print((time.perf_counter() - start) * 1000, (time.process_time() - cpu) * 1000)\n"
        "assert 'pyarrow' not in sys.modules, 'pyarrow was loaded'"
    )
    found = []
    for _ in range(effort.imports + 1):
        # Without an environment: byte code is kept, as for every installed program.
        done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True, env={})
        found.append([float(number) for number in done.stdout.split()])
    wall_ms, cpu_ms = (min(numbers) for numbers in zip(*found[1:], strict=True))
    name = "import of headrace, with a producer created"
    return Figure(name, wall_ms, "ms", IMPORT_GOAL_MS, note=f"CPU {cpu_ms:.0f} ms")


# How


def _records(effort: Effort, client: str) -> int:
    return effort.few_records if client in _SLOW else effort.records


def _turns(effort: Effort, works: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
    """What each found, in the order of the rounds."""
    results: dict[str, list[T]] = {name: [] for name in works}
    for _ in range(effort.rounds):
        for name, work in works.items():
            results[name].append(work())
    return results


def _rates(name: str, results: Mapping[str, list[Rate]], peer: str, *, goal: float | None, note: str = "") -> Figure:
    sides = (results[_OURS], results[peer])
    cpu = " : ".join(f"{min(rate.cpu_us for rate in side):.2g}" for side in sides)
    return Figure.beside(
        name,
        "records/s",
        *([rate.per_second for rate in side] for side in sides),
        goal=goal,
        note=f"{note}{'; ' if note else ''}CPU {cpu} us/record",
        peer_name=_NAMES[peer],
    )
