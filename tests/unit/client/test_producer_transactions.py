"""Transactions whose end is interrupted, and those that have nothing to end."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

import headrace
import headrace.aio
from headrace.client.errors import WrongStateError
from tests.support.topic_reading import read_topic


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
