"""confluent-kafka (librdkafka) produces; what it wrote is read back by another of its kind."""

import random
import time

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME

from tests.support.clients_confluent import admin, create_topic, outcomes, read, sender, values

NOON_MS = 1_700_000_000_000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_sent_is_read_whatever_the_compression(address: str, topic: str, codec: str) -> None:
    create_topic(address, topic)
    producer = sender(address, compression_type=codec, linger_ms=20)
    sent = [
        (None if n % 7 == 0 else b"key %d" % n, None if n % 11 == 0 else b"value %d " % n * 20, NOON_MS + n)
        for n in range(500)
    ]
    headers = [("kind", b"test"), ("empty", b""), ("none", None), ("kind", b"again")]
    for key, value, timestamp in sent:
        producer.send(topic, value, key=key, timestamp=timestamp, headers=headers, partition=0)
    producer.flush()
    assert not producer.failed
    assert [message.offset() for message in producer.delivered] == list(range(500))

    got = read(address, topic, 500)
    assert [(each.key(), each.value(), each.timestamp()[1]) for each in got] == sent
    assert {each.timestamp()[0] for each in got} == {TIMESTAMP_CREATE_TIME}
    assert all(each.headers() == headers for each in got)
    assert [each.offset() for each in got] == list(range(500))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement(address: str, topic: str, acks: str) -> None:
    create_topic(address, topic)
    producer = sender(address, acks=acks)
    for n in range(100):
        producer.send(topic, b"%d" % n, partition=0)
    producer.flush()
    offsets = [message.offset() for message in producer.delivered]
    assert offsets == ([None] * 100 if acks == "0" else list(range(100)))  # nobody tells where they went
    assert values(read(address, topic, 100)) == [b"%d" % n for n in range(100)]


def test_an_idempotent_producer_writes_everything_once_and_in_order(address: str, topic: str) -> None:
    create_topic(address, topic, 3)
    producer = sender(address, enable_idempotence=True, linger_ms=0, batch_num_messages=10)
    for n in range(1500):
        producer.send(topic, b"%d" % n, partition=n % 3)
        producer.producer.poll(0)
    producer.flush()
    assert not producer.failed
    for partition in range(3):
        expected = [b"%d" % n for n in range(partition, 1500, 3)]
        assert values(read(address, topic, 500, partition=partition)) == expected


def test_keys_choose_the_partition_and_the_default_spreads(address: str, topic: str) -> None:
    create_topic(address, topic, 4)
    producer = sender(address, partitioner="murmur2_random")
    for n in range(200):
        producer.send(topic, b"%d" % n, key=b"user %d" % (n % 20))
    producer.flush()
    places: dict[bytes, set[int]] = {}
    for message in producer.delivered:
        places.setdefault(message.key(), set()).add(message.partition())
    assert all(len(partitions) == 1 for partitions in places.values())
    assert len(set.union(*places.values())) == 4


def test_a_topic_is_created_by_the_first_message(address: str, topic: str) -> None:
    producer = sender(address)
    producer.send(topic, b"first")
    producer.flush()
    assert [message.offset() for message in producer.delivered] == [0]
    assert values(read(address, topic, 1)) == [b"first"]


def test_the_size_limit_is_the_topics(address: str, topic: str) -> None:
    large, huge = 5_000_000, 6_000_000
    create_topic(address, topic, max_message_bytes=str(large + 1000))
    create_topic(address, f"{topic}-small")
    content = random.Random(1).randbytes(huge)
    producer = sender(address, message_max_bytes=10_000_000)
    producer.send(topic, content[:large], partition=0)
    producer.send(topic, content[:huge], partition=0)
    producer.send(f"{topic}-small", content[:large], partition=0)
    producer.flush()
    assert producer.failed == ["MSG_SIZE_TOO_LARGE", "MSG_SIZE_TOO_LARGE"]
    # Far above what a fetch asks for by default, and sent all the same: the first batch always is.
    assert values(read(address, topic, 1, fetch_message_max_bytes=1000)) == [content[:large]]


def test_what_a_topic_does_not_take_is_refused_by_name(address: str, topic: str) -> None:
    create_topic(address, f"{topic}-compacted", cleanup_policy="compact")
    create_topic(address, f"{topic}-timely", message_timestamp_after_max_ms="60000")
    create_topic(address, topic, 2)
    for wanted, options, expected in (
        (f"{topic}-compacted", {}, "INVALID_RECORD"),
        (f"{topic}-timely", {"timestamp": int(time.time() * 1000) + 3_600_000}, "INVALID_TIMESTAMP"),
        (topic, {"partition": 2}, "_UNKNOWN_PARTITION"),
        ("bad name", {}, "TOPIC_EXCEPTION"),
    ):
        producer = sender(address)
        producer.send(wanted, b"value", **options)
        producer.flush()
        assert (producer.delivered, producer.failed) == ([], [expected]), wanted
    producer = sender(address)
    producer.send(f"{topic}-compacted", b"value", key=b"key")
    producer.send(f"{topic}-timely", b"value")
    producer.flush()
    assert len(producer.delivered) == 2


def test_the_brokers_clock_stamps_where_the_topic_says_so(address: str, topic: str) -> None:
    create_topic(address, topic, message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)
    producer = sender(address, compression_type="lz4")
    for n in range(10):
        producer.send(topic, b"%d" % n, partition=0, timestamp=NOON_MS)
    producer.flush()
    after_ms = int(time.time() * 1000)
    for message in read(address, topic, 10):
        kind, timestamp = message.timestamp()
        assert kind == TIMESTAMP_LOG_APPEND_TIME
        assert before_ms <= timestamp <= after_ms


@pytest.mark.parametrize("stored", ["gzip", "zstd", "uncompressed"])
def test_a_topic_may_store_in_another_compression_than_it_gets(address: str, topic: str, stored: str) -> None:
    create_topic(address, topic, compression_type=stored)
    sent = [b"%d " % n * 50 for n in range(200)]
    for codec in ("none", "lz4"):
        producer = sender(address, compression_type=codec, linger_ms=20)
        for value in sent:
            producer.send(topic, value, partition=0)
        producer.flush()
        assert not producer.failed
    assert values(read(address, topic, 400)) == sent * 2


def test_a_producer_is_told_when_its_topic_is_gone(address: str, topic: str) -> None:
    create_topic(address, topic)
    producer = sender(address, topic_metadata_propagation_max_ms=500, allow_auto_create_topics=False)
    producer.send(topic, b"before", partition=0)
    producer.flush()
    client = admin(address)
    assert outcomes(client.delete_topics([topic])) == {topic: None}
    producer.send(topic, b"after", partition=0)
    producer.flush()
    # By which of several names depends on what librdkafka hears first.
    assert (len(producer.delivered), len(producer.failed)) == (1, 1)
