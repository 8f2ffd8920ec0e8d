"""Batches that the broker finds too large: halves take their place, in a transaction, too."""

from collections.abc import Iterator

import pytest

import headrace
from headrace.client.errors import RecordTooLargeError, TransactionAbortedError
from tests.support.topic_reading import read_topic

SMALL = "small"


@pytest.fixture
def broker() -> Iterator[headrace.Broker]:
    with headrace.Broker() as broker:
        broker.create_topic(SMALL, partitions=1, max_message_bytes=2_000)
        yield broker


def texts(count: int) -> list[str]:
    return [str(number).rjust(100) for number in range(count)]


def committed(broker: headrace.Broker) -> list[str]:
    return [(record.value or b"").decode() for record in read_topic(broker.address, SMALL, committed=True)]


@pytest.fixture
def writer(broker: headrace.Broker) -> Iterator[headrace.Producer]:
    with headrace.Producer(
        broker.address, transactional_id="x", batch_size=10_000, linger_ms=10_000, retry_backoff_ms=1
    ) as writer:
        yield writer


def test_a_transaction_whose_batches_are_split_is_committed(broker: headrace.Broker, writer: headrace.Producer) -> None:
    with writer.transaction():
        sent = [writer.send(SMALL, text) for text in texts(300)]
        writer.flush(30)
        assert [each.result(0).offset for each in sent] == list(range(300))
    with writer.transaction():
        writer.send(SMALL, "next")
    assert committed(broker) == [*texts(300), "next"]


def test_a_record_that_is_too_large_alone_breaks_the_transaction_and_the_next_one_goes_on(
    broker: headrace.Broker, writer: headrace.Producer
) -> None:
    def send_too_much() -> None:
        with writer.transaction():
            for text in texts(50):
                writer.send(SMALL, text)
            writer.send(SMALL, bytes(3_000))

    with pytest.raises(TransactionAbortedError, match="MESSAGE_TOO_LARGE"):
        send_too_much()
    with writer.transaction():
        writer.send(SMALL, "next")
    assert committed(broker) == ["next"]


def test_a_batch_that_is_refused_after_its_transaction_was_given_up_is_not_split(
    broker: headrace.Broker, writer: headrace.Producer
) -> None:
    writer.init_transactions()
    writer.begin_transaction()
    with broker.faults.delay("Produce", seconds=0.3) as fault:
        sent = [writer.send(SMALL, text) for text in texts(99)]
        fault.wait()
        writer.abort_transaction()
    assert all(isinstance(each.exception(0), TransactionAbortedError | RecordTooLargeError) for each in sent)
    with writer.transaction():
        writer.send(SMALL, "next")
    assert committed(broker) == ["next"]


def test_halves_keep_the_order_among_what_was_on_its_way_behind_them(broker: headrace.Broker) -> None:
    with headrace.Producer(broker.address, batch_size=5_000, linger_ms=0, retry_backoff_ms=1) as producer:
        first = producer.send(SMALL, b"first")
        first.result(30)
        sent = [producer.send(SMALL, text) for text in texts(500)]
        producer.flush(30)
        assert [each.result(0).offset for each in sent] == list(range(1, 501))
    assert committed(broker) == ["first", *texts(500)]
