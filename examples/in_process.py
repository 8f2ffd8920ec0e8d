"""A Kafka broker inside this process: no Docker, no JVM, no port to choose. Any Kafka client can use it.

Run it: `python examples/in_process.py`
"""

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

import headrace

with headrace.Broker() as broker:  # Broker("data/") would keep its data
    broker.create_topic("orders")
    client = {"bootstrap.servers": broker.address, "log_level": 0}

    producer = Producer(client)
    for number in range(3):
        producer.produce("orders", key="alice", value=f"order {number}")
    producer.flush()

    consumer = Consumer(client | {"group.id": "billing", "enable.auto.commit": False})
    consumer.assign([TopicPartition("orders", 0, OFFSET_BEGINNING)])
    for _ in range(3):
        message = consumer.poll(timeout=30)
        print(f"offset {message.offset()}: {message.key().decode()} -> {message.value().decode()}")
    consumer.close()

print("The broker has stopped, and its data is gone.")
