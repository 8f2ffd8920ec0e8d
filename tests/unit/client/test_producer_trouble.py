"""A producer in trouble with its broker or the network: nothing is lost, doubled or reordered, and errors say why."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from typing import Literal

import pytest

import headrace
import headrace.aio
from headrace.client.delivery import Delivery
from headrace.client.errors import (
    BufferFullError,
    ClosedError,
    DeliveryTimeoutError,
    KafkaError,
    RecordTooLargeError,
)
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.records import Record
from tests.support.topic_reading import read_topic

TopicPartition = headrace.TopicPartition


@pytest.fixture
def broker() -> Iterator[headrace.Broker]:
    with headrace.Broker(num_partitions=3) as broker:
        broker.create_topic("t", partitions=1)
        broker.create_topic("wide", partitions=4)
        yield broker


@pytest.fixture
def producer(broker: headrace.Broker) -> Iterator[headrace.Producer]:
    with headrace.Producer(broker.address) as producer:
        yield producer


def values(records: Sequence[Record]) -> list[bytes | None]:
    return [record.value for record in records]


class TestTrouble:
    @pytest.mark.parametrize("when", ["before", "after"])
    def test_a_dropped_connection_neither_loses_nor_doubles_nor_reorders(
        self, broker: headrace.Broker, when: Literal["before", "after"]
    ) -> None:
        with headrace.Producer(broker.address, linger_ms=0, batch_size=200, retry_backoff_ms=1) as producer:
            producer.send("t", b"first").result(10)
            fault = broker.faults.drop("Produce", when=when, times=3)
            for number in range(300):
                producer.send("t", str(number))
            producer.flush(30)
            assert fault.hits == 3
        assert values(read_topic(broker.address, "t"))[1:] == [str(number).encode() for number in range(300)]

    @pytest.mark.parametrize(
        "code",
        [
            "NOT_LEADER_OR_FOLLOWER",
            "NOT_ENOUGH_REPLICAS",
            "KAFKA_STORAGE_ERROR",
            "UNKNOWN_TOPIC_OR_PARTITION",
            "OUT_OF_ORDER_SEQUENCE_NUMBER",
        ],
    )
    def test_errors_that_pass_are_waited_out_in_order(self, broker: headrace.Broker, code: str) -> None:
        with headrace.Producer(broker.address, linger_ms=0, batch_size=200, retry_backoff_ms=1) as producer:
            fault = broker.faults.answer("Produce", error=code, times=3)
            for number in range(100):
                producer.send("t", str(number))
            producer.flush(30)
            assert fault.hits == 3
        assert values(read_topic(broker.address, "t")) == [str(number).encode() for number in range(100)]

    def test_an_error_that_does_not_pass_is_told(self, broker: headrace.Broker, producer: headrace.Producer) -> None:
        broker.faults.answer("Produce", error="INVALID_RECORD", times=1)
        error = producer.send("t", b"v").exception(10)
        assert error is not None
        assert error.code is ErrorCode.INVALID_RECORD
        assert "1 requests" in error.tried
        assert producer.send("t", b"w").result(10).offset == 0, "and the next one goes on"

    def test_a_producer_that_the_broker_has_forgotten_goes_on(self, broker: headrace.Broker) -> None:
        with headrace.Producer(broker.address, retry_backoff_ms=1) as producer:
            producer.send("t", b"a").result(10)
            broker.faults.answer("Produce", error="UNKNOWN_PRODUCER_ID", times=1)
            producer.send("t", b"b").result(10)
            producer.send("t", b"c").result(10)
        assert values(read_topic(broker.address, "t")) == [b"a", b"b", b"c"]

    def test_the_broker_restarts(self, broker: headrace.Broker) -> None:
        with headrace.Producer(broker.address, linger_ms=0, retry_backoff_ms=10) as producer:
            producer.send("t", b"before").result(10)
            broker.restart()
            for number in range(50):
                producer.send("t", str(number))
            producer.flush(30)
        assert values(read_topic(broker.address, "t")) == [b"before", *(str(number).encode() for number in range(50))]

    def test_a_batch_that_the_broker_finds_too_large_is_split(self, broker: headrace.Broker) -> None:
        broker.create_topic("small", partitions=1, max_message_bytes=2_000)
        with headrace.Producer(broker.address, batch_size=100_000, linger_ms=10_000) as producer:
            sent = [producer.send("small", str(number).rjust(100)) for number in range(100)]
            too_large = producer.send("small", bytes(3_000))
            producer.flush(30)
            assert isinstance(too_large.exception(0), RecordTooLargeError)
            assert [each.result(0).offset for each in sent] == list(range(100))
        assert values(read_topic(broker.address, "small")) == [str(number).rjust(100).encode() for number in range(100)]

    def test_a_record_beyond_the_limit_of_the_client_is_refused_at_once(self, producer: headrace.Producer) -> None:
        with pytest.raises(RecordTooLargeError, match=r"max\.request\.size"):
            producer.send("t", bytes(2_000_000))

    def test_nobody_listens(self, broker: headrace.Broker) -> None:
        with (
            headrace.Producer("localhost:1", max_block_ms=300, retry_backoff_ms=10) as producer,
            pytest.raises(KafkaError, match="localhost:1"),
        ):
            producer.send("t", b"v")

    def test_time_runs_out(self, broker: headrace.Broker) -> None:
        with headrace.Producer(
            broker.address, delivery_timeout_ms=400, request_timeout_ms=200, linger_ms=0, retry_backoff_ms=10
        ) as producer:
            broker.faults.answer("Produce", error="NOT_ENOUGH_REPLICAS")
            error = producer.send("t", b"v").exception(10)
            assert isinstance(error, KafkaError)
            broker.faults.clear()
            assert producer.send("t", b"w").result(10).offset == 0

    def test_a_full_buffer_blocks_and_gives_up(self, broker: headrace.Broker) -> None:
        broker.faults.answer("Produce", error="NOT_ENOUGH_REPLICAS")
        with headrace.Producer(broker.address, buffer_memory=1_000, max_block_ms=100, linger_ms=0) as producer:
            producer.send("t", bytes(600))
            with pytest.raises(BufferFullError, match=r"buffer\.memory"):
                producer.send("t", bytes(600))
            broker.faults.clear()

    def test_room_comes_when_records_go(self, broker: headrace.Broker) -> None:
        with headrace.Producer(broker.address, buffer_memory=5_000, batch_size=1_000) as producer:
            for number in range(500):
                producer.send("t", str(number).rjust(200))
        assert len(read_topic(broker.address, "t")) == 500

    def test_closing_delivers_what_was_sent(self, broker: headrace.Broker) -> None:
        producer = headrace.Producer(broker.address, linger_ms=60_000)
        deliveries = [producer.send("t", b"v") for _ in range(10)]
        producer.close()
        assert [each.result(0).offset for each in deliveries] == list(range(10))
        with pytest.raises(ClosedError):
            producer.send("t", b"v")
        producer.close()

    def test_a_flush_does_not_wait_for_what_others_send_meanwhile(self, broker: headrace.Broker) -> None:
        with headrace.Producer(broker.address, linger_ms=0) as producer:
            producer.send("t", b"a").result(30)
            deliveries = 0

            def send_another(*_: object) -> None:
                nonlocal deliveries
                deliveries += 1
                if deliveries < 1_000:
                    producer.send("t", b"again", on_delivery=send_another)

            producer.send("t", b"first", on_delivery=send_another)
            producer.flush(30)
            assert deliveries < 1_000

    def test_a_record_that_is_on_its_way_into_a_batch_when_the_producer_is_closed_fails(
        self, broker: headrace.Broker
    ) -> None:
        is_choosing, may_choose = threading.Event(), threading.Event()

        def choose(*_: object) -> int:
            is_choosing.set()
            may_choose.wait(30)
            return 0

        producer = headrace.Producer(broker.address, partitioner_class=choose)
        producer.partitions("t")
        sent: list[Delivery] = []
        thread = threading.Thread(target=lambda: sent.append(producer.send("t", b"v")))
        thread.start()
        assert is_choosing.wait(30)
        producer.close()
        may_choose.set()
        thread.join()
        assert isinstance(sent[0].exception(30), ClosedError)

    def test_a_record_that_was_awaited_on_a_loop_that_is_closed_harms_nobody(
        self, broker: headrace.Broker, producer: headrace.Producer
    ) -> None:
        producer.send("t", b"a").result(30)

        async def give_up(sent: Delivery) -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await sent

        with broker.faults.delay("Produce", seconds=0.3, times=1):
            sent = producer.send("t", b"b")
            asyncio.run(give_up(sent))
            producer.flush(30)
        assert sent.result(0).offset == 1

    def test_closing_with_a_limit_gives_up(self, broker: headrace.Broker) -> None:
        producer = headrace.Producer(broker.address)
        producer.send("t", b"v").result(10)
        broker.faults.answer("Produce", error="NOT_ENOUGH_REPLICAS")
        delivery = producer.send("t", b"w")
        producer.close(timeout=0.1)
        assert isinstance(delivery.exception(10), KafkaError)


def test_delivery_timeouts_say_what_was_tried(broker: headrace.Broker) -> None:
    with headrace.Producer(
        broker.address, delivery_timeout_ms=300, request_timeout_ms=100, linger_ms=0, retry_backoff_ms=150
    ) as producer:
        producer.send("t", b"v").result(10)
        broker.faults.answer("Produce", error="NOT_LEADER_OR_FOLLOWER")
        error = producer.send("t", b"w").exception(10)
        assert isinstance(error, KafkaError)
        assert isinstance(error, DeliveryTimeoutError) or error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert "requests" in error.tried
