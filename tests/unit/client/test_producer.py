"""The producer against a broker in this process: what is delivered, where, and what is told."""

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal

import pytest

import headrace
import headrace.aio
from headrace.client.errors import (
    ConfigError,
    FencedError,
    TransactionAbortedError,
    UnknownTopicError,
    WrongStateError,
)
from headrace.client.group_member import GroupMember
from headrace.client.producer_core import ProducerRecord
from headrace.protocol.records import Record
from tests.support.topic_reading import read_topic
from tests.support.waiting import wait_until

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


class TestRecords:
    def test_everything_of_a_record_arrives(self, broker: headrace.Broker, producer: headrace.Producer) -> None:
        sent = producer.send("t", b"v", b"k", headers=[("h", b"1"), ("h", None)], timestamp=1_700_000_000_000)
        assert sent.result(10) == ("t", 0, 0, 1_700_000_000_000)
        (record,) = read_topic(broker.address, "t")
        assert (record.key, record.value, record.timestamp) == (b"k", b"v", 1_700_000_000_000)
        assert list(record.headers) == [("h", b"1"), ("h", None)]

    def test_text_becomes_utf8_and_none_stays_none(self, broker: headrace.Broker, producer: headrace.Producer) -> None:
        producer.send("t", "grün", "schlüssel")
        producer.send("t", None, "schlüssel")
        producer.flush(10)
        assert [(record.key, record.value) for record in read_topic(broker.address, "t")] == [
            ("schlüssel".encode(), "grün".encode()),
            ("schlüssel".encode(), None),
        ]

    def test_what_is_neither_bytes_nor_text_needs_a_serializer(self, broker: headrace.Broker) -> None:
        with headrace.Producer(broker.address) as plain, pytest.raises(TypeError, match="value_serializer"):
            plain.send("t", {"a": 1})
        with headrace.Producer(broker.address, key_serializer="int", value_serializer="json") as producer:
            producer.send("t", {"a": [1, "ü"]}, 7).result(10)
        (record,) = read_topic(broker.address, "t")
        assert (record.key, record.value) == (bytes(7) + b"\x07", '{"a":[1,"ü"]}'.encode())

    def test_a_function_may_serialize(self, broker: headrace.Broker) -> None:
        with headrace.Producer(broker.address, value_serializer=lambda topic, n: f"{topic}:{n}".encode()) as producer:
            producer.send("t", 5).result(10)
        assert values(read_topic(broker.address, "t")) == [b"t:5"]

    def test_many_records_keep_their_order(self, broker: headrace.Broker, producer: headrace.Producer) -> None:
        sent = [producer.send("t", str(number)) for number in range(5_000)]
        producer.flush(30)
        assert [each.result(0).offset for each in sent] == list(range(5_000))
        assert values(read_topic(broker.address, "t")) == [str(number).encode() for number in range(5_000)]

    @pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
    def test_every_codec(self, broker: headrace.Broker, codec: str) -> None:
        with headrace.Producer(broker.address, compression_type=codec) as producer:
            for number in range(100):
                producer.send("t", f"value {number}")
        assert values(read_topic(broker.address, "t")) == [f"value {number}".encode() for number in range(100)]

    @pytest.mark.parametrize("acks", ["0", "1", "all", 0, -1])
    def test_every_kind_of_acknowledgement(self, broker: headrace.Broker, acks: Any) -> None:
        with headrace.Producer(broker.address, acks=acks) as producer:
            delivery = producer.send("t", b"v")
            assert delivery.result(10).offset == (-1 if acks in (0, "0") else 0)

    def test_closing_loses_nothing_that_nobody_acknowledges(self, broker: headrace.Broker) -> None:
        with headrace.Producer(broker.address, acks=0, linger_ms=0) as producer:
            for _ in range(40):
                producer.send("t", bytes(900_000))  # together more than sockets take

        def end() -> int:
            with headrace.Consumer(broker.address) as consumer:
                return consumer.end_offsets([TopicPartition("t", 0)])[TopicPartition("t", 0)]

        wait_until(lambda: end() == 40, "all of it is written")

    def test_a_topic_that_is_not_there_is_created_if_the_broker_may(
        self, broker: headrace.Broker, producer: headrace.Producer
    ) -> None:
        producer.send("new", b"v").result(10)
        assert producer.partitions("new") == [0, 1, 2]

    def test_callbacks_hear_of_it(self, producer: headrace.Producer) -> None:
        told: list[Any] = []
        producer.send("t", b"v", on_delivery=lambda metadata, error: told.append((metadata, error)))
        delivery = producer.send("t", b"w")
        producer.flush(10)
        delivery.add_callback(lambda metadata, error: told.append((metadata, error)))
        assert [(metadata.offset, error) for metadata, error in told] == [(0, None), (1, None)]

    def test_a_callback_that_fails_harms_nobody(self, producer: headrace.Producer) -> None:
        def careless(*_: Any) -> None:
            raise ValueError("oops")

        producer.send("t", b"v", on_delivery=careless)
        producer.flush(10)
        assert producer.send("t", b"w").result(10).offset == 1

    def test_interceptors_change_records_and_hear_of_their_fate(self, broker: headrace.Broker) -> None:
        class Stamp:
            def __init__(self) -> None:
                self.told: list[Any] = []

            def on_send(self, record: ProducerRecord) -> ProducerRecord:
                return record._replace(value=f"[{record.value}]")

            def on_acknowledgement(self, metadata: Any, error: Any) -> None:
                self.told.append((metadata.offset, error))

        stamp = Stamp()
        with headrace.Producer(broker.address, interceptor_classes=[stamp]) as producer:
            producer.send("t", "v").result(10)
        assert values(read_topic(broker.address, "t")) == [b"[v]"]
        assert stamp.told == [(0, None)]

    def test_several_threads_may_send(self, broker: headrace.Broker, producer: headrace.Producer) -> None:
        def send(name: str) -> None:
            for number in range(500):
                producer.send("t", f"{name}{number}")

        threads = [threading.Thread(target=send, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush(30)
        stored = values(read_topic(broker.address, "t"))
        for name in "abcd":
            own = [value for value in stored if value is not None and value.startswith(name.encode())]
            assert own == [f"{name}{number}".encode() for number in range(500)]


class TestPartitions:
    def test_a_key_goes_where_java_sends_it(self, producer: headrace.Producer) -> None:
        # Utils.toPositive(Utils.murmur2(key)) % 4
        expected = {b"21": 0, b"foobar": 2, b"abc": 3, b"a-little-bit-long-string": 0}
        placed = {key: producer.send("wide", b"v", key).result(10).partition for key in expected}
        assert placed == expected

    def test_a_partition_may_be_named(self, producer: headrace.Producer) -> None:
        assert producer.send("wide", b"v", b"abc", partition=1).result(10).partition == 1
        with pytest.raises(UnknownTopicError, match="partitions 0 to 3"):
            producer.send("wide", b"v", partition=4)

    def test_records_without_a_key_stay_together_and_then_move_on(self, broker: headrace.Broker) -> None:
        with headrace.Producer(broker.address, batch_size=1_000, linger_ms=0) as producer:
            placed = [producer.send("wide", bytes(300)).result(10).partition for _ in range(200)]
        changes = sum(1 for before, after in pairwise(placed) if before != after)
        assert set(placed) == {0, 1, 2, 3}
        assert changes < 100

    def test_round_robin(self, broker: headrace.Broker) -> None:
        with headrace.Producer(broker.address, partitioner_class="round_robin") as producer:
            placed = [producer.send("wide", b"v", b"same").result(10).partition for _ in range(6)]
        assert placed == [0, 1, 2, 3, 0, 1]

    def test_a_function_of_ones_own(self, broker: headrace.Broker) -> None:
        def last(topic: str, key: bytes | None, value: bytes | None, partitions: Sequence[int]) -> int:
            return partitions[-1]

        with headrace.Producer(broker.address, partitioner_class=last) as producer:
            assert producer.send("wide", b"v").result(10).partition == 3

    def test_a_function_that_names_a_partition_which_is_not_there_is_told_so(self, broker: headrace.Broker) -> None:
        def beyond(topic: str, key: bytes | None, value: bytes | None, partitions: Sequence[int]) -> int:
            return len(partitions)

        producer = headrace.Producer(broker.address, partitioner_class=beyond)
        with producer, pytest.raises(UnknownTopicError, match="there is no partition 4"):
            producer.send("wide", b"v")

    def test_keys_may_be_ignored(self, broker: headrace.Broker) -> None:
        with headrace.Producer(broker.address, partitioner_ignore_keys=True, batch_size=1, linger_ms=0) as producer:
            placed = {producer.send("wide", b"v", b"same").result(10).partition for _ in range(100)}
        assert len(placed) > 1


class TestConfigs:
    def test_an_unknown_one_names_the_nearest(self) -> None:
        with pytest.raises(ConfigError, match=r"linger\.ms"):
            headrace.Producer("localhost:9092", lingr_ms=5)

    @pytest.mark.parametrize(
        ("configs", "words"),
        [
            ({"enable_idempotence": True, "acks": 1}, "acks must be all"),
            ({"enable_idempotence": True, "max_in_flight_requests_per_connection": 6}, "at most 5"),
            ({"transactional_id": "t", "enable_idempotence": False}, "enable.idempotence must be true"),
            ({"delivery_timeout_ms": 100}, "delivery.timeout.ms must be at least"),
            ({"partitioner_class": "elsewhere"}, "round_robin"),
            ({"value_serializer": "xml"}, "one of bytes, str, int, json"),
        ],
    )
    def test_what_does_not_fit_together_is_told(self, configs: dict[str, Any], words: str) -> None:
        with pytest.raises(ConfigError, match=words):
            headrace.Producer("localhost:9092", **configs)

    def test_names_with_dots_and_the_java_way_of_values(self, broker: headrace.Broker) -> None:
        config = {"linger.ms": "0", "enable.idempotence": "false", "compression.type": "gzip"}
        with headrace.Producer(broker.address, config=config) as producer:
            assert producer.send("t", b"v").result(10).offset == 0


def fail_in_transaction(writer: headrace.Producer, act: Callable[[], Any]) -> None:
    with writer.transaction():
        act()
        raise ValueError("no")


class TestTransactions:
    @pytest.fixture
    def writer(self, broker: headrace.Broker) -> Iterator[headrace.Producer]:
        with headrace.Producer(broker.address, transactional_id="x", retry_backoff_ms=1) as writer:
            yield writer

    def committed(self, broker: headrace.Broker, topic: str = "t") -> list[bytes | None]:
        return values(read_topic(broker.address, topic, committed=True))

    def test_what_is_committed_is_seen_and_what_is_aborted_is_not(
        self, broker: headrace.Broker, writer: headrace.Producer
    ) -> None:
        with writer.transaction():
            writer.send("t", b"a")
            writer.send("wide", b"b", partition=2)
        with pytest.raises(ValueError, match="no"):
            fail_in_transaction(writer, lambda: writer.send("t", b"c"))
        with writer.transaction():
            writer.send("t", b"d")
        assert self.committed(broker) == [b"a", b"d"]
        assert self.committed(broker, "wide") == [b"b"]

    def test_step_by_step(self, broker: headrace.Broker, writer: headrace.Producer) -> None:
        with pytest.raises(WrongStateError, match="init_transactions"):
            writer.begin_transaction()
        writer.init_transactions()
        with pytest.raises(WrongStateError, match="begin_transaction"):
            writer.send("t", b"v")
        writer.begin_transaction()
        writer.send("t", b"v")
        with pytest.raises(WrongStateError, match="commit or abort"):
            writer.begin_transaction()
        writer.commit_transaction()
        assert self.committed(broker) == [b"v"]

    def test_an_empty_transaction_costs_nothing(self, broker: headrace.Broker, writer: headrace.Producer) -> None:
        fault = broker.faults.delay("EndTxn", seconds=0)
        for _ in range(3):
            with writer.transaction():
                pass
        assert fault.hits == 0

    def test_a_second_producer_with_the_same_id_fences_the_first(
        self, broker: headrace.Broker, writer: headrace.Producer
    ) -> None:
        writer.init_transactions()
        writer.begin_transaction()
        writer.send("t", b"lost").result(10)
        with headrace.Producer(broker.address, transactional_id="x", retry_backoff_ms=1) as second:
            with second.transaction():
                second.send("t", b"kept")
            with pytest.raises(FencedError, match="Another producer"):
                writer.commit_transaction()
            with pytest.raises(FencedError):
                writer.begin_transaction()
        assert self.committed(broker) == [b"kept"]

    def test_a_record_that_fails_breaks_the_transaction(
        self, broker: headrace.Broker, writer: headrace.Producer
    ) -> None:
        def send_good_and_bad() -> None:
            with writer.transaction():
                writer.send("t", b"good")
                writer.flush(10)
                broker.faults.answer("Produce", error="INVALID_RECORD", times=1)
                writer.send("t", b"bad")

        with pytest.raises(TransactionAbortedError, match="INVALID_RECORD"):
            send_good_and_bad()
        with writer.transaction():
            writer.send("t", b"next")
        assert self.committed(broker) == [b"next"]

    @pytest.mark.parametrize("api", ["Produce", "EndTxn", "InitProducerId", "FindCoordinator"])
    @pytest.mark.parametrize("when", ["before", "after"])
    def test_dropped_connections_change_nothing(
        self, broker: headrace.Broker, writer: headrace.Producer, api: str, when: Literal["before", "after"]
    ) -> None:
        broker.faults.drop(api, when=when, times=2)
        for number in range(5):
            with writer.transaction():
                for each in range(3):
                    writer.send("t", f"{number}.{each}")
        assert self.committed(broker) == [f"{number}.{each}".encode() for number in range(5) for each in range(3)]

    @pytest.mark.parametrize("api", ["EndTxn", "InitProducerId"])
    @pytest.mark.parametrize(
        "code",
        ["CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"],
    )
    def test_a_coordinator_that_is_busy_or_elsewhere_is_waited_for(
        self, broker: headrace.Broker, writer: headrace.Producer, api: str, code: str
    ) -> None:
        broker.faults.answer(api, error=code, times=2)
        with writer.transaction():
            writer.send("t", b"v")
        assert self.committed(broker) == [b"v"]

    def test_offsets_are_committed_with_it_and_only_with_it(
        self, broker: headrace.Broker, writer: headrace.Producer
    ) -> None:
        place = TopicPartition("wide", 1)
        with writer.transaction():
            writer.send_offsets({place: 5}, "g")
        with pytest.raises(ValueError, match="no"):
            fail_in_transaction(writer, lambda: writer.send_offsets({place: 9}, GroupMember("g")))
        with headrace.Admin(broker.address) as admin:
            assert admin.list_group_offsets("g")[place].offset == 5

    def test_a_producer_without_an_id_has_no_transactions(self, producer: headrace.Producer) -> None:
        with pytest.raises(WrongStateError, match="transactional_id"):
            producer.begin_transaction()
