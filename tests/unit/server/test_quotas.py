"""Quotas through the dispatcher: what is told, who is muted, and for how long; the clock stands until it is moved."""

from typing import Any, cast

import pytest

from headrace.cluster.image import EMPTY_IMAGE
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages import create_partitions as growing
from headrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.protocol.messages.delete_topics import DeleteTopicsRequest
from headrace.protocol.messages.describe_cluster import DescribeClusterRequest
from headrace.protocol.messages.describe_quorum import DescribeQuorumRequest
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.protocol.messages.metadata_records import ClientQuotaRecord, EntityData
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.protocol.records import NewRecord, build_batch
from headrace.server import quotas as quotas_module
from headrace.server.clock import MovableClock
from headrace.server.quotas import Quotas
from tests.support.admin_node import AdminNode
from tests.support.one_node import NOW_MS, OneNode

APP = (("client-id", "app"),)
ANONYMOUS = (("user", "ANONYMOUS"),)


def quota(entity: tuple[tuple[str, str | None], ...], key: str, value: float | None) -> ClientQuotaRecord:
    rows = [EntityData(kind, name) for kind, name in entity]
    return ClientQuotaRecord(rows, key, value or 0.0, remove=value is None)


def produce_request(size_bytes: int = 1000, acks: int = -1) -> ProduceRequest:
    batch = bytes(build_batch([NewRecord(NOW_MS, None, bytes(size_bytes))]))
    rows = [PartitionProduceData(0, batch)]
    return ProduceRequest(None, acks, 1000, [TopicProduceData("orders", partition_data=rows)])


def fetch_request(*, offset: int = 0, max_bytes: int = 1 << 20, wait_ms: int = 0, epoch: int = -1, **more: Any) -> Any:
    rows = [FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)]
    topics = [FetchTopic("orders", partitions=rows)]
    how = {"min_bytes": 1, "max_bytes": max_bytes, "max_wait_ms": wait_ms, "session_epoch": epoch, "topics": topics}
    return FetchRequest(**{**how, **more})


def node_with_orders() -> OneNode:
    node = OneNode()
    node.create_topic("orders")
    return node


# Produce


def test_a_producer_without_a_quota_is_told_nothing_and_not_muted() -> None:
    node = node_with_orders()
    node.controller.write(quota(APP, "producer_byte_rate", 1))
    assert node.ask("Produce", 9, produce_request(), client_id="other").throttle_time_ms == 0
    assert node.asker.mutes == 0


def test_a_producer_is_muted_for_as_long_as_it_is_told() -> None:
    node = node_with_orders()
    node.controller.write(quota(APP, "producer_byte_rate", 100))
    frame_bytes = size_of(node, produce_request())
    response = node.ask("Produce", 9, produce_request(), client_id="app")
    # All windows but one last 10 seconds, and whatever is above 100 bytes a second must be waited for.
    assert response.throttle_time_ms == round((frame_bytes / 10 - 100) / 100 * 10_000)
    assert response.responses[0].partition_responses[0].error_code == 0
    node.clock.move(response.throttle_time_ms - 1)
    assert node.asker.mutes == 1
    node.clock.move(1)
    assert node.asker.mutes == 0


def size_of(node: OneNode, request: ProduceRequest) -> int:
    """Of a frame, without the four bytes that tell it."""
    seen: list[int] = []
    serve = node.dispatcher.serve

    class Seeing:
        def serve(self, connection: Any, buffer: bytearray, view: memoryview, start: int, end: int) -> Any:
            seen.append(end - start)
            return serve(connection, buffer, view, start, end)

    node.dispatcher = cast("Any", Seeing())
    node.send("Produce", 9, request, client_id="---")  # as long as "app"
    node.dispatcher = cast("Any", serve).__self__
    return seen[0]


def test_a_producer_that_wants_no_answer_is_muted_all_the_same() -> None:
    node = node_with_orders()
    node.controller.write(quota(APP, "producer_byte_rate", 100), quota(APP, "request_percentage", 0.001))
    answer = node.send("Produce", 9, produce_request(acks=0), client_id="app")
    assert not answer.is_there
    assert node.asker.mutes == 1


def test_connections_of_one_user_share_his_quota() -> None:
    node = node_with_orders()
    node.controller.write(quota(ANONYMOUS, "producer_byte_rate", 200))
    assert node.ask("Produce", 9, produce_request(), client_id="one").throttle_time_ms == 0
    assert node.ask("Produce", 9, produce_request(), client_id="two").throttle_time_ms > 0


