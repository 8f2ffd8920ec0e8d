"""Words for tests of the consumer: fill a topic, and read a number of records."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import headrace

SECONDS: Final = 120.0  # so long the machine may be busy; what needs it is broken


def fill(
    bootstrap: str, topic: str, texts: Mapping[int, Sequence[str]], *, timestamp: int | None = None, **configs: Any
) -> None:
    """Produce texts by partition."""
    with headrace.Producer(bootstrap, **configs) as producer:
        deliveries = [
            producer.send(topic, text, partition=partition, timestamp=timestamp)
            for partition, each in texts.items()
            for text in each
        ]
        for delivery in deliveries:
            delivery.result(SECONDS)


def read(consumer: headrace.Consumer, count: int) -> list[headrace.ConsumerRecord]:
    """So many records, and no more."""
    records: list[headrace.ConsumerRecord] = []
    deadline = time.monotonic() + SECONDS
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records came within {SECONDS} s"
        records += consumer.poll(1.0, max_records=count - len(records))
    return records


def values(records: Iterable[headrace.ConsumerRecord]) -> list[str]:
    return [record.value.decode() for record in records]
