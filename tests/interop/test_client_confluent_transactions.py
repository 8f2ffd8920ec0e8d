"""confluent-kafka (librdkafka) in transactions: all or nothing is read, with offsets, and zombies are fenced."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, Consumer, KafkaException, Producer, TopicPartition

from tests.support.broker_process import BrokerProcess
from tests.support.clients_confluent import SECONDS, assigned, create_topic
from tests.support.clients_confluent_groups import PROTOCOLS, crew
from tests.support.waiting import wait_until

PARTITIONS = 3


@pytest.fixture
def made(address: str, topic: str) -> str:
    return create_topic(address, topic, PARTITIONS)


def transactional(address: str, name: str, *, timeout_ms: int = 60_000) -> Producer:
    """A producer that has introduced itself."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "transactional.id": name,
            "transaction.timeout.ms": timeout_ms,
            "linger.ms": 1,
            "log_level": 0,
            "retry.backoff.ms": 20,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
            # librdkafka forgets a broker that was away, sends offsets to what it has forgotten, and hangs.
            "metadata.recovery.strategy": "none",
        }
    )
    producer.init_transactions(SECONDS)
    return producer


def write(producer: Producer, topic: str, numbers: range) -> None:
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(SECONDS) == 0


def failure(call: Callable[[], object]) -> str:
    with pytest.raises(KafkaException) as caught:
        call()
    return str(caught.value.args[0].name())


def read_all(address: str, topic: str, isolation: str) -> list[int]:
    """What a consumer finds up to the ends that it is told of."""
    places = [TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(PARTITIONS)]
    settings = {"isolation_level": isolation, "enable_partition_eof": True, "fetch_wait_max_ms": 10}
    found: list[int] = []
    ends = 0
    with assigned(address, *places, **settings) as consumer:
        while ends < PARTITIONS:
            message = consumer.poll(SECONDS)
            assert message is not None
            if message.error() is None:
                found.append(int(message.value() or b""))
            else:
                assert message.error().name() == "_PARTITION_EOF"
                ends += 1
    return sorted(found)


