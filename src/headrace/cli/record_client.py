"""What `headrace produce` and `headrace consume` stand on: headrace.Producer and headrace.Consumer.

Everything that these two commands know of the client is in this file. Calls block; the client's own loop does the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from headrace.client import background
from headrace.client.cluster import Cluster
from headrace.client.config import Settings, load_settings
from headrace.client.consumer import Consumer
from headrace.client.consumer_record import ConsumerRecord
from headrace.client.errors import KafkaError, WrongStateError
from headrace.client.producer import Producer
from headrace.client.producer_configs import PRODUCER_CONFIGS
from headrace.client.topic_partition import TopicPartition

BLOCK_MS: Final = 10_000  # what a topic may take to be there, if it is created by writing to it
POLL_SECONDS: Final = 0.5
MAX_RECORDS: Final = 5_000  # that are printed before what was printed is handed to the pipe


class Outgoing(NamedTuple):
    """A record to be written; None for what the client chooses."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


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
    """A consumer of partitions that are named, from given offsets on, and up to given ends if there are some."""

    def __init__(
        self,
        starts: Mapping[TopicPartition, int],
        configs: Mapping[str, Any],
        *,
        ends: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """`configs` are those of a consumer. Raises KafkaError, ConfigError."""
        self._ends = ends
        self._unread = {partition for partition, start in starts.items() if ends is None or start < ends[partition]}
        self._consumer = Consumer(config={"auto.offset.reset": "earliest", "enable.auto.commit": False, **configs})
        try:
            self._consumer.assign(self._unread)
            for partition in self._unread:
                self._consumer.seek(partition, starts[partition])
        except BaseException:
            self._consumer.close()
            raise

    @property
    def is_at_end(self) -> bool:
        return not self._unread

    def poll(self, limit: int) -> list[ConsumerRecord]:
        """The next records; none if none came within a moment. Raises KafkaError."""
        records = self._consumer.poll(POLL_SECONDS, limit)
        if self._ends is None:
            return records
        ends = self._ends
        done = {partition for partition in self._unread if self._consumer.position(partition) >= ends[partition]}
        self._unread -= done
        self._consumer.pause(*done)
        return [record for record in records if record.offset < ends[TopicPartition(record.topic, record.partition)]]

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class GroupReader:
    """A member of a group, which shares the partitions of topics with the others. What was read is committed.

    What was handed out by the last poll counts as read when the next one comes, or at the end, unless an error ends it.
    """

    def __init__(
        self, topics: Sequence[str], configs: Mapping[str, Any], *, ends: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """`configs` are those of a consumer, with its group.id. Raises KafkaError, ConfigError."""
        self._ends = ends
        self._consumer = Consumer(topics=topics, config=configs)
        self.is_at_end = False

    def poll(self, limit: int) -> list[ConsumerRecord]:
        """The next records; none if none came within a moment. Raises KafkaError."""
        records = self._consumer.poll(POLL_SECONDS, limit)
        if self._ends is not None:
            owned = self._consumer.assignment()
            self.is_at_end = bool(owned) and all(map(self._is_read, owned))
        return records

    def _is_read(self, partition: TopicPartition) -> bool:
        assert self._ends is not None
        try:
            return self._consumer.position(partition) >= self._ends.get(partition, 0)
        except WrongStateError:  # it went to another member at this moment
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.__exit__(kind, error, trace)
