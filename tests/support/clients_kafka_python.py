"""kafka-python in few words, for tests: every call has a deadline, and everything is closed at the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from tests.support.both_brokers import ready

SECONDS: Final = 120.0  # so long the machine may be busy; what needs it is broken


def create_topic(address: str, name: str, partitions: int = 1, **configs: str) -> str:
    """Its name. Configs by their names with underscores."""
    own = {key.replace("_", "."): value for key, value in configs.items()}
    with admin(address) as client:
        wanted = {name: {"num_partitions": partitions, "replication_factor": 1, "configs": own}}
        client.create_topics(wanted, wait_for_metadata=True)
    ready(address, name, partitions)
    return name


@contextmanager
def admin(address: str) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=address)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def sending(address: str, **configs: Any) -> Iterator[Any]:
    producer = KafkaProducer(bootstrap_servers=address, **configs)
    try:
        yield producer
    finally:
        producer.close(timeout=SECONDS)


@contextmanager
def assigned(address: str, *partitions: TopicPartition, **configs: Any) -> Iterator[Any]:
    """A consumer without a group that stands at the beginning of these partitions."""
    settings = {"group_id": None, "auto_offset_reset": "none", "consumer_timeout_ms": SECONDS * 1000, **configs}
    consumer = KafkaConsumer(bootstrap_servers=address, **settings)
    try:
        consumer.assign(list(partitions))
        consumer.seek_to_beginning()
        yield consumer
    finally:
        consumer.close()


def take(consumer: Any, count: int) -> list[Any]:
    """The next `count` records, in the order in which they come."""
    records = []
    for record in consumer:
        records.append(record)
        if len(records) == count:
            return records
    raise AssertionError(f"{len(records)} records of {count} came within {SECONDS} s")


def read(address: str, topic: str, count: int, *, partition: int = 0, **configs: Any) -> list[Any]:
    """The first `count` records of a partition."""
    with assigned(address, TopicPartition(topic, partition), **configs) as consumer:
        return take(consumer, count)
