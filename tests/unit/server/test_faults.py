"""Faults over real sockets: what a client sees, and what the broker has done."""

import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import headrace
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from headrace.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.server.clock import MovableClock as MovableClockOfOneLoop
from headrace.server.fault_effects import HoldBack
from headrace.server.faults import Faults
from headrace.server.later import Later
from headrace.testing import MovableClock
from tests.support.one_topic import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    client_of,
    fetch_request,
    produce,
    produce_request,
    values,
)
from tests.support.wire_client import Closed, WireClient


@pytest.fixture
def broker() -> Iterator[headrace.Broker]:
    with headrace.Broker(clock=MovableClock()) as broker:
        broker.create_topic("orders")
        broker.create_topic("users")
        yield broker


@pytest.fixture
def client(broker: headrace.Broker) -> Iterator[WireClient]:
    with client_of(broker.address) as client:
        yield client


# Answers


def test_requests_are_answered_with_an_error_as_often_as_was_asked_for(
    broker: headrace.Broker, client: WireClient
) -> None:
    fault = broker.faults.answer("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)
    codes = [produce(client, "orders", value) for value in (b"1", b"2", b"3")]
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]
    assert fault.hits == 2
    assert values(client, "orders") == [b"3"]
    assert not list(broker.faults)


def test_requests_that_repeat_themselves_are_hit_and_without_faults_they_need_not_be_decoded(
    broker: headrace.Broker, client: WireClient
) -> None:
    dispatcher = broker.faults._dispatcher
    assert dispatcher is not None
    for _ in range(3):
        assert dispatcher._around is None
        assert [produce(client, "orders", b"same") for _ in range(3)] == [ErrorCode.NONE] * 3
        with broker.faults.answer("Produce", error="NOT_LEADER_OR_FOLLOWER") as fault:
            assert produce(client, "orders", b"same") == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert fault.hits == 1
    assert values(client, "orders") == [b"same"] * 9


def test_other_apis_are_not_touched(broker: headrace.Broker, client: WireClient) -> None:
    broker.faults.answer("Fetch", error="UNKNOWN_SERVER_ERROR")
    assert produce(client, "orders", b"1") == ErrorCode.NONE


def test_a_refused_batch_without_acknowledgement_closes_the_connection(
    broker: headrace.Broker, client: WireClient
) -> None:
    fault = broker.faults.answer("Produce", error="NOT_LEADER_OR_FOLLOWER", times=1)
    client.send("Produce", PRODUCE_VERSION, produce_request("orders", b"1", acks=0))
    with pytest.raises(Closed):
        client.receive_frame()
    assert fault.hits == 1
    with client_of(broker.address) as another:
        assert values(another, "orders") == []


def test_metadata_still_says_where_the_brokers_are(broker: headrace.Broker, client: WireClient) -> None:
    fault = broker.faults.answer("Metadata", error="LEADER_NOT_AVAILABLE", times=2)
    request = MetadataRequest([MetadataRequestTopic(name="orders"), MetadataRequestTopic(name="new")])
    response = client.ask("Metadata", 12, request)
    assert len(response.brokers) == 1
    assert [(row.name, row.error_code, row.partitions) for row in response.topics] == [
        ("orders", ErrorCode.LEADER_NOT_AVAILABLE, []),
        ("new", ErrorCode.LEADER_NOT_AVAILABLE, []),
    ]
    assert len(client.ask("Metadata", 12, MetadataRequest(topics=[])).brokers) == 1
    assert fault.hits == 1, "a request that names no topic has no place for the error"
    everything = client.ask("Metadata", 12, MetadataRequest(topics=None))
    assert [row.name for row in everything.topics] == ["orders", "users"], "a request that is refused creates no topic"
    assert {row.error_code for row in everything.topics} == {ErrorCode.LEADER_NOT_AVAILABLE}
    assert fault.hits == 2


def test_descriptions_of_everything_can_fail(broker: headrace.Broker, client: WireClient) -> None:
    broker.faults.answer("DescribeLogDirs", error="KAFKA_STORAGE_ERROR", times=1)
    (row,) = client.ask("DescribeLogDirs", 4, DescribeLogDirsRequest(topics=None)).results
    assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert row.log_dir
    broker.faults.answer("DescribeTopicPartitions", error="UNKNOWN_SERVER_ERROR", times=1)
    response = client.ask("DescribeTopicPartitions", 0, DescribeTopicPartitionsRequest(topics=[]))
    assert [(row.name, row.error_code) for row in response.topics] == [("orders", -1), ("users", -1)]


