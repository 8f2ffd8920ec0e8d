"""What a broker takes before and beside its work: the time to start, and memory."""

import resource
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.beside_kafka.contest import Contest, Effort
from benchmarks.beside_kafka.nodes import Node
from benchmarks.beside_kafka.topics import await_partitions, create_topic
from benchmarks.figures import Figure
from headrace.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.wire_client import WireClient

IDLE_CONNECTIONS: Final = 1000
TOPIC_PARTITIONS: Final = 1000  # what one request may create
TRAFFIC_BYTES: Final = 10 << 30
_API_VERSIONS: Final = 3
_FEW: Final = 100  # connections that come first, and pay for what all share

MakeNode = Callable[[Path], Node]


# Memory of brokers that run


def idle(contest: Contest) -> list[Figure]:
    """Right after the start, and with many connections that have said hello and fallen silent."""
    before = [node.memory_bytes() / 1e6 for node in contest.nodes]
    each = [_bytes_per_connection(node) / 1e3 for node in contest.nodes]
    return [
        _figure("resident memory, idle", "MB", before, goal=45),
        _figure(f"resident memory per idle connection, of {IDLE_CONNECTIONS:,}", "KB", each, goal=12),
    ]


def _bytes_per_connection(node: Node) -> float:
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(files, 2 * IDLE_CONNECTIONS), most))
    with _connected(node, _FEW):
        before = node.memory_bytes()
        with _connected(node, IDLE_CONNECTIONS):
            return (node.memory_bytes() - before) / IDLE_CONNECTIONS


@contextmanager
def _connected(node: Node, count: int) -> Iterator[None]:
    connections = [WireClient(("127.0.0.1", node.port)) for _ in range(count)]
    try:
        for connection in connections:
            connection.ask("ApiVersions", _API_VERSIONS, ApiVersionsRequest("benchmark", "1"))
        yield
    finally:
        for connection in connections:
            connection.close()


def after_traffic(contest: Contest) -> Figure:
    """The processes that all of the load went through."""
    traffic = contest.nodes[0].traffic_bytes
    name = f"resident memory after {traffic / 1e9:.0f} GB of traffic"
    is_enough = traffic >= TRAFFIC_BYTES
    sizes = [node.memory_bytes() / 1e6 for node in contest.nodes]
    note = "" if is_enough else f"the goal is for {TRAFFIC_BYTES / 1e9:.0f} GB"
    return _figure(name, "MB", sizes, goal=80 if is_enough else None, note=note)


# Starting


def starts(make_nodes: Sequence[MakeNode], directory: Path, effort: Effort) -> list[Figure]:
    """On an empty directory, and on one with many partitions; and what each partition takes of memory."""
    empty = [_empty_starts(make, directory / f"empty-{place}", effort.starts) for place, make in enumerate(make_nodes)]
    crowded = [_crowded(make, directory / f"crowded-{place}", effort) for place, make in enumerate(make_nodes)]
    is_full = effort.partitions >= 10_000
    of_many = f"{effort.partitions:,} partitions"
    memory = [each.bytes_per_partition / 1e3 for each in crowded]
    return [
        _start_figure("start, empty", empty, goal=0.35),
        _start_figure(f"start, {of_many}", [each.start for each in crowded], goal=2.0 if is_full else None),
        _figure(f"resident memory per partition, of {of_many}", "KB", memory, goal=4 if is_full else None),
    ]


class _Start(NamedTuple):
    """From the start of the process until it has answered; the best of several, since noise only ever adds."""

    seconds: float
    cpu_seconds: float


class _Crowded(NamedTuple):
    start: _Start
    bytes_per_partition: float


def _start(node: Node) -> _Start:
    return _Start(node.start(), node.cpu_seconds())


def _best(starts: Sequence[_Start]) -> _Start:
    return _Start(min(each.seconds for each in starts), min(each.cpu_seconds for each in starts))


def _start_figure(name: str, starts: Sequence[_Start], *, goal: float | None) -> Figure:
    cpu = " : ".join(f"{each.cpu_seconds:.2f}" for each in starts)
    return _figure(name, "s", [each.seconds for each in starts], goal=goal, note=f"CPU {cpu} s")


def _empty_starts(make_node: MakeNode, directory: Path, count: int) -> _Start:
    """The first one is for byte code and the disk's cache."""
    found = []
    for _ in range(count + 1):
        node = make_node(directory)
        found.append(_start(node))
        node.kill()
        shutil.rmtree(directory)
    return _best(found[1:])


def _crowded(make_node: MakeNode, directory: Path, effort: Effort) -> _Crowded:
    """Starts after a clean stop; and what a partition takes of memory, when all are open."""
    node = make_node(directory)
    try:
        node.start()
        empty_bytes = node.memory_bytes()
        topics = [f"many-{number}" for number in range(effort.partitions // TOPIC_PARTITIONS)]
        for topic in topics:
            create_topic(node, topic, TOPIC_PARTITIONS)
        found = []
        for _ in range(1 if node.needs_warm_up else effort.starts):  # one takes Apache Kafka half a minute
            node.stop()
            found.append(_start(node))
        for topic in topics:
            await_partitions(node, topic, TOPIC_PARTITIONS)
        size_bytes = node.memory_bytes() - empty_bytes
    finally:
        node.kill()
    shutil.rmtree(directory)
    return _Crowded(_best(found), size_bytes / effort.partitions)


def _figure(name: str, unit: str, values: Sequence[float], *, goal: float | None, note: str = "") -> Figure:
    """Headrace's value, and Apache Kafka's for information."""
    return Figure.beside(name, unit, values[:1], values[1:], goal=goal, at_most=True, is_ratio_goal=False, note=note)
