"""A group of consumers on a broker that fails, and on one whose clock is moved."""

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

import headrace
from headrace.protocol.messages.describe_groups import DescribeGroupsRequest
from headrace.testing import MovableClock
from tests.support.one_topic import client_of, produce

pytestmark = pytest.mark.slow

TOPIC = "orders"
GROUP = "billing"
SECONDS = 120.0  # so long the machine may be busy; what needs it is broken


@pytest.fixture
def broker() -> Iterator[headrace.Broker]:
    with headrace.Broker(clock=MovableClock()) as broker:
        broker.create_topic(TOPIC)
        with client_of(broker.address) as client:
            assert produce(client, TOPIC, b"1") == 0
        yield broker


def consumer(broker: headrace.Broker, **more: Any) -> Any:
    settings = {
        "bootstrap.servers": broker.address,
        "group.id": GROUP,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "retry.backoff.ms": 10,
        "log_level": 0,
    }
    made = confluent_kafka.Consumer(settings | more)
    made.subscribe([TOPIC])
    return made


def state(broker: headrace.Broker) -> tuple[str, int]:
    """Of the group, and how many members it has."""
    with client_of(broker.address) as client:
        group = client.ask("DescribeGroups", 5, DescribeGroupsRequest([GROUP])).groups[0]
    return group.group_state, len(group.members)


def test_a_member_that_is_silent_for_too_long_leaves_its_group(broker: headrace.Broker) -> None:
    # Heartbeats come by the consumer's clock, and between two of them the broker's moves on.
    silent = consumer(broker, **{"session.timeout.ms": 45_000, "heartbeat.interval.ms": 44_000})
    assert silent.poll(SECONDS).value() == b"1"
    assert state(broker) == ("Stable", 1)
    broker.clock.advance(44)
    assert state(broker) == ("Stable", 1)
    broker.clock.advance(2)
    assert state(broker) == ("Empty", 0)
    silent.close()


def test_a_group_survives_a_coordinator_in_trouble(broker: headrace.Broker) -> None:
    faults = [
        broker.faults.answer("FindCoordinator", error="COORDINATOR_NOT_AVAILABLE", times=2),
        broker.faults.answer("JoinGroup", error="COORDINATOR_LOAD_IN_PROGRESS", times=1),
        broker.faults.drop("JoinGroup", when="after", times=1),
        broker.faults.answer("SyncGroup", error="REBALANCE_IN_PROGRESS", times=1),
        broker.faults.answer("OffsetFetch", error="UNSTABLE_OFFSET_COMMIT", times=1),
        broker.faults.answer("OffsetCommit", error="COORDINATOR_LOAD_IN_PROGRESS", times=1),
    ]
    reader = consumer(broker)
    message = reader.poll(SECONDS)
    assert message.value() == b"1"
    reader.commit(message, asynchronous=False)
    assert [fault.hits for fault in faults] == [fault.times for fault in faults]
    (committed,) = reader.committed([confluent_kafka.TopicPartition(TOPIC, 0)], timeout=SECONDS)
    assert committed.offset == 1
    reader.close()