def fetch(client: WireClient, **more: Any) -> Any:
    return client.ask("Fetch", FETCH_VERSION, fetch_request("orders", **more))


def test_the_error_says_whether_it_is_of_the_fetch_or_of_the_partition(
    broker: headrace.Broker, client: WireClient
) -> None:
    broker.faults.answer("Fetch", error="OFFSET_OUT_OF_RANGE", times=1)
    broker.faults.answer("Fetch", error="FETCH_SESSION_ID_NOT_FOUND", times=1)
    broker.faults.answer("Fetch", error="OFFSET_OUT_OF_RANGE", at="request", times=1)
    of_partition = fetch(client)
    assert (of_partition.error_code, of_partition.responses[0].partitions[0].error_code) == (0, 1)
    assert fetch(client).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert fetch(client).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_fetch_session_ends_so_that_its_fetches_can_be_hit(broker: headrace.Broker, client: WireClient) -> None:
    session_id = fetch(client, session_epoch=0).session_id
    assert session_id
    fault = broker.faults.answer("Fetch", error="NOT_LEADER_OR_FOLLOWER", topic="orders", times=1)
    go_on = fetch_request("orders", session_id=session_id, session_epoch=1)._replace(topics=[])
    response = client.ask("Fetch", FETCH_VERSION, go_on)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert fault.hits == 0
    begin_again = fetch(client, session_epoch=0)
    assert begin_again.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert begin_again.session_id == 0
    assert fault.hits == 1
    assert fetch(client, session_epoch=0).session_id, "sessions are back"


def test_meanwhile_others_fetch_without_sessions(broker: headrace.Broker, client: WireClient) -> None:
    broker.faults.answer("Fetch", error="NOT_LEADER_OR_FOLLOWER", topic="users")
    response = fetch(client, session_epoch=0)
    assert (response.session_id, response.responses[0].partitions[0].error_code) == (0, 0)


# Which requests


def test_a_topic_is_known_by_name_and_by_id(broker: headrace.Broker, client: WireClient) -> None:
    row = client.ask("Metadata", 12, MetadataRequest([MetadataRequestTopic(name="users")])).topics[0]
    fault = broker.faults.answer("Produce", error="NOT_ENOUGH_REPLICAS", topic="users")
    assert produce(client, "orders", b"1") == ErrorCode.NONE
    assert produce(client, "users", b"1") == ErrorCode.NOT_ENOUGH_REPLICAS
    request = produce_request("users", b"1")
    by_id = request._replace(topic_data=[request.topic_data[0]._replace(topic_id=row.topic_id)])
    response = client.ask("Produce", 13, by_id)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert fault.hits == 2


def test_a_client_is_known_by_its_id(broker: headrace.Broker, client: WireClient) -> None:
    broker.faults.answer("Metadata", error="UNKNOWN_SERVER_ERROR", client_id="unlucky", at="rows")
    request = MetadataRequest([MetadataRequestTopic(name="orders")])
    assert client.ask("Metadata", 12, request, client_id="unlucky").topics[0].error_code == -1
    assert client.ask("Metadata", 12, request, client_id="lucky").topics[0].error_code == 0
    assert client.ask("Metadata", 12, request, client_id=None).topics[0].error_code == 0


def test_a_test_can_look_at_the_request(broker: headrace.Broker, client: WireClient) -> None:
    broker.faults.answer("Produce", error="NOT_ENOUGH_REPLICAS", matching=lambda request: request.acks == -1)
    assert produce(client, "orders", b"1", acks=1) == ErrorCode.NONE
    assert produce(client, "orders", b"2", acks=-1) == ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_mistake_in_looking_is_told_where_hits_are_asked_for(broker: headrace.Broker, client: WireClient) -> None:
    fault = broker.faults.answer("Produce", error="NOT_ENOUGH_REPLICAS", matching=lambda request: request.akcs == -1)
    assert produce(client, "orders", b"1") == ErrorCode.NONE
    with pytest.raises(AttributeError, match="akcs"):
        _ = fault.hits
    with pytest.raises(AttributeError, match="akcs"):
        fault.wait()


