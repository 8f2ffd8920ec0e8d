"""What `headrace produce` and `headrace consume` stand on: batches out, batches in, over partitions that are named.

Everything that these two commands know of the client is in this file. Calls block; the client's own loop does the work.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from headrace.client import background
from headrace.client.admin_calls import MOVED
from headrace.client.cluster import Cluster
from headrace.client.config import load_settings
from headrace.client.consumer_configs import CONSUMER_CONFIGS
from headrace.client.errors import KafkaError, UnknownTopicError, error_for
from headrace.client.producer_configs import PRODUCER_CONFIGS
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.apis import load
from headrace.protocol.batch import BatchHeader, check_crc
from headrace.protocol.compression import Codec
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from headrace.protocol.records import (
    ControlType,
    NewRecord,
    Record,
    build_batch,
    iter_batches,
    read_control_type,
    read_records,
)

BATCH_BYTES: Final = 256 * 1024  # records of one partition that go out together, at most
FETCH_WAIT_MS: Final = 500
FETCH_BYTES: Final = 8 * 1024 * 1024
PARTITION_BYTES: Final = 1024 * 1024
PRODUCE: Final = 0
_BY_NAME: Final = 12  # the last version of Produce and Fetch in which topics go by name


class Outgoing(NamedTuple):
    """A record to be written; None for what the client chooses."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class Incoming(NamedTuple):
    """A record that was read."""

    topic: str
    partition: int
    record: Record
    is_log_append_time: bool


class RecordWriter:
    """`send` collects, `flush` writes: one batch for each partition, and waits until the brokers have them."""

    def __init__(self, topic: str, configs: Mapping[str, Any]) -> None:
        """`configs` are those of a producer; acks and compression.type are obeyed. Raises KafkaError, ConfigError."""
        self._topic = topic
        self._settings = load_settings(PRODUCER_CONFIGS, None, configs)
        self._acks = int(self._settings.text("acks").replace("all", "-1"))
        self._codec = Codec[self._settings.text("compression.type").upper()]
        self._waiting: dict[int, list[NewRecord]] = defaultdict(list)
        self._waiting_bytes = 0
        self._spread = 0
        self.written = 0
        self._cluster, self._partitions = background.call(self._start())

    async def _start(self) -> tuple[Cluster, int]:
        cluster = Cluster(self._settings, allow_auto_create=True)
        try:
            topic = await cluster.topic(self._topic, timeout=self._settings.seconds("max.block.ms"))
        except BaseException:
            await cluster.close()
            raise
        return cluster, len(topic.partitions)

    def send(self, record: Outgoing) -> None:
        partition = self._partition(record)
        timestamp = time.time_ns() // 1_000_000 if record.timestamp_ms is None else record.timestamp_ms
        self._waiting[partition].append(NewRecord(timestamp, record.key, record.value, record.headers))
        self._waiting_bytes += len(record.key or b"") + len(record.value or b"")
        if self._waiting_bytes >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        waiting, self._waiting = self._waiting, defaultdict(list)
        self._waiting_bytes = 0
        if waiting:
            background.call(self._write(waiting))
            self._spread += 1

    def close(self) -> None:
        background.call(self._cluster.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _partition(self, record: Outgoing) -> int:
        if record.partition is not None:
            if not 0 <= record.partition < self._partitions:
                raise UnknownTopicError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"Topic {self._topic!r} has no partition {record.partition}; it has {self._partitions}.",
                )
            return record.partition
        if record.key is not None:
            return (murmur2(record.key) & 0x7FFFFFFF) % self._partitions
        return self._spread % self._partitions  # one partition for each batch, in turn

    async def _write(self, waiting: Mapping[int, Sequence[NewRecord]]) -> None:
        batches = {number: build_batch(records, codec=self._codec) for number, records in waiting.items()}
        timeout = self._settings.seconds("delivery.timeout.ms")
        deadline = asyncio.get_running_loop().time() + timeout
        await asyncio.gather(*(self._write_one(number, batch, deadline) for number, batch in batches.items()))
        self.written += sum(map(len, waiting.values()))

    async def _write_one(self, number: int, batch: bytearray, deadline: float) -> None:
        """Again only where the broker says that it did not write it: nothing is doubled by this."""
        cluster = self._cluster
        while True:
            leader = cluster.metadata.leader(self._topic, number)
            code: int = ErrorCode.LEADER_NOT_AVAILABLE
            if leader is not None:
                code = await self._send_batch(leader.id, number, batch)
                if not code:
                    return
            if code not in MOVED or asyncio.get_running_loop().time() > deadline:
                raise error_for(code, f"{TopicPartition(self._topic, number)}: {ErrorCode(code).meaning}")
            await asyncio.sleep(self._settings.seconds("retry.backoff.ms"))
            await cluster.refresh()

    async def _send_batch(self, leader: int, number: int, batch: bytearray) -> int:
        rows = [TopicProduceData(name=self._topic, partition_data=[PartitionProduceData(number, batch)])]
        request = ProduceRequest(None, self._acks, self._settings.number("request.timeout.ms"), rows)
        connection = await self._cluster.connection(leader)
        version = connection.versions.pick(PRODUCE, highest=_BY_NAME)
        parts = load(PRODUCE).encode_request[version](request)
        if not self._acks:
            connection.send_without_reply(PRODUCE, version, parts)
            await connection.drain()
            return ErrorCode.NONE
        response: ProduceResponse = await connection.send_encoded(PRODUCE, version, parts)
        return response.responses[0].partition_responses[0].error_code


