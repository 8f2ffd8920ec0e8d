"""What `headrace produce` and `headrace consume` stand on: the producer, and fetches of partitions that are named.

Everything that these two commands know of the client is in this file. Calls block; the client's own loop does the work.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from headrace.client import background
from headrace.client.admin_calls import MOVED
from headrace.client.cluster import Cluster
from headrace.client.config import Settings, load_settings
from headrace.client.consumer_configs import CONSUMER_CONFIGS
from headrace.client.errors import KafkaError, error_for
from headrace.client.producer import Producer
from headrace.client.producer_configs import PRODUCER_CONFIGS
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.batch import BatchHeader, check_crc
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from headrace.protocol.records import (
    ControlType,
    Record,
    iter_batches,
    read_control_type,
    read_records,
)

BLOCK_MS: Final = 10_000  # what a topic may take to be there, if it is created by writing to it
FETCH_WAIT_MS: Final = 500
FETCH_BYTES: Final = 8 * 1024 * 1024
PARTITION_BYTES: Final = 1024 * 1024
_BY_NAME: Final = 12  # the last version of Fetch in which topics go by name


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
    """A producer of one topic. `send` returns at once; what went wrong is raised by a later call."""

    def __init__(self, topic: str, configs: Mapping[str, Any]) -> None:
        """`configs` are those of a producer. Raises KafkaError if no broker answers, ConfigError."""
        self._topic = topic
        settings = {"max.block.ms": BLOCK_MS, **configs}
        background.call(_reach(load_settings(PRODUCER_CONFIGS, None, settings)))
        self._producer = Producer(config=settings)
        self._error: KafkaError | None = None
        self.written = 0

    def send(self, record: Outgoing) -> None:
        self._check()
        self._producer.send(
            self._topic,
            record.value,
            record.key,
            headers=record.headers,
            partition=record.partition,
            timestamp=record.timestamp_ms,
            on_delivery=self._delivered,
        )

    def flush(self) -> None:
        """Wait until brokers have everything. Raises KafkaError."""
        self._producer.flush()
        self._check()

    def close(self) -> None:
        self._producer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _delivered(self, _: object, error: KafkaError | None) -> None:
        """On the client's thread."""
        if error is None:
            self.written += 1
        else:
            self._error = self._error or error


async def _reach(settings: Settings) -> None:
    """Raises at once if no broker answers: a producer would try for a minute, and somebody sits there."""
    cluster = Cluster(settings)
    try:
        await cluster.refresh()
    finally:
        await cluster.close()


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
