"""A producer that survives: the broker refuses some requests, and breaks a connection when it has done what was asked.

Run it: `python examples/faults.py`
"""

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

import headrace

ORDERS = 10

with headrace.Broker() as broker:
    broker.create_topic("orders")
    refused = broker.faults.answer("Produce", error="NOT_LEADER_OR_FOLLOWER", topic="orders", times=3)
    dropped = broker.faults.drop("Produce", when="after", times=1)  # the record is written, its acknowledgement is lost

    client = {"bootstrap.servers": broker.address, "log_level": 0}
    failed = []
    # Without idempotence, what was written before the drop would be there twice.
    producer = Producer(client | {"enable.idempotence": True, "retry.backoff.ms": 10})
    for number in range(ORDERS):
        producer.produce("orders", f"order {number}", on_delivery=lambda error, _: error and failed.append(error))
        producer.flush()
    print(f"{ORDERS} orders sent, {len(failed)} failed; refused {refused.hits} times, dropped {dropped.hits} time")

    consumer = Consumer(client | {"group.id": "billing", "enable.auto.commit": False})
    consumer.assign([TopicPartition("orders", 0, OFFSET_BEGINNING)])
    found = [consumer.poll(timeout=30).value().decode() for _ in range(ORDERS)]
    _, end = consumer.get_watermark_offsets(TopicPartition("orders", 0))
    consumer.close()
    print(f"{end} orders are in the topic, {len(set(found))} different ones, in order: {found == sorted(found)}")
