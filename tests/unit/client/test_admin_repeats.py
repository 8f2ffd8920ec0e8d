"""What the admin client repeats, and what it does not: against our broker, which fails on demand."""

from collections.abc import Iterator

import pytest

import headrace
from headrace.client.admin import Admin
from headrace.client.admin_changes import ConfigResource
from headrace.client.errors import ConnectionLostError, KafkaError, RequestTimedOutError, TopicExistsError
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.error_codes import ErrorCode


@pytest.fixture(scope="module")
def broker() -> Iterator[headrace.Broker]:
    with headrace.Broker() as made:
        made.create_topic("orders", partitions=2)
        yield made


@pytest.fixture
def admin(broker: headrace.Broker) -> Iterator[Admin]:
    with headrace.Admin(broker.address, retry_backoff_ms=1, retry_backoff_max_ms=10, reconnect_backoff_ms=1) as made:
        yield made
    broker.faults.clear()


def test_a_controller_that_has_moved_is_asked_again(broker: headrace.Broker, admin: Admin) -> None:
    fault = broker.faults.answer("CreateTopics", error="NOT_CONTROLLER", times=3)
    admin.create_topic("moved")
    assert fault.hits == 3


def test_a_leader_that_has_moved_is_looked_up_again(broker: headrace.Broker, admin: Admin) -> None:
    fault = broker.faults.answer("ListOffsets", error="NOT_LEADER_OR_FOLLOWER", topic="orders", times=3)
    wanted = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    assert [found.offset for found in admin.list_offsets(dict.fromkeys(wanted, "latest")).values()] == [0, 0]
    assert fault.hits == 3


def test_a_coordinator_that_is_not_ready_is_asked_again(broker: headrace.Broker, admin: Admin) -> None:
    loading = broker.faults.answer("OffsetFetch", error="COORDINATOR_LOAD_IN_PROGRESS", times=2)
    missing = broker.faults.answer("FindCoordinator", error="COORDINATOR_NOT_AVAILABLE", times=2)
    assert admin.list_group_offsets("nobody") == {}
    assert (loading.hits, missing.hits) == (2, 2)


def test_offsets_in_an_open_transaction_are_waited_for(broker: headrace.Broker, admin: Admin) -> None:
    place = TopicPartition("orders", 0)
    with headrace.Producer(broker.address, transactional_id="offsets") as producer:
        with producer.transaction():
            producer.send_offsets({place: 7}, "waiting")
            with pytest.raises(KafkaError, match=r"attempts in .*UNSTABLE_OFFSET_COMMIT"):
                admin.list_group_offsets("waiting", [place], require_stable=True, timeout=2.0)
        assert admin.list_group_offsets("waiting", [place], require_stable=True)[place].offset == 7


def test_a_lost_connection_is_made_again_and_the_request_repeated(broker: headrace.Broker, admin: Admin) -> None:
    fault = broker.faults.drop("DescribeConfigs", when="before", times=2)
    assert admin.describe_configs([ConfigResource("topic", "orders")])
    assert fault.hits == 2


def test_a_change_whose_answer_was_lost_may_have_taken_effect(broker: headrace.Broker, admin: Admin) -> None:
    """As in Kafka's own admin client: the repetition finds what the first attempt did."""
    broker.faults.drop("CreateTopics", when="after", times=1)
    with pytest.raises(TopicExistsError):
        admin.create_topic("twice")
    assert len(admin.describe_topic("twice").partitions) == 1


def test_an_error_of_an_item_is_the_answer_and_not_repeated(broker: headrace.Broker, admin: Admin) -> None:
    fault = broker.faults.answer("CreateTopics", error="POLICY_VIOLATION", times=5)
    with pytest.raises(KafkaError) as caught:
        admin.create_topic("forbidden")
    assert (caught.value.code, fault.hits) == (ErrorCode.POLICY_VIOLATION, 1)


def test_when_the_time_is_over_the_last_error_says_what_was_tried(broker: headrace.Broker, admin: Admin) -> None:
    broker.faults.answer("CreateTopics", error="NOT_CONTROLLER")
    with pytest.raises(KafkaError, match=r"Tried: \d+ attempts in \d+\.\d s") as caught:
        admin.create_topic("late", timeout=0.2)
    assert caught.value.code is ErrorCode.NOT_CONTROLLER


def test_the_last_error_is_told_when_the_time_ends_within_an_attempt(broker: headrace.Broker, admin: Admin) -> None:
    broker.faults.answer("CreateTopics", error="NOT_CONTROLLER", times=1)
    silent = broker.faults.delay("CreateTopics", seconds=3600)
    try:
        with pytest.raises(KafkaError, match=r"Tried: 2 attempts in \d+\.\d s") as caught:
            admin.create_topic("late", timeout=2.0)
    finally:
        broker.faults.clear()
    assert (caught.value.code, silent.hits) == (ErrorCode.NOT_CONTROLLER, 1)


def test_a_broker_that_says_nothing_is_not_waited_for_beyond_the_time(broker: headrace.Broker) -> None:
    fault = broker.faults.delay("Metadata", seconds=3600)
    try:
        with headrace.Admin(broker.address) as admin, pytest.raises(RequestTimedOutError, match=r"within 0\.2 s"):
            admin.list_topics(timeout=0.2)
    finally:
        broker.faults.clear()
    assert fault.hits >= 1


def test_retries_are_limited(broker: headrace.Broker) -> None:
    fault = broker.faults.drop("DescribeCluster", when="before")
    try:
        impatient = headrace.Admin(broker.address, retries=2, retry_backoff_ms=1)
        with impatient as admin, pytest.raises(ConnectionLostError, match="Tried: 3 attempts"):
            admin.describe_cluster()
    finally:
        broker.faults.clear()
    assert fault.hits == 3
