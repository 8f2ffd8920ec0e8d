"""confluent-kafka, which is librdkafka."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.clients import PARTITION, SILENCE_SECONDS, VALUE, WrongCountError, check_size

_MANY = 10_000
REST_MS: Final = 1  # the least: it suits the slower broker, too


def produce(address: str, topic: str, count: int) -> float:
    failures: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": address,
            # Its fastest way; our producer tells every fate, too, but only to those who ask.
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: failures.append(error),
        }
    )
    producer.list_topics(topic)
    start = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, VALUE)
                break
            except BufferError:  # the client's queue is full: the broker is behind
                producer.poll(0.01)
    left = producer.flush(SILENCE_SECONDS)
    seconds = time.perf_counter() - start
    if left or failures:
        raise WrongCountError(f"{left} records were not acknowledged, and {len(failures)} failed: {failures[:3]}")
    return seconds


def consume(address: str, topic: str, count: int) -> float:
    """One record at a time."""
    with closing(_consumer(address, topic)) as consumer:
        start = time.perf_counter()
        consumer.assign([TopicPartition(topic, PARTITION, 0)])
        size = 0
        for _ in range(count):
            size += len(_checked(consumer.poll(SILENCE_SECONDS)).value())
        seconds = time.perf_counter() - start
    check_size(size, count)
    return seconds


def consume_many(address: str, topic: str, count: int) -> float:
    """Thousands of records at a time, which is its fastest way."""
    return _consume_many(_consumer(address, topic), topic, count)


def consume_with_short_rests(address: str, topic: str, count: int) -> float:
    """The same with short rests.

    By default it rests for a second whenever 100,000 messages are queued: then no broker's speed is measured. Without
    any rest, in a queue that takes them all, the broker that is faster has the longer queue, whose memory is fresh and
    costs the client more than the broker's speed gains.
    """
    return _consume_many(_consumer(address, topic, **{"fetch.queue.backoff.ms": REST_MS}), topic, count)


def _consume_many(client: Any, topic: str, count: int) -> float:
    with closing(client) as consumer:
        start = time.perf_counter()
        consumer.assign([TopicPartition(topic, PARTITION, 0)])
        size = seen = 0
        while seen < count:
            found = consumer.consume(min(_MANY, count - seen), timeout=SILENCE_SECONDS)  # waits for all of them
            if not found:
                raise WrongCountError(f"{seen} of {count} records came within {SILENCE_SECONDS:.0f} s")
            for message in found:
                size += len(_checked(message).value())
            seen += len(found)
        seconds = time.perf_counter() - start
    check_size(size, count)
    return seconds


def _consumer(address: str, topic: str, **configs: Any) -> Any:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "benchmark", "enable.auto.commit": False, **configs})
    consumer.list_topics(topic)
    return consumer


def _checked(message: Any) -> Any:
    if message is None or message.error() is not None:
        raise WrongCountError("no record came" if message is None else str(message.error()))
    return message


# For latency.py


def sender(address: str, topic: str) -> tuple[Callable[[bytes], object], Callable[[], object]]:
    """How to send one value at once, and how to end."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
    producer.list_topics(topic)
    return lambda value: producer.produce(topic, value), producer.flush


def values(address: str, topic: str) -> Iterator[bytes]:
    """Values as they come."""
    with closing(_consumer(address, topic)) as consumer:
        consumer.assign([TopicPartition(topic, PARTITION, 0)])
        while True:
            yield _checked(consumer.poll(SILENCE_SECONDS)).value()