def test_of_several_faults_the_first_takes_the_request(broker: headrace.Broker, client: WireClient) -> None:
    first = broker.faults.answer("Produce", error="NOT_ENOUGH_REPLICAS", times=1)
    second = broker.faults.answer("Produce", error="KAFKA_STORAGE_ERROR", times=1)
    assert produce(client, "orders", b"1") == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (first.hits, second.hits) == (1, 0)
    assert produce(client, "orders", b"2") == ErrorCode.KAFKA_STORAGE_ERROR


def test_faults_go_when_they_are_cleared_removed_or_left(broker: headrace.Broker, client: WireClient) -> None:
    broker.faults.answer("Produce", error="NOT_ENOUGH_REPLICAS")
    assert produce(client, "orders", b"1") == ErrorCode.NOT_ENOUGH_REPLICAS
    broker.faults.clear()
    assert produce(client, "orders", b"1") == ErrorCode.NONE
    with broker.faults.answer("Produce", error="NOT_ENOUGH_REPLICAS") as fault:
        assert produce(client, "orders", b"2") == ErrorCode.NOT_ENOUGH_REPLICAS
    assert produce(client, "orders", b"2") == ErrorCode.NONE
    fault.remove()
    assert fault.hits == 1


# Delays


def test_a_delayed_answer_comes_when_the_clock_has_moved_and_the_effect_at_once(
    broker: headrace.Broker, client: WireClient
) -> None:
    fault = broker.faults.delay("Produce", seconds=30, times=1)
    correlation_id = client.send("Produce", PRODUCE_VERSION, produce_request("orders", b"1"))
    fault.wait()
    with client_of(broker.address) as another:
        assert values(another, "orders") == [b"1"]
    broker.clock.advance(29.999)
    client.sock.setblocking(False)
    with pytest.raises(BlockingIOError):
        client.sock.recv(1)
    client.sock.settimeout(60)
    broker.clock.advance(0.001)
    response = client.receive("Produce", PRODUCE_VERSION, correlation_id)
    assert response.responses[0].partition_responses[0].error_code == 0


def test_answers_behind_a_delayed_one_keep_their_order(broker: headrace.Broker, client: WireClient) -> None:
    fault = broker.faults.delay("Produce", seconds=1, times=1)
    slow = client.send("Produce", PRODUCE_VERSION, produce_request("orders", b"1"))
    quick = client.send("Metadata", 12, MetadataRequest(topics=[]))
    fault.wait()
    broker.clock.advance(1)
    client.receive("Produce", PRODUCE_VERSION, slow)
    client.receive("Metadata", 12, quick)


def test_a_delay_begins_when_the_answer_is_there(broker: headrace.Broker, client: WireClient) -> None:
    fault = broker.faults.delay("Fetch", seconds=5, times=1)
    correlation_id = client.send("Fetch", FETCH_VERSION, fetch_request("orders", max_wait_ms=10_000))
    fault.wait()
    broker.clock.advance(14.999)
    client.sock.setblocking(False)
    with pytest.raises(BlockingIOError):
        client.sock.recv(1)
    client.sock.settimeout(60)
    broker.clock.advance(0.001)
    client.receive("Fetch", FETCH_VERSION, correlation_id)


class Response:
    """One that can be watched."""


def test_an_answer_that_nobody_waits_for_any_more_is_not_kept() -> None:
    ctx: Any = SimpleNamespace(broker=SimpleNamespace(clock=MovableClockOfOneLoop(0)))
    responses = [Response()]
    kept = weakref.ref(responses[0])
    held = HoldBack(5000).on(lambda *_: responses.pop(), None, ctx)
    assert kept() is not None
    held.abandon()
    assert kept() is None
    later: Later[Response] = Later()
    HoldBack(5000).on(lambda *_: later, None, ctx).abandon()
    assert later.is_settled, "what the answer waited for is told, too"


# Drops


