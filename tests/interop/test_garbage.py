"""What clients ask of a broker leaves nothing behind that goes by the garbage collector only.

All requests wait while that runs: a consumer that kept up with 1,000 records a second made it stop everybody for two
milliseconds, again and again.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

import headrace
from headrace.protocol.messages.fetch import FetchRequest
from headrace.server.later import Later
from tests.support.clients_confluent import SECONDS, admin, assigned, create_topic, sender, take_one
from tests.support.one_topic import FETCH_VERSION, client_of, fetch_request

TIMES: Final = 20
# Not those of clients, which other tests may have left in this process.
_BROKERS: Final = ("headrace.server.", "headrace.log.", "headrace.coordinator.", "headrace.cluster.")
Work = Callable[[str, str], None]  # with the address of a broker and a topic of two partitions


@contextmanager
def left_behind() -> Iterator[Counter[str]]:
    """What the broker's code has made meanwhile, by its type, and was not freed before the collector came."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        names = (f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.garbage)
        found.update(name for name in names if name.startswith(_BROKERS))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def keep_up(address: str, topic: str, *partitions: int) -> None:
    """Each record is read by a fetch that waits for it."""
    producer = sender(address, linger_ms=0)
    with assigned(address, *(TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions)) as consumer:
        for number in range(TIMES):
            producer.send(topic, b"v", partition=partitions[number % len(partitions)])
            take_one(consumer)
        producer.flush()


def keep_up_with_one(address: str, topic: str) -> None:
    keep_up(address, topic, 0)


def keep_up_with_two(address: str, topic: str) -> None:
    keep_up(address, topic, 0, 1)


def wait_in_vain(address: str, topic: str) -> None:
    with assigned(address, TopicPartition(topic, 0, 0), fetch_wait_max_ms=10) as consumer:
        assert consumer.poll(0.01 * TIMES) is None


def wait_with_a_session(address: str, topic: str) -> None:
    """As consumers in Java do; librdkafka has none."""
    with client_of(address) as client:
        session_id = client.ask("Fetch", FETCH_VERSION, fetch_request(topic, session_epoch=0)).session_id
        for epoch in range(1, TIMES):
            request = FetchRequest(max_wait_ms=5, min_bytes=1, session_id=session_id, session_epoch=epoch)
            assert client.ask("Fetch", FETCH_VERSION, request).error_code == 0


def wait_for_a_sync(address: str, topic: str) -> None:
    synced = NewTopic(f"{topic}-synced", 1, config={"flush.messages": "1"})
    client = admin(address)  # whose futures end with it
    client.create_topics([synced])[synced.topic].result(SECONDS)
    producer = sender(address, linger_ms=0)
    for _ in range(TIMES):
        producer.send(synced.topic, b"v")
        producer.flush()
    assert len(producer.delivered) == TIMES


def be_a_member(address: str, topic: str) -> None:
    settings = {"bootstrap.servers": address, "group.id": topic, "log_level": 0, "auto.offset.reset": "earliest"}
    producer = sender(address)
    producer.send(topic, b"v")
    producer.flush()
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        take_one(consumer)
        for offset in range(TIMES):
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def transact(address: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": address, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(SECONDS)
    for number in range(TIMES):
        producer.begin_transaction()
        producer.produce(topic, b"v")
        if number % 2:
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)


def change_topics(address: str, topic: str) -> None:
    client = admin(address)
    for number in range(TIMES):
        name = f"{topic}-{number}"
        client.create_topics([NewTopic(name)])[name].result(SECONDS)
        client.delete_topics([name])[name].result(SECONDS)


@pytest.fixture(scope="module")
def broker() -> Iterator[headrace.Broker]:
    with headrace.Broker(group_initial_rebalance_delay_ms=0) as running:
        yield running


@pytest.mark.parametrize(
    "work",
    [
        keep_up_with_one,
        keep_up_with_two,
        wait_in_vain,
        wait_with_a_session,
        wait_for_a_sync,
        be_a_member,
        transact,
        change_topics,
    ],
)
def test_requests_leave_nothing_to_the_garbage_collector(broker: headrace.Broker, work: Work) -> None:
    topic = create_topic(broker.address, work.__name__, 2)
    with left_behind() as found:
        work(broker.address, topic)
    assert not found


def test_a_circle_is_found() -> None:
    with left_behind() as found:
        first: Later[object] = Later()
        second: Later[object] = Later()
        first.resolve(second)
        second.resolve(first)
        del first, second
    assert found == {"headrace.server.later.Later": 2}
