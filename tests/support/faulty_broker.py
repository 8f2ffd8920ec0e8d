"""A broker to be hit by faults, with ten records in one partition, and what consumers need to be quick about them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import headrace
from headrace.client.consumer import Consumer
from headrace.client.topic_partition import TopicPartition
from tests.support.consuming import SECONDS, fill

TOPIC: Final = "orders"
PLACE: Final = TopicPartition(TOPIC, 0)
GROUP: Final = "billing"
QUICK: Final[dict[str, Any]] = {
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 10,
    "reconnect_backoff_ms": 1,
    "reconnect_backoff_max_ms": 10,
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "allow_auto_create_topics": False,
}


@contextmanager
def broker_with_orders(**settings: Any) -> Iterator[headrace.Broker]:
    """The values are "0" to "9"."""
    with headrace.Broker(**settings) as broker:
        broker.create_topic(TOPIC, 1)
        fill(broker.address, TOPIC, {0: [str(number) for number in range(10)]})
        yield broker


@contextmanager
def member_of_group(broker: headrace.Broker, **configs: Any) -> Iterator[Consumer]:
    settings = {**QUICK, "heartbeat_interval_ms": 20, **configs}
    with headrace.Consumer(broker.address, group=GROUP, **settings) as consumer:
        yield consumer


def poll_until(condition: Callable[[], bool], consumer: Consumer) -> list[headrace.ConsumerRecord]:
    """What came until it held."""
    records: list[headrace.ConsumerRecord] = []
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen within {SECONDS} s"
        records += consumer.poll(0.01)
    return records


def committed(consumer: Consumer) -> int | None:
    found = consumer.committed([PLACE])[PLACE]
    return None if found is None else found.offset
