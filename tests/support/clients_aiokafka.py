"""aiokafka in few words, for tests: everything is started, has a deadline, and is stopped at the end."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, ParamSpec

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.support.both_brokers import ready

SECONDS: Final = 120.0  # so long the machine may be busy; what needs it is broken
P = ParamSpec("P")


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that is a coroutine, run on a loop of its own."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


@asynccontextmanager
async def administering(address: str) -> AsyncIterator[Any]:
    client = AIOKafkaAdminClient(bootstrap_servers=address)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def create_topic(address: str, name: str, partitions: int = 1, **configs: str) -> str:
    """Its name. Configs by their names with underscores."""
    own = {key.replace("_", "."): value for key, value in configs.items()}
    async with administering(address) as client:
        response = await client.create_topics([NewTopic(name, partitions, 1, topic_configs=own)])
        assert response.topic_errors[0][1] == 0, response.topic_errors
    await asyncio.to_thread(ready, address, name, partitions)
    return name


@asynccontextmanager
async def sending(address: str, **configs: Any) -> AsyncIterator[Any]:
    producer = AIOKafkaProducer(bootstrap_servers=address, **configs)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


@asynccontextmanager
async def assigned(address: str, *partitions: TopicPartition, **configs: Any) -> AsyncIterator[Any]:
    """A consumer without a group that stands at the beginning of these partitions."""
    settings = {"group_id": None, "auto_offset_reset": "none", "enable_auto_commit": False, **configs}
    consumer = AIOKafkaConsumer(bootstrap_servers=address, **settings)
    await consumer.start()
    try:
        consumer.assign(list(partitions))
        if partitions:
            await consumer.seek_to_beginning()
        yield consumer
    finally:
        await consumer.stop()


async def take(consumer: Any, count: int) -> list[Any]:
    """The next `count` records, in the order in which they come."""
    return [await asyncio.wait_for(consumer.getone(), SECONDS) for _ in range(count)]


async def read(address: str, topic: str, count: int, *, partition: int = 0, **configs: Any) -> list[Any]:
    """The first `count` records of a partition."""
    async with assigned(address, TopicPartition(topic, partition), **configs) as consumer:
        return await take(consumer, count)
