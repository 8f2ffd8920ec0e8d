"""The producer: records in, acknowledgements out.

    with headrace.Producer("localhost:9092") as producer:
        producer.send("orders", b"3 apples", key="alice")

`send` puts the record into a batch and returns at once; the batch is sent when it is full or has waited linger.ms. What
it returns knows the record's fate: `.result()` waits for it. Records are delivered once and in order (idempotence), and
sent again after errors that pass, up to delivery.timeout.ms. Leaving the `with` block waits for all of them.

`headrace.aio.Producer` is the same for asyncio.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from headrace.client import background
from headrace.client.delivery import Delivery
from headrace.client.errors import WrongStateError
from headrace.client.group_member import GroupMember
from headrace.client.pending_batch import DeliveryCallback, PendingBatch
from headrace.client.producer_core import ProducerCore, ProducerRecord, producer_settings
from headrace.client.serializers import checked_timestamp, header_pairs, plain
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.record_encoding import Headers

if TYPE_CHECKING:
    from headrace.client.transactions import TransactionGate


class Producer:
    """For plain programs. It may be used by several threads; a transaction belongs to all of them."""

    def __init__(
        self, bootstrap: str | Sequence[str] | None = None, *, config: Mapping[str, Any] | None = None, **configs: Any
    ) -> None:
        """`bootstrap` is host:port of some brokers; configs are Kafka's, by keyword or in a dict with dots.

        Nothing is sent yet. Raises ConfigError.
        """
        settings = producer_settings(bootstrap, config, configs)

        async def make() -> ProducerCore:
            return ProducerCore(settings)

        self._core = background.call(make())
        self._key = self._core.key_serializer
        self._value = self._core.value_serializer
        self._intercepts = bool(self._core.interceptors)

    # Records

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> Delivery:
        """Send one record. Waits only for a topic's metadata and for room, at most max.block.ms.

        `on_delivery(metadata, error)` is called on the client's thread. Raises KafkaError.
        """
        if self._intercepts:
            record = ProducerRecord(topic, value, key, headers, partition, timestamp)
            (topic, value, key, headers, partition, timestamp), on_delivery = self._core.intercepted(
                record, on_delivery
            )
        if headers is not None:
            headers = header_pairs(topic, headers)
        if timestamp is not None:
            timestamp = checked_timestamp(timestamp)
        if key is not None:
            key = self._key(topic, key)
        if self._value is not plain or type(value) is not bytes:
            value = self._value(topic, value)
        delivery = self._core.append(topic, key, value, headers, partition, timestamp, on_delivery)
        while delivery is None:
            if self._core.knows(topic):
                self._wait_for_room()
            else:
                background.call(self._core.learn(topic))
            delivery = self._core.append(topic, key, value, headers, partition, timestamp, on_delivery)
        return delivery

    def _send_batch(self, batch: PendingBatch) -> None:
        """A batch that is complete, to a partition of a topic that is known; for `headrace.arrow`."""
        self._core.check_send()
        while not self._core.sender.batches.put(batch):
            self._wait_for_room()
            self._core.check_send()

    def _wait_for_room(self) -> None:
        if background.is_on_loop():
            raise WrongStateError("send() inside a delivery callback found no room, and would wait for itself")
        has_room = background.Signal()
        self._core.sender.batches.when_room(has_room.send)
        self._core.sender.wake()
        if not has_room.wait(self._core.max_block_seconds):
            raise self._core.buffer_full()

    def flush(self, timeout: float | None = None) -> None:
        """Send everything now, and wait until its fate is known; at most `timeout` seconds, then TimeoutError."""
        background.call(self._core.flush(), timeout)

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic."""
        background.call(self._core.learn(topic))
        return list(self._core.cluster.metadata.topics[topic].partitions)

    # Transactions

    @property
    def _transactions(self) -> "TransactionGate":
        if self._core.transactions is None:
            raise WrongStateError("This producer has no transactional_id, and so no transactions.")
        return self._core.transactions

    def init_transactions(self) -> None:
        """Take over the transactional id: whoever had it before is fenced, its open transaction aborted.

        To be called once, and again before a transaction if the last one was long ago: brokers forget an id that is not
        used for transactional.id.expiration.ms. If another producer has it by then, FencedError is raised.
        """
        background.call(self._transactions.init())

    def begin_transaction(self) -> None:
        self._transactions.begin()

    def commit_transaction(self) -> None:
        """All records since `begin_transaction` become visible at once. Raises KafkaError; then abort."""
        background.call(self._transactions.commit(self._core.sender))

    def abort_transaction(self) -> None:
        """None of them ever will."""
        background.call(self._transactions.abort(self._core.sender))

    def send_offsets(self, offsets: Mapping[TopicPartition, Any], member: "GroupMember | str") -> None:
        """Commit what a consumer has processed with the transaction: the next offset to read of each partition."""
        who = GroupMember(member) if isinstance(member, str) else member
        background.call(self._transactions.send_offsets(offsets, who))

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """`with producer.transaction(): ...`: committed at the end, aborted if the block raises."""
        if self._transactions.is_new:
            self.init_transactions()
        if self._transactions.is_ending:
            background.call(self._transactions.ended())
        self.begin_transaction()
        try:
            yield self
        except BaseException:
            if self._transactions.may_abort:
                self.abort_transaction()
            raise
        try:
            self.commit_transaction()
        except BaseException:
            if self._transactions.may_abort:
                self.abort_transaction()
            raise

    # The end

    def close(self, timeout: float | None = None) -> None:
        """Deliver what was sent, and stop. After `timeout` seconds, what is not delivered fails."""
        background.call(self._core.close(timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