def test_a_quota_holds_from_the_moment_it_is_changed() -> None:
    node = node_with_orders()

    def throttle_ms() -> Any:
        return node.ask("Produce", 9, produce_request(), client_id="app").throttle_time_ms

    node.controller.write(quota(APP, "producer_byte_rate", 1_000_000))
    assert throttle_ms() == 0
    node.controller.write(quota(APP, "producer_byte_rate", 100))  # what was sent before counts
    assert throttle_ms() > 10_000
    node.controller.write(quota(APP, "producer_byte_rate", None))
    assert throttle_ms() == 0
    assert not node.quotas.is_active


# Fetch


def test_a_fetch_that_is_too_much_is_answered_with_nothing_and_works_after_the_wait() -> None:
    node = node_with_orders()
    for _ in range(3):
        node.ask("Produce", 9, produce_request())
    node.controller.write(quota(APP, "consumer_byte_rate", 200))
    first = node.ask("Fetch", 11, fetch_request(max_bytes=1100), client_id="app")
    assert first.throttle_time_ms == 0
    second = node.ask("Fetch", 11, fetch_request(offset=1, max_bytes=1100), client_id="app")
    assert (list(second.responses), second.error_code) == ([], 0)
    assert second.throttle_time_ms > 0
    assert node.asker.mutes == 1
    # What was withheld was not counted, so a small answer fits.
    assert node.ask("Fetch", 11, fetch_request(offset=3), client_id="app").throttle_time_ms == 0
    node.clock.move(11_000)
    assert node.asker.mutes == 0
    third = node.ask("Fetch", 11, fetch_request(offset=1, max_bytes=1100), client_id="app")
    assert third.throttle_time_ms == 0
    assert third.responses[0].partitions[0].records


def test_a_fetch_takes_no_more_at_once_than_its_quota_can_ever_allow() -> None:
    node = node_with_orders()
    for _ in range(20):
        node.ask("Produce", 9, produce_request())
    node.controller.write(quota(APP, "consumer_byte_rate", 500))
    response = node.ask("Fetch", 11, fetch_request(min_bytes=100_000, wait_ms=500), client_id="app")
    records = response.responses[0].partitions[0].records
    assert 3000 < len(records) <= 5000  # though min_bytes is more: it could never come


def test_a_withheld_fetch_leaves_its_session_as_it_was() -> None:
    node = node_with_orders()
    node.ask("Produce", 9, produce_request())
    node.controller.write(quota(APP, "consumer_byte_rate", 200))
    first = node.ask("Fetch", 11, fetch_request(epoch=0), client_id="app")
    assert first.session_id > 0
    poll = {"session_id": first.session_id, "topics": []}
    node.ask("Produce", 9, produce_request())
    moved = fetch_request(epoch=1, offset=1, session_id=first.session_id)
    withheld = node.ask("Fetch", 11, moved, client_id="app")
    assert withheld.throttle_time_ms > 0
    assert (withheld.session_id, list(withheld.responses)) == (first.session_id, [])
    node.clock.move(11_000)
    again = node.ask("Fetch", 11, fetch_request(epoch=2, **poll), client_id="app")
    assert again.throttle_time_ms == 0
    assert again.responses[0].partitions[0].records


def test_a_withheld_first_fetch_begins_no_session() -> None:
    node = node_with_orders()
    node.ask("Produce", 9, produce_request())
    node.controller.write(quota(APP, "consumer_byte_rate", 1))
    response = node.ask("Fetch", 11, fetch_request(epoch=0), client_id="app")
    assert response.throttle_time_ms > 0
    assert (response.session_id, list(response.responses)) == (0, [])


def test_a_fetch_that_waited_is_counted_when_it_is_answered() -> None:
    node = node_with_orders()
    node.controller.write(quota(APP, "consumer_byte_rate", 50))
    answer = node.send("Fetch", 11, fetch_request(wait_ms=500), client_id="app")
    assert not answer.is_there
    node.ask("Produce", 9, produce_request())
    response: FetchResponse = answer.response
    assert response.throttle_time_ms > 0
    assert not response.responses
    assert node.asker.mutes == 1
    assert not node.partition("orders").watchers


def test_fetches_of_followers_are_not_counted() -> None:
    node = node_with_orders()
    node.ask("Produce", 9, produce_request())
    node.controller.write(quota(APP, "consumer_byte_rate", 1))
    response = node.ask("Fetch", 11, fetch_request(replica_id=2), client_id="app")
    assert response.throttle_time_ms == 0
    assert len(response.responses) == 1


