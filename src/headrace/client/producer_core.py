"""What both producers share: settings checked, the parts wired, and the way of a record to its batch.

`append` is for any thread; it neither waits nor talks to the loop. What it cannot do now it says: the topic is not
known yet (`learn`), or there is no room (`when_room`). How to wait for that is all that the blocking and the asyncio
producer do differently.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from headrace.client import background
from headrace.client.accumulator import PartitionQueue
from headrace.client.cluster import Cluster
from headrace.client.config import Settings, hooks, load_settings
from headrace.client.delivery import Delivery, RecordMetadata
from headrace.client.errors import (
    BufferFullError,
    ClosedError,
    ConfigError,
    KafkaError,
    RecordTooLargeError,
    UnknownTopicError,
)
from headrace.client.gates import Gate, IdempotentGate, OpenGate
from headrace.client.metadata import Metadata, Topic
from headrace.client.partitioners import KeyPartitioner, Partitioner, StickyPartition, named
from headrace.client.pending_batch import DeliveryCallback
from headrace.client.producer_configs import PRODUCER_CONFIGS
from headrace.client.sender import Sender
from headrace.client.serializers import serializer
from headrace.protocol.batch import HEADER_SIZE
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.record_encoding import OVERHEAD_BYTES, USUAL_BYTES, USUAL_OVERHEAD_BYTES, Headers, size_bound

if TYPE_CHECKING:
    from headrace.client.transactions import TransactionGate

MAX_IDEMPOTENT_IN_FLIGHT: Final = 5  # batches whose sequences a broker remembers
_LOG: Final = logging.getLogger(__name__)


class ProducerRecord(NamedTuple):
    """A record as it was given to `send`, before it becomes bytes; what interceptors see."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Headers | None = None
    partition: int | None = None
    timestamp: int | None = None


class Interceptor(Protocol):
    """Sees every record of a producer."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """What is sent instead."""

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        """How it went; on the client's thread."""


class TopicChoice:
    """Where records of one topic go."""

    __slots__ = ("available", "count", "keys", "partitions", "queues", "sticky")

    def __init__(self, topic: Topic, batch_bytes: int, before: "TopicChoice | None") -> None:
        self.partitions: Sequence[int] = list(topic.partitions)
        self.queues: dict[int, PartitionQueue] = {}  # of the partitions that were sent to
        self.count = len(self.partitions)
        self.available: Sequence[int] = [
            partition.number for partition in topic.partitions.values() if partition.leader >= 0
        ] or self.partitions
        self.keys = KeyPartitioner(self.count)
        self.sticky = StickyPartition(batch_bytes)
        if before is not None:
            self.sticky = before.sticky
            self.sticky.stay_in(self.available)
            if before.count == self.count:
                self.keys = before.keys


def producer_settings(
    bootstrap: str | Sequence[str] | None, config: Mapping[str, Any] | None, configs: Mapping[str, Any]
) -> Settings:
    """Raises ConfigError that lists everything that is wrong."""
    settings = load_settings(PRODUCER_CONFIGS, bootstrap, config, configs)
    problems = []
    is_transactional = settings.optional_text("transactional.id") is not None
    is_idempotent = settings.flag("enable.idempotence")
    in_flight = settings.number("max.in.flight.requests.per.connection")
    must = "transactional.id" if is_transactional else "enable.idempotence"
    if is_transactional and not is_idempotent:
        problems.append("enable.idempotence must be true with a transactional.id")
    wants_idempotence = is_transactional or settings.is_given("enable.idempotence")
    if is_idempotent and wants_idempotence:
        if settings.text("acks") not in ("all", "-1"):
            problems.append(f"acks must be all with {must}")
        if in_flight > MAX_IDEMPOTENT_IN_FLIGHT:
            problems.append(f"max.in.flight.requests.per.connection must be at most 5 with {must}, not {in_flight}")
        if settings.number("retries") == 0:
            problems.append(f"retries must be above 0 with {must}")
    lowest = settings.number("linger.ms") + settings.number("request.timeout.ms")
    if settings.number("delivery.timeout.ms") < lowest and settings.is_given("delivery.timeout.ms"):
        problems.append(f"delivery.timeout.ms must be at least linger.ms + request.timeout.ms, which are {lowest}")
    if problems:
        raise ConfigError(problems)
    return settings


