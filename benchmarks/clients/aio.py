"""aiokafka."""

import asyncio
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from benchmarks.clients import PARTITION, VALUE, WrongCountError, check_size


def produce(address: str, topic: str, count: int) -> float:
    return asyncio.run(_produce(address, topic, count))


def consume(address: str, topic: str, count: int) -> float:
    return asyncio.run(_consume(address, topic, count))


async def _produce(address: str, topic: str, count: int) -> float:
    # As our producer's and confluent-kafka's: without it, a batch would leave after each turn of the loop.
    producer = AIOKafkaProducer(bootstrap_servers=address, acks="all", linger_ms=5)
    await producer.start()
    try:
        await producer.partitions_for(topic)
        last = None
        start = time.perf_counter()
        for _ in range(count):
            last = await producer.send(topic, VALUE)
        await producer.flush()
        seconds = time.perf_counter() - start
        if last is not None and (await last).offset < count - 1:
            raise WrongCountError(f"the last of {count} records has offset {(await last).offset}")
    finally:
        await producer.stop()
    return seconds


async def _consume(address: str, topic: str, count: int) -> float:
    consumer = AIOKafkaConsumer(bootstrap_servers=address, enable_auto_commit=False, auto_offset_reset="earliest")
    await consumer.start()
    try:
        start = time.perf_counter()
        consumer.assign([TopicPartition(topic, PARTITION)])
        seen = size = 0
        async for record in consumer:
            size += len(record.value)
            seen += 1
            if seen == count:
                break
        seconds = time.perf_counter() - start
    finally:
        await consumer.stop()
    check_size(size, count)
    return seconds
