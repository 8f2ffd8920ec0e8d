"""What stands in a topic, read over the wire with nothing but the codecs."""

import time
from typing import Final

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.protocol.records import Record, iter_batches, read_records
from tests.support.wire_client import WireClient

PATIENCE_SECONDS: Final = 120.0  # so long the machine may be busy; what needs it is broken
_NOT_YET: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


def read_topic(address: str, topic: str, *, committed: bool = False) -> list[Record]:
    """All records, partition after partition; `committed`: without those of aborted and open transactions."""
    host, _, port = address.rpartition(":")
    with WireClient((host, int(port))) as client:
        request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        count = len(client.ask("Metadata", 12, request).topics[0].partitions)
        return [record for partition in range(count) for record in _read(client, topic, partition, committed=committed)]


def _read(client: WireClient, topic: str, partition: int, *, committed: bool) -> list[Record]:
    found: list[Record] = []
    offset = 0
    while True:
        place = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 24)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 24,
            isolation_level=int(committed),
            topics=[FetchTopic(topic, partitions=[place])],
        )
        row = _row(client, request)
        data = bytes(row.records or b"")
        if not data:
            return found
        aborted = {each.producer_id: each.first_offset for each in row.aborted_transactions or ()}
        for position, header in iter_batches(data):
            is_aborted = header.is_transactional and header.base_offset >= aborted.get(header.producer_id, 1 << 62)
            if header.is_control and is_aborted:
                del aborted[header.producer_id]  # here its aborted transaction ends
            elif not header.is_control and not is_aborted:
                found += read_records(data, position)
            offset = header.next_offset


def _row(client: WireClient, request: FetchRequest) -> PartitionData:
    """Apache Kafka tells of a new topic before all of its partitions are led: then it is asked again."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        row: PartitionData = client.ask("Fetch", 12, request).responses[0].partitions[0]
        if row.error_code not in _NOT_YET or time.monotonic() > deadline:
            assert row.error_code == 0, ErrorCode(row.error_code)
            return row
        time.sleep(0.02)
