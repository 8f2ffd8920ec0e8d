"""Large requests: which are refused, which are served, and what the largest of the others can cost."""

import time
import tracemalloc
from typing import Any

import pytest

from headrace.protocol.apis import API_BY_NAME, load
from headrace.protocol.errors import ProtocolError
from headrace.protocol.header import write_request_header
from headrace.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData
from headrace.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from headrace.protocol.messages.headers import RequestHeader
from headrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.protocol.records import NewRecord, build_batch
from headrace.server.handlers import SERVED
from headrace.server.large_requests import LARGE_FROM_BYTES, MAX_ROWS, check_large_request
from tests.support.one_node import NOW_MS, Asker, OneNode

WORST_BYTES_PER_BYTE = 80


def frame_of(api: str, version: int, request: Any) -> bytearray:
    key = API_BY_NAME[api].key
    header = write_request_header(RequestHeader(key, version, 77, "test"))
    return bytearray(b"".join([header, *load(key).encode_request[version](request)]))


def serve(frame: bytearray, node: OneNode | None = None) -> Any:
    node = node or OneNode()
    return node.dispatcher.serve(Asker(), frame, memoryview(frame), 0, len(frame))  # type: ignore[arg-type]


@pytest.mark.parametrize("key", sorted(SERVED.keys() - {0}))
def test_only_produce_may_be_large(key: int) -> None:
    frame = bytearray(write_request_header(RequestHeader(key, SERVED[key].max_version, 77, "test")))
    frame += bytes(LARGE_FROM_BYTES - len(frame))
    with pytest.raises(ProtocolError, match="only Produce may have more than 8388608: send it in parts"):
        serve(frame)


def test_ten_thousand_topics_with_the_longest_names_fit() -> None:
    names = [f"{number:05}".rjust(249, "t") for number in range(10_000)]
    wanted = [MetadataRequestTopic(name=name) for name in names]
    configs = [AlterableConfig(f"some.config.{number}", 0, "a value of some length") for number in range(10)]
    resources = [AlterConfigsResource(2, name, configs) for name in names]
    frames = [
        frame_of("Metadata", 13, MetadataRequest(wanted, allow_auto_topic_creation=False)),
        frame_of("IncrementalAlterConfigs", 1, IncrementalAlterConfigsRequest(resources)),
    ]
    assert [len(frame) < LARGE_FROM_BYTES for frame in frames] == [True, True]
    assert len(serve(frames[0])[0]) > 2_000_000


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
def test_large_batches_are_taken(version: int) -> None:
    node = OneNode()
    topic_id = node.create_topic("orders", partitions=2, max_message_bytes="20000000")
    batch = bytes(build_batch([NewRecord(NOW_MS, None, bytes(5_000_000))]))
    rows = [PartitionProduceData(index, batch) for index in range(2)]
    topic = TopicProduceData("" if version >= 13 else "orders", topic_id if version >= 13 else bytes(16), rows)
    frame = frame_of("Produce", version, ProduceRequest(None, 1, 1000, [topic]))
    assert len(frame) > LARGE_FROM_BYTES
    serve(frame, node)
    assert [node.partition("orders", index).log.log_end_offset for index in range(2)] == [1, 1]


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
@pytest.mark.parametrize("shape", ["topics", "partitions", "partitions of many topics"])
def test_of_a_large_produce_request_most_must_be_records(version: int, shape: str) -> None:
    row = PartitionProduceData(0, None)
    partitions = {"topics": [], "partitions": [row] * (MAX_ROWS + 1), "partitions of many topics": [row] * 1000}[shape]
    topics = {"topics": MAX_ROWS + 1, "partitions": 1, "partitions of many topics": 101}[shape]
    topic = TopicProduceData("" if version >= 13 else "t", partition_data=partitions)
    frame = frame_of("Produce", version, ProduceRequest("transactional", 1, 1000, [topic] * topics))
    frame += bytes(max(0, LARGE_FROM_BYTES - len(frame)))  # what follows a request is ignored
    with pytest.raises(ProtocolError, match="with more than 100000 rows"):
        serve(frame)


