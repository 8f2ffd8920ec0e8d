"""The producer for asyncio against a broker in this process."""

import asyncio
from collections.abc import Iterator, Sequence

import pytest

import headrace
import headrace.aio
from headrace.protocol.records import Record
from tests.support.topic_reading import read_topic


@pytest.fixture
def broker() -> Iterator[headrace.Broker]:
    with headrace.Broker(num_partitions=3) as broker:
        broker.create_topic("t", partitions=1)
        broker.create_topic("wide", partitions=4)
        yield broker


def values(records: Sequence[Record]) -> list[bytes | None]:
    return [record.value for record in records]


async def fail_in_async_transaction(producer: headrace.aio.Producer) -> None:
    async with producer.transaction():
        await producer.send("t", b"b")
        raise ValueError("no")


class TestAsyncio:
    def test_the_same_for_asyncio(self, broker: headrace.Broker) -> None:
        async def main() -> None:
            async with headrace.aio.Producer(broker.address) as producer:
                first = await producer.send("t", b"a")
                assert (await first).offset == 0
                rest = [await producer.send("t", str(number)) for number in range(100)]
                await producer.flush()
                assert [(await each).offset for each in rest] == list(range(1, 101))
                assert await producer.partitions("wide") == [0, 1, 2, 3]

        asyncio.run(main())

    def test_transactions(self, broker: headrace.Broker) -> None:
        async def main() -> None:
            async with headrace.aio.Producer(broker.address, transactional_id="x") as producer:
                async with producer.transaction():
                    await producer.send("t", b"a")
                with pytest.raises(ValueError, match="no"):
                    await fail_in_async_transaction(producer)

        asyncio.run(main())
        assert values(read_topic(broker.address, "t", committed=True)) == [b"a"]

    def test_a_producer_whose_close_is_cancelled_delivers_and_closes_all_the_same(
        self, broker: headrace.Broker
    ) -> None:
        async def story() -> None:
            producer = headrace.aio.Producer(broker.address, linger_ms=0)
            await (await producer.send("t", b"a"))
            fault = broker.faults.delay("Produce", seconds=0.5, times=1)
            delivery = await producer.send("t", b"b")
            closing = asyncio.create_task(producer.close())
            await asyncio.to_thread(fault.wait)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            await producer.close()  # waits for the end of the first one
            assert delivery.result(0).offset == 1
            assert len(asyncio.all_tasks()) == 1, "nothing of it goes on"

        asyncio.run(story())

    def test_a_full_buffer_is_awaited(self, broker: headrace.Broker) -> None:
        async def main() -> None:
            async with headrace.aio.Producer(broker.address, buffer_memory=3_000, batch_size=500) as producer:
                for number in range(200):
                    await producer.send("t", str(number).rjust(200))

        asyncio.run(main())
        assert len(read_topic(broker.address, "t")) == 200
