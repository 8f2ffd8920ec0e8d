"""Reading from a broker that fails: errors as answers, connections that break before and after the effect, crashes."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

import headrace
from headrace.client.consumer import Consumer
from tests.support.consuming import SECONDS, fill, read, values
from tests.support.faulty_broker import GROUP, PLACE, QUICK, TOPIC, broker_with_orders


@pytest.fixture
def broker() -> Iterator[headrace.Broker]:
    with broker_with_orders() as made:
        yield made


@pytest.fixture
def consumer(broker: headrace.Broker) -> Iterator[Consumer]:
    """It fetches from the moment that it has something to read: what is to fail must fail before."""
    with headrace.Consumer(broker.address, **QUICK) as consumer:
        yield consumer


@pytest.mark.parametrize(
    "error",
    [
        "NOT_LEADER_OR_FOLLOWER",
        "UNKNOWN_LEADER_EPOCH",
        "FENCED_LEADER_EPOCH",
        "KAFKA_STORAGE_ERROR",
        "OFFSET_NOT_AVAILABLE",
        "REPLICA_NOT_AVAILABLE",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_ID",
        "UNKNOWN_SERVER_ERROR",
        "FETCH_SESSION_ID_NOT_FOUND",
        "INVALID_FETCH_SESSION_EPOCH",
    ],
)
def test_errors_that_pass_lose_and_double_nothing(broker: headrace.Broker, consumer: Consumer, error: str) -> None:
    with broker.faults.answer("Fetch", error=error, times=3) as fault:
        consumer.assign([PLACE])
        assert [record.offset for record in read(consumer, 10)] == list(range(10))
        assert fault.hits == 3


@pytest.mark.parametrize("when", ["before", "after"])
def test_lost_connections_lose_and_double_nothing(broker: headrace.Broker, consumer: Consumer, when: Any) -> None:
    with broker.faults.drop("Fetch", when=when, times=3) as fault:
        consumer.assign([PLACE])
        assert [record.offset for record in read(consumer, 10)] == list(range(10))
        assert fault.hits == 3


def test_an_error_that_does_not_pass_is_the_users(broker: headrace.Broker, consumer: Consumer) -> None:
    with broker.faults.answer("Fetch", error="TOPIC_AUTHORIZATION_FAILED"):
        consumer.assign([PLACE])
        with pytest.raises(headrace.AuthorizationError, match="orders-0 cannot be read"):
            read(consumer, 1)
    deadline = time.monotonic() + SECONDS
    while True:  # it may have come a second time before it went away
        assert time.monotonic() < deadline
        try:
            assert values(read(consumer, 1)) == ["0"]
            break
        except headrace.AuthorizationError:
            pass


def test_questions_about_offsets_are_asked_again(broker: headrace.Broker, consumer: Consumer) -> None:
    faults = [
        broker.faults.answer("ListOffsets", error="NOT_LEADER_OR_FOLLOWER", times=2),
        broker.faults.drop("ListOffsets", when="after", times=1),
    ]
    assert consumer.end_offsets([PLACE]) == {PLACE: 10}
    assert [fault.hits for fault in faults] == [2, 1]
    with (
        broker.faults.answer("ListOffsets", error="NOT_LEADER_OR_FOLLOWER"),
        pytest.raises(headrace.KafkaError, match=r"orders-0: .*Tried: \d+ attempts in"),
    ):
        consumer.end_offsets([PLACE], timeout=0.2)


def test_a_partition_that_has_its_place_does_not_wait_for_one_whose_leader_does_not_answer() -> None:
    patient = {**QUICK, "request_timeout_ms": 300_000}
    with (
        broker_with_orders() as broker,
        headrace.Consumer(broker.address, group=GROUP, **patient) as consumer,
        broker.faults.delay("ListOffsets", seconds=3600) as fault,
    ):
        broker.create_topic("others", 1)
        consumer.commit({PLACE: 7})
        consumer.assign([PLACE, headrace.TopicPartition("others", 0)])
        fault.wait()
        assert values(read(consumer, 3)) == ["7", "8", "9"]


def test_a_crash_and_a_restart_are_survived(broker: headrace.Broker, consumer: Consumer) -> None:
    consumer.assign([PLACE])
    assert len(read(consumer, 10)) == 10
    broker.kill()
    assert consumer.poll(0.1) == []
    broker.restart()
    fill(broker.address, TOPIC, {0: ["after"]})
    assert values(read(consumer, 1)) == ["after"]


def test_a_topic_that_was_made_anew_is_read_from_its_beginning(broker: headrace.Broker, consumer: Consumer) -> None:
    consumer.assign([PLACE])
    assert len(read(consumer, 10)) == 10
    with headrace.Admin(broker.address) as admin:
        admin.delete_topic(TOPIC)
        admin.create_topic(TOPIC)
    fill(broker.address, TOPIC, {0: ["anew"]})
    assert values(read(consumer, 1)) == ["anew"]


def test_records_that_retention_took_are_passed_over(broker: headrace.Broker, consumer: Consumer) -> None:
    with headrace.Admin(broker.address) as admin:
        admin.delete_records({PLACE: 6})
    consumer.assign([PLACE])
    assert [record.offset for record in read(consumer, 4)] == [6, 7, 8, 9]
    consumer.seek(PLACE, 2)
    assert [record.offset for record in read(consumer, 4)] == [6, 7, 8, 9]


def test_a_consumer_that_finds_no_broker_waits_for_one(broker: headrace.Broker) -> None:
    broker.kill()
    with headrace.Consumer(broker.address, group=GROUP, topics=[TOPIC], **QUICK) as consumer:
        assert consumer.poll(0.1) == []
        broker.restart()
        assert len(read(consumer, 10)) == 10


def test_closing_does_not_wait_long_for_a_broker_that_is_gone(broker: headrace.Broker) -> None:
    consumer = headrace.Consumer(broker.address, group=GROUP, topics=[TOPIC], **QUICK)
    read(consumer, 10)
    broker.kill()
    started = time.monotonic()
    consumer.close()
    assert time.monotonic() - started < 30


def test_a_consumer_that_seeks_is_not_told_that_it_had_no_place_to_begin(broker: headrace.Broker) -> None:
    with headrace.Consumer(broker.address, **{**QUICK, "auto_offset_reset": "none"}) as consumer:
        consumer.assign([PLACE])
        with pytest.raises(headrace.NoOffsetError, match="auto_offset_reset is none"):
            consumer.position(PLACE)
        consumer.seek(PLACE, 7)
        assert values(read(consumer, 3)) == ["7", "8", "9"]