def test_what_is_committed_is_read_and_what_is_aborted_or_open_is_not(address: str, made: str) -> None:
    producer = transactional(address, made)
    for first in range(0, 50, 10):
        producer.begin_transaction()
        write(producer, made, range(first, first + 10))
        if first % 20:
            producer.abort_transaction(SECONDS)
        else:
            producer.commit_transaction(SECONDS)
    committed = [number for number in range(50) if not number // 10 % 2]
    assert read_all(address, made, "read_committed") == committed
    assert read_all(address, made, "read_uncommitted") == list(range(50))
    producer.begin_transaction()
    write(producer, made, range(50, 60))
    other = Producer({"bootstrap.servers": address, "log_level": 0})
    write(other, made, range(60, 66))  # nobody may read past the open transaction
    assert read_all(address, made, "read_committed") == committed
    assert read_all(address, made, "read_uncommitted") == list(range(66))
    producer.commit_transaction(SECONDS)
    assert read_all(address, made, "read_committed") == [*committed, *range(50, 66)]


def test_a_second_producer_with_the_same_name_fences_the_first(address: str, made: str) -> None:
    old = transactional(address, made)
    old.begin_transaction()
    write(old, made, range(10))
    new = transactional(address, made)  # and the open transaction is aborted
    new.begin_transaction()
    write(new, made, range(10, 20))
    old.produce(made, b"666", partition=0)
    assert failure(lambda: old.commit_transaction(SECONDS)) == "_FENCED"
    new.commit_transaction(SECONDS)
    assert read_all(address, made, "read_committed") == list(range(10, 20))
    assert 666 not in read_all(address, made, "read_uncommitted")


def test_a_transaction_that_takes_too_long_is_aborted(address: str, made: str) -> None:
    producer = transactional(address, made, timeout_ms=1000)
    producer.begin_transaction()
    write(producer, made, range(10))
    other = Producer({"bootstrap.servers": address, "log_level": 0})
    write(other, made, range(10, 13))
    wait_until(lambda: read_all(address, made, "read_committed") == [10, 11, 12], "the coordinator aborts it")
    producer.produce(made, b"13", partition=0)
    assert failure(lambda: producer.commit_transaction(SECONDS)) == "_FENCED"
    assert read_all(address, made, "read_committed") == [10, 11, 12]


# Offsets in transactions


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_offsets_count_if_the_transaction_is_committed(address: str, made: str, protocol: str) -> None:
    filler = Producer({"bootstrap.servers": address, "log_level": 0})
    write(filler, made, range(30))
    output = create_topic(address, f"{made}-out", PARTITIONS)
    producer = transactional(address, made)
    with crew(address, made) as group:
        member = group.join(protocol, made, isolation_level="read_committed")
        places = [(made, index) for index in range(PARTITIONS)]
        group.share(*places)
        group.until(lambda: len(member.got) == 30, "everything is read")

        def process(number: int) -> None:
            producer.begin_transaction()
            write(producer, output, range(number, number + 3))
            rows = [TopicPartition(*place, number) for place in places]
            producer.send_offsets_to_transaction(rows, member.consumer.consumer_group_metadata(), SECONDS)

        process(3)
        producer.abort_transaction(SECONDS)
        assert member.committed(*places) == [OFFSET_INVALID] * PARTITIONS
        process(6)
        producer.commit_transaction(SECONDS)
        assert member.committed(*places) == [6] * PARTITIONS
        assert read_all(address, output, "read_committed") == [6, 7, 8]
        # Others see the offsets when the transaction has ended; until then they are told to wait.
        process(9)
        assert failure(lambda: _committed_at_once(address, made)) == "_TIMED_OUT"
        producer.commit_transaction(SECONDS)
        assert member.committed(*places) == [9] * PARTITIONS


def _committed_at_once(address: str, group: str) -> None:
    with assigned(address, group_id=group, isolation_level="read_committed") as consumer:
        consumer.committed([TopicPartition(group, 0)], timeout=0.5)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_offsets_of_a_member_that_is_gone_are_refused(address: str, made: str, protocol: str) -> None:
    producer = transactional(address, made)
    with crew(address, made) as group:
        member = group.join(protocol, made)
        group.share(*((made, index) for index in range(PARTITIONS)))
        metadata = member.consumer.consumer_group_metadata()
    producer.begin_transaction()
    write(producer, made, range(3))
    rows = [TopicPartition(made, 0, 1)]
    told = failure(lambda: producer.send_offsets_to_transaction(rows, metadata, SECONDS))
    assert told == "UNKNOWN_MEMBER_ID"
    producer.abort_transaction(SECONDS)
    assert read_all(address, made, "read_committed") == []


# A broker that comes back


@pytest.mark.slow
@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "killed"])
def test_a_broker_that_starts_again_between_any_two_steps_ends_transactions_as_they_were_meant(
    tmp_path: Path, topic: str, crash: bool
) -> None:
    with BrokerProcess(tmp_path) as broker:
        create_topic(broker.bootstrap, topic, PARTITIONS)
        producer = transactional(broker.bootstrap, topic)
        settings = {"group.id": "nobody", "log_level": 0, "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, **settings})

        def send_offset(offset: int) -> None:
            rows = [TopicPartition(topic, 0, offset)]
            producer.send_offsets_to_transaction(rows, consumer.consumer_group_metadata(), SECONDS)

        for step in (
            producer.begin_transaction,
            partial(write, producer, topic, range(10)),
            partial(send_offset, 1),
            partial(write, producer, topic, range(10, 20)),
            partial(producer.commit_transaction, SECONDS),
            producer.begin_transaction,
            partial(write, producer, topic, range(20, 30)),
            partial(send_offset, 2),
            partial(producer.abort_transaction, SECONDS),
            producer.begin_transaction,
            partial(write, producer, topic, range(30, 40)),
            partial(producer.commit_transaction, SECONDS),
        ):
            if crash:
                broker.kill()
            else:
                broker.stop()
            broker.start()
            step()
        assert read_all(broker.bootstrap, topic, "read_committed") == [*range(20), *range(30, 40)]
        (row,) = consumer.committed([TopicPartition(topic, 0)], timeout=SECONDS)
        assert row.offset == 1
        consumer.close()
        broker.check_log()