def test_a_connection_is_dropped_before_the_effect(broker: headrace.Broker, client: WireClient) -> None:
    fault = broker.faults.drop("Produce", when="before", times=1)
    with pytest.raises(Closed):
        produce(client, "orders", b"1")
    assert fault.hits == 1
    with client_of(broker.address) as another:
        assert values(another, "orders") == []
        assert produce(another, "orders", b"2") == ErrorCode.NONE


def test_a_connection_is_dropped_after_the_effect(broker: headrace.Broker, client: WireClient) -> None:
    broker.faults.drop("Produce", when="after", times=1)
    with pytest.raises(Closed):
        produce(client, "orders", b"1")
    with client_of(broker.address) as another:
        assert values(another, "orders") == [b"1"]


def test_answers_before_the_drop_still_arrive(broker: headrace.Broker, client: WireClient) -> None:
    broker.faults.drop("Produce", when="before", matching=lambda request: request.acks == 1)
    one = client.send("Produce", PRODUCE_VERSION, produce_request("orders", b"1"))
    client.send("Produce", PRODUCE_VERSION, produce_request("orders", b"2", acks=1))
    client.receive("Produce", PRODUCE_VERSION, one)
    with pytest.raises(Closed):
        client.receive_frame()


def test_an_effect_that_takes_its_time_comes_before_the_drop(broker: headrace.Broker, client: WireClient) -> None:
    fault = broker.faults.drop("Fetch", when="after", times=1)
    client.send("Fetch", FETCH_VERSION, fetch_request("orders", max_wait_ms=10_000))
    fault.wait()
    broker.clock.advance(9.999)
    client.sock.setblocking(False)
    with pytest.raises(BlockingIOError):
        client.sock.recv(1)
    client.sock.settimeout(60)
    broker.clock.advance(0.001)
    with pytest.raises(Closed):
        client.receive_frame()


# What lasts


def test_faults_outlive_a_restart_and_can_be_made_while_the_broker_is_down(
    broker: headrace.Broker, client: WireClient
) -> None:
    before = broker.faults.answer("Produce", error="NOT_ENOUGH_REPLICAS", times=1)
    broker.kill()
    meanwhile = broker.faults.answer("Produce", error="KAFKA_STORAGE_ERROR", times=1)
    broker.restart()
    with client_of(broker.address) as another:
        codes = [produce(another, "orders", b"1") for _ in range(3)]
    assert codes == [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert (before.hits, meanwhile.hits) == (1, 1)


def test_without_faults_a_handler_is_called_as_it_is() -> None:
    faults = Faults()

    def handle(request: Any, ctx: Any) -> None:
        raise AssertionError

    assert faults.around(0, handle) is handle
    fault = faults.answer("Produce", error="NOT_ENOUGH_REPLICAS")
    assert faults.around(0, handle) is not handle
    assert faults.around(1, handle) is handle
    fault.remove()
    assert faults.around(0, handle) is handle


# Mistakes


def test_mistakes_are_told_with_what_to_do() -> None:
    faults = Faults()
    with pytest.raises(ValueError, match=r"'Prodcue' is not an API of Kafka; did you mean Produce\?"):
        faults.delay("Prodcue", seconds=1)
    with pytest.raises(ValueError, match="Vote is not served by this broker, so no request of it can be hit"):
        faults.drop("Vote", when="after")
    with pytest.raises(ValueError, match=r"'NOT_LEADER' is not an error of Kafka"):
        faults.answer("Produce", error="NOT_LEADER")
    with pytest.raises(ValueError, match="NONE is not an error"):
        faults.answer("Produce", error=ErrorCode.NONE)
    with pytest.raises(ValueError, match="times=0: a fault happens once or more"):
        faults.delay("Produce", seconds=1, times=0)
    with pytest.raises(ValueError, match="a delay is not negative"):
        faults.delay("Produce", seconds=-1)
    with pytest.raises(ValueError, match='"before" or "after"'):
        faults.drop("Produce", when="during")  # type: ignore[arg-type]
    assert not list(faults)


def test_waiting_for_a_hit_that_does_not_come_says_so() -> None:
    fault = Faults().answer("Produce", error="NOT_ENOUGH_REPLICAS", times=2)
    with pytest.raises(TimeoutError, match=r"<fault: Produce answers NOT_ENOUGH_REPLICAS, hit 0 of 2 times>: no more"):
        fault.wait(timeout=0.01)
