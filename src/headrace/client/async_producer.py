"""The producer for asyncio: `async with headrace.aio.Producer("localhost:9092") as producer: ...`."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from headrace.client.delivery import Delivery
from headrace.client.errors import WrongStateError
from headrace.client.group_member import GroupMember
from headrace.client.pending_batch import DeliveryCallback
from headrace.client.producer_core import ProducerCore, ProducerRecord, producer_settings
from headrace.client.serializers import checked_timestamp, header_pairs
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.record_encoding import Headers

if TYPE_CHECKING:
    from headrace.client.transactions import TransactionGate


class AsyncProducer:
    """For one event loop: that on which it is first used."""

    def __init__(
        self, bootstrap: str | Sequence[str] | None = None, *, config: Mapping[str, Any] | None = None, **configs: Any
    ) -> None:
        """As for `headrace.Producer`. Raises ConfigError."""
        self._settings = producer_settings(bootstrap, config, configs)
        self._made: ProducerCore | None = None

    @property
    def _core(self) -> ProducerCore:
        if self._made is None:
            self._made = ProducerCore(self._settings)
        return self._made

    # Records

    async def send(
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
        """Send one record; awaiting the result waits until it is delivered: `await (await producer.send(...))`."""
        core = self._core
        if core.interceptors:
            record = ProducerRecord(topic, value, key, headers, partition, timestamp)
            (topic, value, key, headers, partition, timestamp), on_delivery = core.intercepted(record, on_delivery)
        if headers is not None:
            headers = header_pairs(topic, headers)
        if timestamp is not None:
            timestamp = checked_timestamp(timestamp)
        if key is not None:
            key = core.key_serializer(topic, key)
        value = core.value_serializer(topic, value)
        delivery = core.append(topic, key, value, headers, partition, timestamp, on_delivery)
        while delivery is None:
            if core.knows(topic):
                await self._wait_for_room()
            else:
                await core.learn(topic)
            delivery = core.append(topic, key, value, headers, partition, timestamp, on_delivery)
        return delivery

    async def _wait_for_room(self) -> None:
        has_room = asyncio.Event()
        self._core.sender.batches.when_room(has_room.set)
        self._core.sender.wake()
        try:
            async with asyncio.timeout(self._core.max_block_seconds):
                await has_room.wait()
        except TimeoutError:
            raise self._core.buffer_full() from None

    async def flush(self) -> None:
        """Send everything now, and wait until its fate is known."""
        await self._core.sender.flush()

    async def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic."""
        await self._core.learn(topic)
        return list(self._core.cluster.metadata.topics[topic].partitions)

    # Transactions

    @property
    def _transactions(self) -> "TransactionGate":
        if self._core.transactions is None:
            raise WrongStateError("This producer has no transactional_id, and so no transactions.")
        return self._core.transactions

    async def init_transactions(self) -> None:
        """Take over the transactional id: whoever had it before is fenced, its open transaction aborted."""
        await self._transactions.init()

    async def begin_transaction(self) -> None:
        self._transactions.begin()

    async def commit_transaction(self) -> None:
        """All records since `begin_transaction` become visible at once. Raises KafkaError; then abort."""
        await self._transactions.commit(self._core.sender)

    async def abort_transaction(self) -> None:
        """None of them ever will."""
        await self._transactions.abort(self._core.sender)

    async def send_offsets(self, offsets: Mapping[TopicPartition, Any], member: GroupMember | str) -> None:
        """Commit what a consumer has processed with the transaction: the next offset to read of each partition."""
        who = GroupMember(member) if isinstance(member, str) else member
        await self._transactions.send_offsets(offsets, who)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """`async with producer.transaction(): ...`: committed at the end, aborted if the block raises."""
        if self._transactions.is_new:
            await self.init_transactions()
        if self._transactions.is_ending:
            await self._transactions.ended()
        await self.begin_transaction()
        try:
            yield self
        except BaseException:
            if self._transactions.may_abort:
                await self.abort_transaction()
            raise
        try:
            await self.commit_transaction()
        except BaseException:
            if self._transactions.may_abort:
                await self.abort_transaction()
            raise

    # The end

    async def close(self, timeout: float | None = None) -> None:
        """Deliver what was sent, and stop. After `timeout` seconds, what is not delivered fails."""
        if self._made is not None:
            await self._made.close(timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
