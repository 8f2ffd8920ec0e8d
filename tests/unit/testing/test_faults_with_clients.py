"""Clients that people use, against a broker that fails in many ways: nothing is lost, doubled or out of order."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest

import headrace
from headrace.testing import Fault

pytestmark = pytest.mark.slow

TOPIC = "orders"
VALUES = [b"%d" % number for number in range(10)]
SECONDS = 120.0  # so long the machine may be busy; what needs it is broken
BACKOFF_MS = 10


def confluent(address: str) -> list[bytes]:
    settings: dict[str, Any] = {"bootstrap.servers": address, "log_level": 0, "retry.backoff.ms": BACKOFF_MS}
    producer = confluent_kafka.Producer(settings | {"enable.idempotence": True})
    for value in VALUES:
        producer.produce(TOPIC, value)
        assert producer.flush(SECONDS) == 0
    consumer = confluent_kafka.Consumer(settings | {"group.id": "g", "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, confluent_kafka.OFFSET_BEGINNING)])
    found = [consumer.poll(SECONDS).value() for _ in VALUES]
    consumer.close()
    return found


def kafka_python(address: str) -> list[bytes]:
    producer = kafka.KafkaProducer(bootstrap_servers=address, enable_idempotence=True, retry_backoff_ms=BACKOFF_MS)
    for value in VALUES:
        producer.send(TOPIC, value).get(SECONDS)
    producer.close()
    consumer = kafka.KafkaConsumer(bootstrap_servers=address, enable_auto_commit=False, retry_backoff_ms=BACKOFF_MS)
    consumer.assign([kafka.TopicPartition(TOPIC, 0)])
    consumer.seek_to_beginning()
    found = [next(consumer).value for _ in VALUES]
    consumer.close()
    return found


def aio(address: str) -> list[bytes]:
    async def use() -> list[bytes]:
        settings: dict[str, Any] = {"bootstrap_servers": address, "retry_backoff_ms": BACKOFF_MS}
        async with aiokafka.AIOKafkaProducer(enable_idempotence=True, **settings) as producer:
            for value in VALUES:
                await producer.send_and_wait(TOPIC, value)
        async with aiokafka.AIOKafkaConsumer(enable_auto_commit=False, **settings) as consumer:
            consumer.assign([aiokafka.TopicPartition(TOPIC, 0)])
            await consumer.seek_to_beginning()
            return [(await consumer.getone()).value for _ in VALUES]

    return asyncio.run(asyncio.wait_for(use(), SECONDS))


@pytest.fixture
def broker() -> Iterator[headrace.Broker]:
    with headrace.Broker() as broker:
        broker.create_topic(TOPIC)
        yield broker


def inject(broker: headrace.Broker) -> list[Fault]:
    faults = broker.faults
    return [
        faults.answer("Metadata", error="LEADER_NOT_AVAILABLE", topic=TOPIC, times=2),
        faults.answer("InitProducerId", error="COORDINATOR_LOAD_IN_PROGRESS", times=1),
        faults.answer("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2),
        faults.drop("Produce", when="after", times=2),
        faults.drop("Produce", when="before", times=1),
        faults.delay("Produce", seconds=0.01, times=1),
        faults.answer("Fetch", error="NOT_LEADER_OR_FOLLOWER", topic=TOPIC, times=2),
        faults.drop("Fetch", when="before", times=1),
        faults.delay("Fetch", seconds=0.01, times=1),
    ]


@pytest.mark.parametrize("client", [confluent, kafka_python, aio])
def test_clients_survive(client: Callable[[str], list[bytes]], broker: headrace.Broker) -> None:
    faults = inject(broker)
    assert client(broker.address) == VALUES
    assert [fault.hits for fault in faults] == [fault.times for fault in faults]