def _is_idempotent(settings: Settings) -> bool:
    """On by default, and off where another setting that was given excludes it, as in Kafka's client."""
    return (
        settings.flag("enable.idempotence")
        and settings.text("acks") in ("all", "-1")
        and settings.number("max.in.flight.requests.per.connection") <= MAX_IDEMPOTENT_IN_FLIGHT
        and settings.number("retries") > 0
    )


class ProducerCore:
    """Made on the loop's thread. `append` and what it needs are for any thread, all else is for the loop's."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.max_block_seconds = settings.seconds("max.block.ms")
        self.key_serializer = serializer("key.serializer", settings.value("key.serializer"))
        self.value_serializer = serializer("value.serializer", settings.value("value.serializer"))
        self.interceptors: tuple[Interceptor, ...] = hooks(
            settings, "interceptor.classes", "on_send", "on_acknowledgement"
        )
        self._partitioner = self._find_partitioner()
        self._ignores_keys = settings.flag("partitioner.ignore.keys")
        self._is_adaptive = settings.flag("partitioner.adaptive.partitioning.enable")
        self._max_record_bytes = settings.number("max.request.size")
        self._most_bytes = min(self._max_record_bytes - HEADER_SIZE - OVERHEAD_BYTES, USUAL_BYTES)
        self._batch_bytes = settings.number("batch.size")
        self._choices: dict[str, TopicChoice] = {}
        self.cluster = Cluster(settings, allow_auto_create=True)
        self.transactions: TransactionGate | None = None
        self._gate = self._make_gate()
        self.sender = Sender(self.cluster, settings, self._gate)
        self._gate.wired(self.sender.wake, self.sender.fail_unsent)
        self._batches = self.sender.batches
        self.is_closed = False
        self._was_forked = False
        self._closing: asyncio.Task[None] | None = None
        self.cluster.add_listener(self._metadata_came)
        background.until_fork(self)

    def _find_partitioner(self) -> Partitioner | None:
        try:
            return named(self.settings.value("partitioner.class"))
        except ValueError as error:
            raise ConfigError([str(error)]) from None

    def _make_gate(self) -> Gate:
        settings = self.settings
        transactional_id = settings.optional_text("transactional.id")
        if transactional_id is not None:
            from headrace.client.transactions import TransactionGate  # with five messages that few producers need

            self.transactions = TransactionGate(
                self.cluster, transactional_id, settings.number("transaction.timeout.ms"), self.max_block_seconds
            )
            return self.transactions
        return IdempotentGate(self.cluster) if _is_idempotent(settings) else OpenGate()

    # Topics

    def _metadata_came(self, metadata: Metadata) -> None:
        for name in list(self._choices):
            topic = metadata.topic(name)
            if topic is not None:
                self._choices[name] = TopicChoice(topic, self._batch_bytes, self._choices.get(name))

    def knows(self, topic: str) -> bool:
        return topic in self._choices

    async def learn(self, topic: str) -> None:
        """Ask where the partitions of a topic are. Raises KafkaError after max.block.ms."""
        self.check_open()
        found = await self.cluster.topic(topic, timeout=self.max_block_seconds)
        self._choices[topic] = TopicChoice(found, self._batch_bytes, self._choices.get(topic))

    # Records

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        partition: int | None,
        timestamp: int | None,
        callback: DeliveryCallback | None,
    ) -> Delivery | None:
        """Put the record into its batch; None if its topic is not known, or there is no room. Raises KafkaError."""
        if self.is_closed:
            self.check_open()
        choice = self._choices.get(topic)
        if choice is None:
            return None
        if self.transactions is not None:
            self.transactions.check_send()
        if value is not None and headers is None and timestamp is None:  # the usual case, without a call
            size = USUAL_OVERHEAD_BYTES + len(value)
            if key is not None:
                size += len(key)
        else:
            size = size_bound(key, value, headers)
        if size > self._most_bytes:
            size = self._large_size(topic, key, value, headers)
        if partition is None:
            sticky = choice.sticky
            if key is None and sticky.left_bytes > size:  # nothing is ever left with a partitioner of one's own
                sticky.left_bytes -= size
                partition = sticky.partition
            else:
                partition = self._partition(choice, topic, key, value, size)
        queue = choice.queues.get(partition)
        if queue is None:
            queue = self._new_queue(choice, topic, partition)
        if timestamp is None:
            timestamp = time_ns() // 1_000_000
        return self._batches.append(queue, key, value, timestamp, headers, size, callback)

    def check_send(self) -> None:
        """Raises KafkaError unless records may be sent now."""
        self.check_open()
        if self.transactions is not None:
            self.transactions.check_send()

    def _new_queue(self, choice: TopicChoice, topic: str, partition: int) -> PartitionQueue:
        if partition not in choice.partitions:
            raise UnknownTopicError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{topic} has partitions 0 to {choice.count - 1}; there is no partition {partition}.",
            )
        queue = choice.queues[partition] = self._batches.queue((topic, partition))
        return queue

    def _large_size(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
        """Of a record that is not small, at most. Raises RecordTooLargeError."""
        size = size_bound(key, value, headers)
        if size + HEADER_SIZE > self._max_record_bytes:
            raise RecordTooLargeError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"A record for {topic} has about {size} bytes, more than max.request.size ({self._max_record_bytes}).",
            )
        return size

    def _partition(self, choice: TopicChoice, topic: str, key: bytes | None, value: bytes | None, size: int) -> int:
        if self._partitioner is not None:
            return self._partitioner(topic, key, value, choice.partitions)
        if key is not None and not self._ignores_keys:
            return choice.keys.partition(key)
        queue_length = partial(self._batches.queue_length, topic) if self._is_adaptive else None
        return choice.sticky.next(size, choice.available, queue_length)

    def intercepted(
        self, record: ProducerRecord, callback: DeliveryCallback | None
    ) -> tuple[ProducerRecord, DeliveryCallback]:
        """What interceptors make of a record, and a callback that tells them its fate. One that fails harms nobody."""
        for interceptor in self.interceptors:
            try:
                seen = interceptor.on_send(record)
                if not isinstance(seen, ProducerRecord):
                    raise TypeError(f"on_send returned a {type(seen).__name__}, not a ProducerRecord")
                record = seen
            except Exception:
                _LOG.exception("an interceptor failed; the record is sent all the same")

        def told(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            for interceptor in self.interceptors:
                try:
                    interceptor.on_acknowledgement(metadata, error)
                except Exception:
                    _LOG.exception("an interceptor failed; the record is not affected")
            if callback is not None:
                callback(metadata, error)

        return record, told

    async def flush(self) -> None:
        """Send everything now, and wait until its fate is known."""
        if self._was_forked:
            self.check_open()
        await self.sender.flush()

    def buffer_full(self) -> BufferFullError:
        return BufferFullError(
            f"There was no room for a record within {self.max_block_seconds:g} s (max.block.ms): records come faster "
            f"than they go. Raise buffer.memory ({self.settings.number('buffer.memory')}), or send more slowly."
        )

    # The end

    def forked(self) -> None:
        self.is_closed = self._was_forked = True

    def check_open(self) -> None:
        """Raises ClosedError."""
        if self.is_closed:
            raise ClosedError(background.FORKED) if self._was_forked else ClosedError()

    async def close(self, timeout: float | None) -> None:
        """Deliver what was sent, within `timeout` seconds, and stop. What is not delivered by then fails."""
        if self._was_forked:
            return  # all that it has is the parent's
        if self._closing is None:
            self.is_closed = True
            self._closing = asyncio.get_running_loop().create_task(self._close(timeout), name="headrace-close")
        await asyncio.shield(self._closing)  # whoever does not wait any more does not stop it

    async def _close(self, timeout: float | None) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self.sender.flush()
        except TimeoutError:
            pass
        finally:
            error = ClosedError("The producer was closed before the record was delivered.")
            await self.sender.close(error)
            await self._gate.close()
            await self.cluster.close()
            await asyncio.sleep(0)  # what was in flight hears of it
