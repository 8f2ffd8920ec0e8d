"""How large it may get: many connections, many partitions, one huge message, a consumer that is far behind, compaction.

    python -m benchmarks sizes             about ten minutes, and 11 GB of disk for a while
    python -m benchmarks sizes --quick     a tenth of everything, within a minute

Beside each, what somebody else who uses the broker meanwhile has to wait at most: a small request every few
milliseconds, from a process of its own.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.bystander import Bystander
from benchmarks.figures import Figure
from headrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.protocol.messages.metadata import MetadataRequest
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.protocol.records import NewRecord, build_batch
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_tools import REPOSITORY
from tests.support.waiting import wait_until
from tests.support.wire_client import WireClient

MB: Final = 1 << 20
IDLE_GOAL_MB: Final = 80.0  # what a broker may take after any amount of traffic
_CACHE: Final = REPOSITORY / ".cache"  # on the disk, which a temporary directory is not everywhere
_NOW_MS: Final = 1_700_000_000_000
_ROWS_PER_REQUEST: Final = 200
_FETCH_BYTES: Final = 8 * MB
_RECORDS_PER_BATCH: Final = 5000
_BACKOFF_MS: Final = 30_000


class Effort(NamedTuple):
    connections: int
    partitions: int
    message_bytes: int
    behind_bytes: int
    compacted_records: int


FULL: Final = Effort(1000, 10_000, 100 * MB, 10 << 30, 3_000_000)
QUICK: Final = Effort(200, 1000, 10 * MB, 1 << 30, 300_000)


def run() -> list[Figure]:
    return _run(FULL)


def run_quick() -> list[Figure]:
    return _run(QUICK)


def _run(effort: Effort) -> list[Figure]:
    return [
        *_connections(effort.connections),
        *_partitions(effort.partitions),
        *_message(effort.message_bytes),
        *_far_behind(effort.behind_bytes),
        *_compaction(effort.compacted_records),
    ]


@contextmanager
def _broker(**configs: str) -> Iterator[BrokerProcess]:
    _CACHE.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="sizes-", dir=_CACHE))
    try:
        with BrokerProcess(directory, configs={name.replace("_", "."): value for name, value in configs.items()}) as it:
            yield it
            it.check_log()
    finally:
        shutil.rmtree(directory)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


# Connections


def _connections(count: int) -> list[Figure]:
    """All of them ask at the same time, again and again; one more, who is not among them, must not be forgotten."""
    with _broker() as broker, Bystander(broker.address) as bystander:
        clients = [WireClient(broker.address) for _ in range(count)]
        try:
            _ask_all(clients, 1)
            bystander.take()
            rounds = 10
            seconds = _seconds(lambda: _ask_all(clients, rounds))
            worst = bystander.take()
            memory = broker.memory_bytes()
        finally:
            for client in clients:
                client.close()
    name = f"{count:,} connections"
    return [
        Figure(f"{name}: memory of the broker", memory / MB, "MB", goal=IDLE_GOAL_MB),
        Figure(f"{name}: requests, all at once", rounds * count / seconds, "/s", note="from one Python thread"),
        _wait(name, worst),
    ]


def _ask_all(clients: list[WireClient], rounds: int) -> None:
    for _ in range(rounds):
        sent = [(client, client.send("Metadata", 9, MetadataRequest(topics=None))) for client in clients]
        for client, correlation_id in sent:
            client.receive("Metadata", 9, correlation_id)


def _wait(name: str, seconds: float) -> Figure:
    return Figure(f"{name}: the longest that another client waited", seconds * 1e3, "ms")


# Partitions


def _partitions(count: int) -> list[Figure]:
    """One topic with all of them: made, written to, stopped, started, killed, started."""
    name = f"{count:,} partitions"
    with _broker() as broker:
        with Bystander(broker.address) as bystander, WireClient(broker.address) as client:
            idle = broker.memory_bytes()
            creating = _seconds(lambda: _create(client, "many", count // 2))
            creating += _seconds(lambda: _grow(client, "many", count))
            worst_of_creating = bystander.take()
            writing = _seconds(lambda: _write_to_all(client, count))
            worst_of_writing = bystander.take()
            each = (broker.memory_bytes() - idle) / count / 1024
        stopping = _seconds(lambda: broker.stop(timeout=600))
        starting = _seconds(broker.start)
        starting_cpu = broker.cpu_seconds()
        with WireClient(broker.address) as client:
            _write_to_all(client, count)
        broker.kill()
        recovering = _seconds(broker.start)
        recovering_cpu = broker.cpu_seconds()
        with WireClient(broker.address) as client:
            _write_to_all(client, count)
    return [
        Figure(f"{name}: created in two requests", creating, "s", note="one makes 10,000 records at most"),
        _wait(f"{name}, created", worst_of_creating),
        Figure(f"{name}: first batch to each", writing, "s", note="its log is made on the way"),
        _wait(f"{name}, first batch", worst_of_writing),
        Figure(f"{name}: memory of each", each, "KB", goal=4),
        Figure(f"{name}: clean stop", stopping, "s", note="all are synced"),
        Figure(f"{name}: start after it", starting, "s", note=f"{starting_cpu:.1f} s of CPU"),
        Figure(
            f"{name}: start after kill -9", recovering, "s", note=f"{recovering_cpu:.1f} s of CPU; all are recovered"
        ),
    ]


def _create(client: WireClient, topic: str, partitions: int, **configs: str) -> None:
    rows = [CreatableTopicConfig(name.replace("_", "."), value) for name, value in configs.items()]
    request = CreateTopicsRequest([CreatableTopic(topic, partitions, 1, [], rows)])
    (row,) = client.ask("CreateTopics", 5, request).topics
    assert not row.error_code, row


def _grow(client: WireClient, topic: str, partitions: int) -> None:
    request = CreatePartitionsRequest([CreatePartitionsTopic(topic, partitions, None)])
    (row,) = client.ask("CreatePartitions", 3, request).results
    assert not row.error_code, row


def _write_to_all(client: WireClient, partitions: int) -> None:
    batch = bytes(build_batch([NewRecord(_NOW_MS, b"key", b"value" * 10)]))
    for start in range(0, partitions, _ROWS_PER_REQUEST):
        indexes = range(start, min(start + _ROWS_PER_REQUEST, partitions))
        _produce(client, "many", [PartitionProduceData(index, batch) for index in indexes])


def _produce(client: WireClient, topic: str, rows: list[PartitionProduceData]) -> None:
    request = ProduceRequest(None, -1, 60_000, [TopicProduceData(topic, bytes(16), rows)])
    for row in client.ask("Produce", 9, request).responses[0].partition_responses:
        assert not row.error_code, row


# One huge message


def _message(size_bytes: int) -> list[Figure]:
    name = f"a message of {size_bytes // MB} MB"
    limit = str(size_bytes + MB)
    configs = {"message_max_bytes": limit, "socket_request_max_bytes": limit, "fetch_max_bytes": limit}
    with _broker(**configs) as broker, Bystander(broker.address) as bystander, WireClient(broker.address) as client:
        _create(client, "huge", 1)
        idle = broker.memory_bytes()
        batch = bytes(build_batch([NewRecord(_NOW_MS, None, bytes(size_bytes))]))
        broker.reset_peak()
        bystander.take()
        writing = _seconds(lambda: _produce(client, "huge", [PartitionProduceData(0, batch)]))
        peak = broker.peak_memory_bytes()
        reading = _seconds(lambda: _check_size(_fetch(client, "huge", 0, size_bytes + MB), len(batch)))
        worst = bystander.take()
        after = broker.memory_bytes()
    return [
        Figure(f"{name}: written", writing, "s"),
        Figure(f"{name}: read", reading, "s"),
        Figure(f"{name}: memory at its peak", peak / MB, "MB", note=f"idle before: {idle / MB:.0f} MB"),
        Figure(f"{name}: memory afterwards", after / MB, "MB", goal=IDLE_GOAL_MB),
        _wait(name, worst),
    ]


def _check_size(size_bytes: int, expected: int) -> None:
    assert size_bytes == expected, f"{size_bytes} bytes came, and {expected} were written"


def _fetch(client: WireClient, topic: str, offset: int, max_bytes: int) -> int:
    """How many bytes came."""
    partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(max_wait_ms=0, max_bytes=max_bytes, topics=[FetchTopic(topic, partitions=[partition])])
    (row,) = client.ask("Fetch", 12, request).responses[0].partitions
    assert not row.error_code, row
    return len(row.records)


# A consumer that is far behind


def _far_behind(size_bytes: int) -> list[Figure]:
    """A log of that size, written and then read from its beginning, by `sendfile`."""
    name = f"a consumer {size_bytes >> 30} GB behind"
    batch = bytes(build_batch([NewRecord(_NOW_MS, None, bytes(MB - 200))]))
    count = size_bytes // len(batch)
    with _broker() as broker, WireClient(broker.address) as client:
        _create(client, "long", 1, retention_ms="-1")
        idle = broker.memory_bytes()
        writing = _seconds(lambda: _write_all(client, "long", [batch] * count))
        written = broker.memory_bytes()
        broker.reset_peak()
        cpu = broker.cpu_seconds()
        with Bystander(broker.address) as bystander:
            reading = _seconds(lambda: _read_all(client, count, len(batch)))
            worst = bystander.take()
        cpu = broker.cpu_seconds() - cpu
        peak = broker.peak_memory_bytes()
    return [
        Figure(f"{name}: written before", size_bytes / writing / 1e6, "MB/s", note="one connection, one at a time"),
        Figure(f"{name}: memory when written", written / MB, "MB", goal=IDLE_GOAL_MB),
        Figure(f"{name}: read", size_bytes / reading / 1e6, "MB/s", note=f"{cpu:.1f} s of CPU in the broker"),
        Figure(
            f"{name}: memory at its peak while it reads",
            peak / MB,
            "MB",
            goal=IDLE_GOAL_MB,
            note=f"idle before: {idle / MB:.0f} MB",
        ),
        _wait(name, worst),
    ]


def _write_all(client: WireClient, topic: str, batches: list[bytes]) -> None:
    for batch in batches:
        _produce(client, topic, [PartitionProduceData(0, batch)])


def _read_all(client: WireClient, count: int, batch_bytes: int) -> None:
    offset = 0
    while offset < count:
        size = _fetch(client, "long", offset, _FETCH_BYTES)
        assert size > 0, f"nothing at offset {offset}"
        assert size % batch_bytes == 0, f"{size} bytes at offset {offset}, in batches of {batch_bytes}"
        offset += size // batch_bytes


# Compaction


def _compaction(count: int) -> list[Figure]:
    """Of so many records of 100 B, a third of which are the newest of their keys."""
    name = f"a compaction of {count:,} records"
    numbers = range(0, count // 3, _RECORDS_PER_BATCH)
    batches = [
        bytes(
            build_batch([NewRecord(_NOW_MS, b"%d" % (first + each), bytes(100)) for each in range(_RECORDS_PER_BATCH)])
        )
        for first in numbers
    ]
    configs = {"segment_bytes": str(16 * MB), "min_cleanable_dirty_ratio": "0.01"}
    with _broker(log_cleaner_backoff_ms=str(_BACKOFF_MS)) as broker, WireClient(broker.address) as client:
        began = time.perf_counter()
        _create(client, "compacted", 1, cleanup_policy="compact", **configs)
        _write_all(client, "compacted", 3 * batches)
        written = sum(map(len, batches)) * 3
        assert time.perf_counter() - began < _BACKOFF_MS / 1000, "compaction has begun before all was written"
        log = broker.data / "compacted-0"
        with Bystander(broker.address) as bystander:
            wait_until(lambda: _size_of(log) < written / 2, "compaction")
            worst = bystander.take()
        memory = broker.memory_bytes()
    return [Figure(f"{name}: memory of the broker", memory / MB, "MB", goal=IDLE_GOAL_MB), _wait(name, worst)]


def _size_of(directory: Path) -> int:
    """Of its logs; those that are being compacted count twice."""
    size = 0
    for path in directory.glob("*.log*"):
        with suppress(FileNotFoundError):  # it has got another name meanwhile
            size += path.stat().st_size
    return size