class RecordReader:
    """Reads partitions from given offsets on; `poll` returns what there is."""

    def __init__(self, starts: Mapping[TopicPartition, int], configs: Mapping[str, Any]) -> None:
        """`configs` are those of a consumer; isolation.level and check.crcs are obeyed. Raises ConfigError."""
        self._settings = load_settings(CONSUMER_CONFIGS, None, configs)
        self.positions = dict(starts)  # the next offset of each partition
        self._is_committed = self._settings.text("isolation.level") == "read_committed"
        self._checks = self._settings.flag("check.crcs")
        self._cluster = background.call(self._start())

    async def _start(self) -> Cluster:
        cluster = Cluster(self._settings)
        try:
            for topic in {partition.topic for partition in self.positions}:
                await cluster.topic(topic)
        except BaseException:
            await cluster.close()
            raise
        return cluster

    def poll(self, partitions: Sequence[TopicPartition]) -> list[Incoming]:
        """The next records of these partitions; none if none came within half a second. Raises KafkaError."""
        return background.call(self._poll(partitions))

    def close(self) -> None:
        background.call(self._cluster.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _poll(self, partitions: Sequence[TopicPartition]) -> list[Incoming]:
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for partition in partitions:
            leader = self._cluster.metadata.leader(*partition)
            if leader is not None:
                by_leader[leader.id].append(partition)
        if sum(map(len, by_leader.values())) < len(partitions):
            await self._pause()
        answers = await asyncio.gather(*(self._fetch(leader, mine) for leader, mine in by_leader.items()))
        return [record for records in answers for record in records]

    async def _fetch(self, leader: int, partitions: Sequence[TopicPartition]) -> list[Incoming]:
        by_topic: dict[str, list[FetchPartition]] = defaultdict(list)
        for topic, number in partitions:
            offset = self.positions[TopicPartition(topic, number)]
            by_topic[topic].append(FetchPartition(number, fetch_offset=offset, partition_max_bytes=PARTITION_BYTES))
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=int(self._is_committed),
            topics=[FetchTopic(topic, partitions=rows) for topic, rows in by_topic.items()],
        )
        try:
            response: FetchResponse = await self._cluster.send(leader, request, max_version=_BY_NAME)
        except KafkaError as error:
            if not error.retriable:
                raise
            await self._pause()
            return []
        if response.error_code:
            raise error_for(response.error_code)
        records: list[Incoming] = []
        for topic_row in response.responses:
            for row in topic_row.partitions:
                partition = TopicPartition(topic_row.topic, row.partition_index)
                if row.error_code in MOVED:
                    await self._pause()
                elif row.error_code:
                    raise self._error(partition, row)
                else:
                    records += self._read(partition, row)
        return records

    async def _pause(self) -> None:
        """Something has moved: look where it is now, and do not hurry."""
        await asyncio.sleep(self._settings.seconds("retry.backoff.ms"))
        await self._cluster.refresh()

    def _error(self, partition: TopicPartition, row: PartitionData) -> KafkaError:
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return error_for(
                row.error_code,
                f"{partition} has no offset {self.positions[partition]}; `headrace topic offsets` shows what it has.",
            )
        return error_for(row.error_code, f"{partition}: {ErrorCode(row.error_code).meaning}")

    def _read(self, partition: TopicPartition, row: PartitionData) -> Iterator[Incoming]:
        """The records from the position on, and the new position. Markers and aborted records are left out."""
        data = row.records
        if not data:
            return
        aborted = sorted(row.aborted_transactions or (), key=lambda each: each.first_offset, reverse=True)
        open_aborted: set[int] = set()
        position = self.positions[partition]
        for place, header in iter_batches(data):
            if self._checks:
                check_crc(data, place, header)
            while aborted and aborted[-1].first_offset <= header.last_offset:
                open_aborted.add(aborted.pop().producer_id)
            if header.is_control:
                _close_aborted(data, place, header, open_aborted)
            elif not (self._is_committed and header.is_transactional and header.producer_id in open_aborted):
                for record in read_records(data, place):
                    if record.offset >= position:
                        yield Incoming(*partition, record, header.is_log_append_time)
            self.positions[partition] = header.next_offset


def _close_aborted(data: Any, place: int, header: BatchHeader, open_aborted: set[int]) -> None:
    for record in read_records(data, place):
        if read_control_type(record.key) is ControlType.ABORT:
            open_aborted.discard(header.producer_id)


def murmur2(data: bytes) -> int:
    """Kafka's hash of keys, unsigned: whoever writes the same key writes to the same partition."""
    length = len(data)
    value = 0x9747B28C ^ length
    for place in range(0, length & ~3, 4):
        word = int.from_bytes(data[place : place + 4], "little") * 0x5BD1E995 & 0xFFFFFFFF
        value = value * 0x5BD1E995 & 0xFFFFFFFF ^ (word ^ word >> 24) * 0x5BD1E995 & 0xFFFFFFFF
    rest = data[length & ~3 :]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * 0x5BD1E995 & 0xFFFFFFFF
    value = (value ^ value >> 13) * 0x5BD1E995 & 0xFFFFFFFF
    return value ^ value >> 15
