"""Tests against a real broker, fresh for each test: installing Headrace gives pytest these fixtures.

Run it: `pytest examples/test_with_a_broker.py`
"""

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition


def sell(address: str, topic: str, *items: str) -> None:
    """What is tested: a program that sends its orders to Kafka."""
    refused = []
    producer = Producer({"bootstrap.servers": address, "log_level": 0})
    for item in items:
        producer.produce(topic, item, on_delivery=lambda error, _: error and refused.append(error))
    producer.flush()
    if refused:
        raise KafkaException(refused[0])


def test_every_order_arrives(headrace_broker, headrace_topic):
    sell(headrace_broker.address, headrace_topic, "apple", "pear")

    client = {"bootstrap.servers": headrace_broker.address, "group.id": "test", "log_level": 0}
    consumer = Consumer(client | {"enable.auto.commit": False})
    consumer.assign([TopicPartition(headrace_topic, 0, OFFSET_BEGINNING)])
    assert [consumer.poll(timeout=30).value() for _ in range(2)] == [b"apple", b"pear"]
    consumer.close()


@pytest.mark.headrace(topic_config={"max.message.bytes": 1000})
def test_an_order_that_is_too_large_is_not_lost_in_silence(headrace_broker, headrace_topic):
    with pytest.raises(KafkaException, match="Message size too large"):
        sell(headrace_broker.address, headrace_topic, "apple" * 1000)
