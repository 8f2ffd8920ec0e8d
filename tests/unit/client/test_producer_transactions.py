"""Transactions whose end is interrupted, those that have nothing to end, and records that come while one ends."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

import headrace
import headrace.aio
from headrace.client.errors import ClosedError, KafkaError, WrongStateError
from headrace.client.transaction_state import State
from tests.support.topic_reading import read_topic
from tests.support.waiting import wait_until


@pytest.fixture
def broker() -> Iterator[headrace.Broker]:
    with headrace.Broker() as broker:
        broker.create_topic("t", partitions=1)
        yield broker


def committed(broker: headrace.Broker) -> list[bytes | None]:
    return [record.value for record in read_topic(broker.address, "t", committed=True)]


async def interrupt(broker: headrace.Broker, end: Callable[[], Awaitable[None]]) -> None:
    """While the coordinator works at it."""
    with broker.faults.delay("EndTxn", seconds=0.3, times=1) as fault:
        ending = asyncio.ensure_future(end())
        await asyncio.to_thread(fault.wait)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending


def test_a_commit_that_was_interrupted_may_be_called_again(broker: headrace.Broker) -> None:
    async def story() -> None:
        async with headrace.aio.Producer(broker.address, transactional_id="x") as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send("t", b"a")
            await interrupt(broker, producer.commit_transaction)
            with pytest.raises(WrongStateError):
                await producer.abort_transaction()
            await producer.commit_transaction()
            with pytest.raises(WrongStateError):
                await producer.commit_transaction()
            await producer.begin_transaction()
            await (await producer.send("t", b"b"))
            await interrupt(broker, producer.abort_transaction)
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send("t", b"c")

    asyncio.run(story())
    assert committed(broker) == [b"a", b"c"]


def test_the_next_transaction_waits_for_a_commit_that_was_interrupted(broker: headrace.Broker) -> None:
    async def story() -> None:
        async with headrace.aio.Producer(broker.address, transactional_id="x") as producer:

            async def write(value: bytes) -> None:
                async with producer.transaction():
                    await producer.send("t", value)

            await interrupt(broker, lambda: write(b"a"))
            await write(b"b")

    asyncio.run(story())
    assert committed(broker) == [b"a", b"b"]


def test_what_an_older_broker_adds_while_the_transaction_is_aborted_is_ended_with_it(broker: headrace.Broker) -> None:
    with headrace.Admin(broker.address) as admin:
        admin.update_features({"transaction.version": 1}, kind="safe_downgrade")
        with headrace.Producer(broker.address, transactional_id="x", linger_ms=0) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            with broker.faults.delay("AddPartitionsToTxn", seconds=0.3, times=1) as fault:
                producer.send("t", b"a")
                fault.wait()
                producer.abort_transaction()
            assert "Abort" in admin.describe_transactions(["x"])["x"].state
            with producer.transaction():
                producer.send("t", b"b")
    assert committed(broker) == [b"b"]


def test_offsets_that_an_older_broker_does_not_add_leave_nothing_to_end(broker: headrace.Broker) -> None:
    with headrace.Admin(broker.address) as admin:
        admin.update_features({"transaction.version": 1}, kind="safe_downgrade")
    with headrace.Producer(broker.address, transactional_id="x") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        with (
            broker.faults.answer("AddOffsetsToTxn", error="GROUP_AUTHORIZATION_FAILED", times=1),
            pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"),
        ):
            producer.send_offsets({headrace.TopicPartition("t", 0): 1}, "g")
        producer.abort_transaction()
        with producer.transaction():
            producer.send("t", b"a")
    assert committed(broker) == [b"a"]


def test_what_is_sent_while_the_transaction_is_committed_is_refused(broker: headrace.Broker) -> None:
    with (
        headrace.Producer(broker.address, transactional_id="x", linger_ms=0) as producer,
        ThreadPoolExecutor(1) as pool,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        with broker.faults.delay("Produce", seconds=1, times=1) as fault:
            producer.send("t", b"a")
            fault.wait()
            committing = pool.submit(producer.commit_transaction)
            wait_until(lambda: producer._transactions.state is not State.OPEN)
            with pytest.raises(WrongStateError, match="before commit_transaction"):
                producer.send("t", b"b")
        committing.result(30)
        with producer.transaction():
            producer.send("t", b"c")
    assert committed(broker) == [b"a", b"c"]


def test_a_record_on_its_way_to_its_batch_when_the_transaction_ends_is_in_none(broker: headrace.Broker) -> None:
    is_sending, may_send = threading.Event(), threading.Event()

    def slow(_: str, __: bytes | None, value: bytes | None, partitions: Sequence[int]) -> int:
        if value == b"b":
            is_sending.set()
            may_send.wait(30)
        return partitions[0]

    with (
        headrace.Producer(broker.address, transactional_id="x", partitioner_class=slow) as producer,
        ThreadPoolExecutor(2) as pool,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"a")
        sending = pool.submit(producer.send, "t", b"b")
        is_sending.wait(30)
        with broker.faults.delay("EndTxn", seconds=1, times=1) as fault:
            committing = pool.submit(producer.commit_transaction)
            fault.wait()
            may_send.set()
            committing.result(30)
        assert isinstance(sending.result(30).exception(30), WrongStateError)
        with producer.transaction():
            producer.send("t", b"c")
    assert committed(broker) == [b"a", b"c"]


def test_a_commit_that_is_interrupted_while_records_are_delivered_leaves_the_transaction_open(
    broker: headrace.Broker,
) -> None:
    async def story() -> None:
        async with headrace.aio.Producer(broker.address, transactional_id="x", linger_ms=0) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            with broker.faults.delay("Produce", seconds=0.3, times=1) as fault:
                await producer.send("t", b"a")
                await asyncio.to_thread(fault.wait)
                committing = asyncio.ensure_future(producer.commit_transaction())
                await asyncio.sleep(0)
                committing.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await committing
            await producer.send("t", b"b")
            await producer.commit_transaction()

    asyncio.run(story())
    assert committed(broker) == [b"a", b"b"]


def test_who_waits_for_the_end_of_a_transaction_hears_that_the_producer_is_closed(broker: headrace.Broker) -> None:
    async def story() -> None:
        producer = headrace.aio.Producer(broker.address, transactional_id="x")
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("t", b"a")
        with broker.faults.delay("EndTxn", seconds=30, times=1) as fault:
            committing = asyncio.ensure_future(producer.commit_transaction())
            await asyncio.to_thread(fault.wait)
            await producer.close(0)
        with pytest.raises(ClosedError):
            await committing

    asyncio.run(story())


def test_who_waits_for_a_busy_coordinator_hears_that_the_producer_is_closed(broker: headrace.Broker) -> None:
    async def story() -> None:
        producer = headrace.aio.Producer(broker.address, transactional_id="x", retry_backoff_ms=30_000)
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("t", b"a")
        with broker.faults.answer("EndTxn", error="CONCURRENT_TRANSACTIONS") as fault:
            committing = asyncio.ensure_future(producer.commit_transaction())
            await asyncio.to_thread(fault.wait)
            gate = producer._transactions
            while gate._finishing is None:
                await asyncio.sleep(0)
            await producer.close(0)
        with pytest.raises(ClosedError):
            await committing

    asyncio.run(story())
