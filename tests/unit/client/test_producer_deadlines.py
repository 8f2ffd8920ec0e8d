"""Records whose time is over while they are in flight, and what comes after them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

import headrace
from headrace.client.delivery import Delivery
from headrace.client.errors import DeliveryTimeoutError, TransactionAbortedError
from tests.support.topic_reading import read_topic
from tests.support.waiting import wait_until

PLACE: Final = headrace.TopicPartition("t", 0)
# The second request goes after about two seconds, is in flight when the time is over, and answered before it times out.
DELIVERY_SECONDS: Final = 6.0
ANSWER_SECONDS: Final = 5.0
SETTINGS: Final[dict[str, Any]] = {
    "delivery_timeout_ms": int(DELIVERY_SECONDS * 1000),
    "request_timeout_ms": 5_800,
    "retry_backoff_ms": 2_000,
    "retry_backoff_max_ms": 2_000,
    "linger_ms": 0,
}


@pytest.fixture
def broker() -> Iterator[headrace.Broker]:
    with headrace.Broker() as broker:
        broker.create_topic("t", partitions=1)
        yield broker


@contextmanager
def in_flight_at_its_deadline(broker: headrace.Broker, producer: headrace.Producer) -> Iterator[Delivery]:
    """The record is stored, and the answer comes when nobody waits for it any more."""
    with broker.faults.answer("Produce", error="NOT_ENOUGH_REPLICAS", times=1) as refusal:
        delivery = producer.send("t", b"late")
        refusal.wait()
    with broker.faults.delay("Produce", seconds=ANSWER_SECONDS, times=1) as delay:
        yield delivery
        delay.wait()


def in_flight_requests(producer: headrace.Producer) -> int:
    return sum(producer._core.sender._in_flight.values())


def epoch(broker: headrace.Broker) -> int:
    with headrace.Admin(broker.address) as admin:
        return max(each.producer_epoch for each in admin.describe_producers([PLACE])[PLACE])


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_a_record_in_flight_fails_at_its_deadline_and_a_late_answer_changes_nothing(
    broker: headrace.Broker, caplog: pytest.LogCaptureFixture, *, is_idempotent: bool
) -> None:
    with headrace.Producer(broker.address, enable_idempotence=is_idempotent, **SETTINGS) as producer:
        producer.send("t", b"first").result(120)
        started = time.monotonic()
        with in_flight_at_its_deadline(broker, producer) as late:
            error = late.exception(120)
        elapsed = time.monotonic() - started
        assert isinstance(error, DeliveryTimeoutError)
        assert "no answer yet" in str(error)
        assert error.tried == "2 requests"
        assert elapsed >= DELIVERY_SECONDS
        wait_until(lambda: in_flight_requests(producer) == 0)
        assert late.exception(0) is error
        assert producer._core.sender.batches._used_bytes == 0
        assert producer.send("t", b"next").result(120).offset == 2
        if is_idempotent:
            assert epoch(broker) == 1
    assert [record.value for record in read_topic(broker.address, "t")] == [b"first", b"late", b"next"]
    assert not caplog.records


def test_a_transaction_whose_record_is_in_flight_at_its_deadline_breaks(broker: headrace.Broker) -> None:
    with headrace.Producer(broker.address, transactional_id="x", **SETTINGS) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        with in_flight_at_its_deadline(broker, producer) as late:
            with pytest.raises(TransactionAbortedError, match=r"delivery\.timeout\.ms"):
                producer.commit_transaction()
            assert isinstance(late.exception(0), DeliveryTimeoutError)
        producer.abort_transaction()
        with producer.transaction():
            producer.send("t", b"next")
    assert [record.value for record in read_topic(broker.address, "t", committed=True)] == [b"next"]


@pytest.mark.slow
def test_what_was_sent_behind_a_record_that_is_given_up_is_stored_once(broker: headrace.Broker) -> None:
    """Both are stored, and no answer comes before the connection is given up. Then the time of the first one is over,
    and that of the second one, which is younger, is not."""
    settings = {**SETTINGS, "delivery_timeout_ms": 8_000, "request_timeout_ms": 6_500, "retry_backoff_ms": 1_000}
    with headrace.Producer(broker.address, **settings) as producer:
        producer.send("t", b"first").result(120)
        started = time.monotonic()
        with broker.faults.answer("Produce", error="NOT_ENOUGH_REPLICAS", times=2) as refusals:
            older = producer.send("t", b"older")
            wait_until(lambda: refusals.hits == 2)
        with broker.faults.delay("Produce", seconds=20, times=1) as delay:
            wait_until(lambda: time.monotonic() > started + 4)
            younger = producer.send("t", b"younger")
            delay.wait()
            assert isinstance(older.exception(120), DeliveryTimeoutError)
            younger.result(120)
        producer.send("t", b"next").result(120)
    values = [record.value for record in read_topic(broker.address, "t")]
    assert values == [b"first", b"older", b"younger", b"next"]
