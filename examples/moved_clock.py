"""A week in a moment: the broker goes by a clock that the program moves.

Run it: `python examples/moved_clock.py`
"""

from confluent_kafka import Consumer, Producer, TopicPartition

import headrace
from headrace.testing import MovableClock

HOUR = 3600
DAY = 24 * HOUR

with headrace.Broker(clock=MovableClock()) as broker:
    broker.create_topic("orders", retention_ms=7 * DAY * 1000)

    client = {"bootstrap.servers": broker.address, "log_level": 0}

    producer = Producer(client)
    for number in range(5):
        producer.produce("orders", f"order {number}")
    producer.flush()

    consumer = Consumer(client | {"group.id": "billing", "enable.auto.commit": False})

    def show(when: str) -> None:
        first, end = consumer.get_watermark_offsets(TopicPartition("orders", 0), timeout=30)
        print(f"{when}: {end - first} orders, and the next one gets offset {end}")

    show("now")
    broker.clock.advance(6 * DAY)  # returns when all that was due has happened
    show("after 6 days")
    broker.clock.advance(1 * DAY + 1 * HOUR)
    show("after 7 days and an hour")
    consumer.close()
