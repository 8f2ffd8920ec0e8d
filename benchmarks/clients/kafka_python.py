"""kafka-python."""

import time
from contextlib import closing
from itertools import islice

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from benchmarks.clients import PARTITION, VALUE, WrongCountError, check_size


def produce(address: str, topic: str, count: int) -> float:
    with closing(KafkaProducer(bootstrap_servers=address, acks="all", linger_ms=5)) as producer:
        producer.partitions_for(topic)
        last = None
        start = time.perf_counter()
        for _ in range(count):
            last = producer.send(topic, VALUE)
        producer.flush()
        seconds = time.perf_counter() - start
        if last is not None and last.get().offset < count - 1:
            raise WrongCountError(f"the last of {count} records has offset {last.get().offset}")
    return seconds


def consume(address: str, topic: str, count: int) -> float:
    settings = {"bootstrap_servers": address, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    with closing(KafkaConsumer(**settings)) as consumer:
        consumer.partitions_for_topic(topic)
        start = time.perf_counter()
        consumer.assign([TopicPartition(topic, PARTITION)])
        size = 0
        for record in islice(consumer, count):
            size += len(record.value)
        seconds = time.perf_counter() - start
    check_size(size, count)
    return seconds