def test_of_several_quotas_the_one_that_is_exceeded_most_is_told() -> None:
    node = node_with_orders()
    Busy(node, 1000)
    node.controller.write(quota(APP, "producer_byte_rate", 50), quota(APP, "request_percentage", 1))
    assert node.ask("Produce", 9, produce_request(), client_id="app").throttle_time_ms > 10_000


# The time of requests


class Busy:
    """A loop on which every look at the clock costs a millisecond."""

    def __init__(self, node: OneNode, milliseconds: int) -> None:
        self.calls = 0
        node.quotas.now_ns = self._now_ns
        self._step_ns = milliseconds * 1_000_000

    def _now_ns(self) -> int:
        self.calls += 1
        return self.calls * self._step_ns


def test_the_time_of_a_request_is_counted_in_percent_of_the_loop() -> None:
    node = OneNode()
    Busy(node, 500)
    node.controller.write(quota(APP, "request_percentage", 4))
    response = node.ask("DescribeCluster", 1, DescribeClusterRequest(), client_id="app")
    # 500 ms are 50 % of a second, that is 5 % over 10 seconds: 1 % too much, of 4, takes 2.5 seconds. One is enough.
    assert response.throttle_time_ms == 1000
    node.clock.move(1000)
    assert node.asker.mutes == 0


def test_encoding_the_answer_is_counted_after_it() -> None:
    node = OneNode()
    Busy(node, 500)
    node.controller.write(quota(APP, "request_percentage", 9))

    def throttle_ms() -> Any:
        return node.ask("DescribeCluster", 1, DescribeClusterRequest(), client_id="app").throttle_time_ms

    assert throttle_ms() == 0  # 5 %, and 10 % when it is encoded
    assert throttle_ms() > 0
    node.clock.move(12_000)
    node.controller.write(quota(APP, "request_percentage", 16))
    assert [throttle_ms() for _ in range(3)] == [0, 0, 1000]  # 5, 15 and 25 %


def test_the_time_of_a_fetch_is_counted_once() -> None:
    node = node_with_orders()
    Busy(node, 500)
    node.controller.write(quota(APP, "request_percentage", 7))
    assert node.ask("Fetch", 11, fetch_request(), client_id="app").throttle_time_ms == 0


def test_waiting_costs_nothing() -> None:
    node = node_with_orders()
    busy = Busy(node, 1)
    node.controller.write(quota(APP, "request_percentage", 1))
    answer = node.send("Fetch", 11, fetch_request(wait_ms=500), client_id="app")
    busy.calls += 100_000  # much happens meanwhile
    node.clock.move(500)
    assert answer.response.throttle_time_ms == 0


def test_a_fetch_whose_time_is_too_much_is_withheld_too() -> None:
    node = node_with_orders()
    node.ask("Produce", 9, produce_request())
    Busy(node, 1000)
    node.controller.write(quota(APP, "request_percentage", 1), quota(APP, "consumer_byte_rate", 2000))
    response = node.ask("Fetch", 11, fetch_request(), client_id="app")
    assert response.throttle_time_ms == 1000
    assert not response.responses
    node.controller.write(quota(APP, "request_percentage", None))
    assert node.ask("Fetch", 11, fetch_request(), client_id="app").throttle_time_ms == 0  # its bytes were not counted


# Changes of topics


def create(*names: str, partitions: int = 5) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(name, partitions, 1) for name in names])


def limited(rate: float = 1) -> AdminNode:
    node = AdminNode()
    node.write(quota(APP, "controller_mutation_rate", rate))
    return node