def test_tags_count_as_rows() -> None:
    tags = tuple((number, b"") for number in range(MAX_ROWS + 1))
    for topic in (
        TopicProduceData("t", partition_data=[PartitionProduceData(0, None, tags)]),
        TopicProduceData("t", partition_data=[], unknown_tags=tags),
    ):
        frame = frame_of("Produce", 9, ProduceRequest(None, 1, 1000, [topic]))
        frame += bytes(LARGE_FROM_BYTES)
        with pytest.raises(ProtocolError, match="with more than 100000 rows"):
            serve(frame)
    frame = frame_of("Produce", 9, ProduceRequest(None, 1, 1000, [], tags)) + bytes(LARGE_FROM_BYTES)
    with pytest.raises(ProtocolError, match="with more than 100000 rows"):
        serve(frame)


def test_as_many_rows_as_are_allowed_are_allowed() -> None:
    topic = TopicProduceData("t", partition_data=[PartitionProduceData(0, None)] * (MAX_ROWS - 1))
    frame = frame_of("Produce", 9, ProduceRequest(None, 1, 1000, [topic]))
    check_large_request(frame, len(frame_of("Produce", 9, ProduceRequest())) - 9, len(frame), key=0, version=9)


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("size", range(40))
def test_a_large_request_that_is_cut_short_is_left_to_the_decoder(version: int, size: int) -> None:
    topic = TopicProduceData("t", partition_data=[PartitionProduceData(0, bytes(100))])
    body = b"".join(load(0).encode_request[version](ProduceRequest("id", 1, 1000, [topic])))
    check_large_request(bytearray(body[:size]), 0, size, key=0, version=version)


@pytest.mark.parametrize("version", [9, 13])
def test_a_varint_that_does_not_end_costs_no_more_than_its_first_bytes(version: int) -> None:
    body = bytearray(b"\xff" * LARGE_FROM_BYTES)
    started = time.process_time()
    check_large_request(body, 0, len(body), key=0, version=version)
    assert time.process_time() - started < 1, "reading it to its end would take most of an hour"


def test_rows_count_also_if_nonsense_follows() -> None:
    first = PartitionProduceData(-1, bytes(16_382))  # behind the number of rows: a varint that does not end
    topic = TopicProduceData("t", partition_data=[first, *[PartitionProduceData(0, None)] * MAX_ROWS])
    frame = frame_of("Produce", 9, ProduceRequest(None, 1, 1000, [topic]))
    frame += bytes(LARGE_FROM_BYTES)
    with pytest.raises(ProtocolError, match="with more than 100000 rows"):
        serve(frame)


def test_tags_of_a_header_have_a_limit_of_their_own() -> None:
    tags = tuple((number, b"") for number in range(MAX_ROWS))
    frame = bytearray(write_request_header(RequestHeader(0, 9, 77, "test", tags)))
    frame += bytes(LARGE_FROM_BYTES)
    with pytest.raises(ProtocolError, match="RequestHeader"):
        serve(frame)


@pytest.mark.parametrize(
    ("api", "version", "request_"),
    [
        (
            "CreatePartitions",
            3,
            CreatePartitionsRequest([CreatePartitionsTopic("", 0, [CreatePartitionsAssignment([])] * 3000)]),
        ),
        ("AlterClientQuotas", 1, AlterClientQuotasRequest([EntryData([], [])] * 3000)),
        ("OffsetFetch", 8, OffsetFetchRequest(groups=[OffsetFetchRequestGroup("", topics=[])] * 3000)),
    ],
)
def test_the_worst_rows_cost_no_more_than_was_measured(api: str, version: int, request_: Any) -> None:
    frame = bytearray(b"".join(load(API_BY_NAME[api].key).encode_request[version](request_)))
    decode = load(API_BY_NAME[api].key).decode_request[version]
    tracemalloc.start()
    decoded = decode(frame, memoryview(frame), 0, len(frame))
    cost, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert decoded is not None
    assert 40 < cost / len(frame) < WORST_BYTES_PER_BYTE
