"""A topic of one partition as a test sees it through a `WireClient`: produce to it, and read all of it."""

from typing import Any, Final

from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.protocol.records import NewRecord, build_batch, iter_batches, read_records
from tests.support.wire_client import WireClient

PRODUCE_VERSION: Final = 12  # the last that names topics by name
FETCH_VERSION: Final = 12
_TIMEOUT_MS: Final = 30_000


def client_of(address: str) -> WireClient:
    host, _, port = address.rpartition(":")
    return WireClient((host, int(port)))


def produce_request(
    topic: str, value: bytes, *, key: bytes | None = None, acks: int = -1, timestamp_ms: int = 0
) -> ProduceRequest:
    batch = bytes(build_batch([NewRecord(timestamp_ms, key, value)]))
    return ProduceRequest(
        None, acks, _TIMEOUT_MS, [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])]
    )


def produce(client: WireClient, topic: str, value: bytes, **options: Any) -> int:
    """Its error code."""
    response = client.ask("Produce", PRODUCE_VERSION, produce_request(topic, value, **options))
    return int(response.responses[0].partition_responses[0].error_code)


def fetch_request(topic: str, *, max_wait_ms: int = 0, offset: int = 0, **more: Any) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, topics=[FetchTopic(topic, partitions=[partition])], **more
    )


def values(client: WireClient, topic: str, *, offset: int = 0) -> list[bytes | None]:
    """What is in the topic, from an offset on."""
    found: list[bytes | None] = []
    while True:
        response = client.ask("Fetch", FETCH_VERSION, fetch_request(topic, offset=offset))
        row = response.responses[0].partitions[0]
        assert row.error_code == 0, row
        if not row.records:
            return found
        for start, header in iter_batches(row.records):
            found += [record.value for record in read_records(row.records, start)]
            offset = header.next_offset