def test_the_topics_that_come_when_the_bucket_is_empty_are_refused_by_newer_versions() -> None:
    node = limited()
    response = node.ask("CreateTopics", 6, create("a", "b", "c", "d"), client_id="app")
    # Eleven tokens: the third topic empties the bucket below zero, and the fourth finds it so.
    assert [row.error_code for row in response.topics] == [0, 0, 0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert response.throttle_time_ms == 4000
    assert node.client.mutes == 1
    node.clock.move(4000)
    assert node.client.mutes == 0
    assert node.ask("CreateTopics", 7, create("d"), client_id="app").topics[0].error_code == 0


def test_what_the_commit_took_is_not_waited_for_again() -> None:
    node = limited()
    answer = node.send("CreateTopics", 6, create("a", "b", "c", "d"), client_id="app")
    node.clock.move(300)
    while not answer.is_there:
        node.worker.step()
    assert answer.response.throttle_time_ms == 3700


def test_older_versions_are_granted_everything_and_wait() -> None:
    node = limited()
    response = node.ask("CreateTopics", 5, create("a", "b", "c", "d"), client_id="app")
    assert [row.error_code for row in response.topics] == [0, 0, 0, 0]
    assert response.throttle_time_ms == 9000
    assert node.client.mutes == 1


@pytest.mark.parametrize(("version", "is_strict"), [(4, False), (5, True)])
def test_deletions_are_counted_by_partitions(version: int, is_strict: bool) -> None:
    node = limited()
    for name in ("a", "b"):
        node.create_topic(name, 12)
    response = node.ask("DeleteTopics", version, DeleteTopicsRequest(topic_names=["a", "b"]), client_id="app")
    codes = [row.error_code for row in response.responses]
    assert codes == [0, ErrorCode.THROTTLING_QUOTA_EXCEEDED if is_strict else 0]
    assert response.throttle_time_ms == (1000 if is_strict else 13_000)


@pytest.mark.parametrize(("version", "is_strict"), [(2, False), (3, True)])
def test_added_partitions_are_counted(version: int, is_strict: bool) -> None:
    node = limited()
    for name in ("a", "b"):
        node.create_topic(name)
    rows = [growing.CreatePartitionsTopic(name, 14, None) for name in ("a", "b")]
    response = node.ask("CreatePartitions", version, growing.CreatePartitionsRequest(rows), client_id="app")
    codes = [row.error_code for row in response.results]
    assert codes == [0, ErrorCode.THROTTLING_QUOTA_EXCEEDED if is_strict else 0]
    assert response.throttle_time_ms == (2000 if is_strict else 15_000)


def test_topics_that_come_into_being_by_a_question_are_counted() -> None:
    node = limited(rate=0.01)

    def ask(name: str) -> Any:
        return node.ask("Metadata", 12, MetadataRequest([MetadataRequestTopic(name=name)]), client_id="app")

    assert ask("first").topics[0].error_code == 0
    response = ask("second")
    assert response.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert response.throttle_time_ms > 0


# Limits


def test_an_answer_that_cannot_tell_it_mutes_all_the_same() -> None:
    node = AdminNode()
    node.context.quotas.now_ns = iter(range(0, 10**12, 10**9)).__next__
    node.write(quota(APP, "request_percentage", 1))
    node.ask("DescribeQuorum", 2, DescribeQuorumRequest([]), client_id="app")
    assert node.client.mutes == 1


def test_rates_of_clients_that_went_away_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas_module, "MAX_SENSORS", 3)
    monkeypatch.setattr(quotas_module, "MAX_CLIENTS", 4)
    node = node_with_orders()
    node.controller.write(quota((("client-id", None),), "producer_byte_rate", 100))
    for name in ("a", "b", "c", "d", "e", "f", "d", "g"):
        node.ask("Produce", 9, produce_request(), client_id=name)
    assert len(node.quotas._rates) == 3
    assert len(node.quotas._clients) <= 4
    # Remembered are those who came last: f, d and g.
    assert node.ask("Produce", 9, produce_request(1), client_id="d").throttle_time_ms > 0
    assert node.ask("Produce", 9, produce_request(1), client_id="e").throttle_time_ms == 0
    node.clock.move(3_600_000)
    node.ask("Produce", 9, produce_request(1), client_id="new")
    assert len(node.quotas._rates) == 1


def test_connections_are_counted_by_address_and_those_sent_away_do_not_count() -> None:
    clock = MovableClock(NOW_MS)
    quotas = Quotas(clock)
    assert quotas.connection_throttle_ms("10.0.0.7") == 0
    per_ip = [
        quota((("ip", "10.0.0.7"),), "connection_creation_rate", 2),
        quota((("ip", None),), "connection_creation_rate", 1),
    ]
    quotas.apply(EMPTY_IMAGE, EMPTY_IMAGE.apply(per_ip))
    assert not quotas.is_active  # for clients that are connected
    assert [quotas.connection_throttle_ms("::ffff:10.0.0.7") for _ in range(22)] == [0] * 20 + [500, 500]
    assert [quotas.connection_throttle_ms("10.0.0.8") for _ in range(11)] == [0] * 10 + [1000]
    assert quotas.connection_throttle_ms("10.0.0.8") == 1000
    clock.move(11_000)
    assert quotas.connection_throttle_ms("10.0.0.8") == 0


def test_nobody_is_held_longer_than_a_window() -> None:
    clock = MovableClock(NOW_MS)
    quotas = Quotas(clock)
    for rate in (10, 1):  # what was allowed before is far too much now
        image = EMPTY_IMAGE.apply([quota((("ip", None),), "connection_creation_rate", rate)])
        quotas.apply(EMPTY_IMAGE, image)
        found = [quotas.connection_throttle_ms("10.0.0.8") for _ in range(50)]
    assert found == [1000] * 50
