"""The everyday life of a broker in one call: create a topic, write to it, read it back."""

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.protocol.records import NewRecord, build_batch, read_records
from tests.support.wire_client import WireClient


def check_round_trip(address: tuple[str, int], topic: str, value: bytes = b"value") -> None:
    """A new topic, a record, and the same record."""
    with WireClient(address) as client:
        created = client.ask("CreateTopics", 5, CreateTopicsRequest([CreatableTopic(topic, 1, 1, [], [])])).topics
        assert [row.error_code for row in created] == [ErrorCode.NONE], created
        batch = build_batch([NewRecord(1_700_000_000_000, b"key", value)])
        partition = PartitionProduceData(0, bytes(batch))
        request = ProduceRequest(None, -1, 30_000, [TopicProduceData(topic, bytes(16), [partition])])
        (written,) = client.ask("Produce", 9, request).responses[0].partition_responses
        assert (written.error_code, written.base_offset) == (ErrorCode.NONE, 0), written
        wanted = FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
        answer = client.ask("Fetch", 12, FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic, partitions=[wanted])]))
        records = list(read_records(bytes(answer.responses[0].partitions[0].records)))
        assert [(each.offset, each.key, each.value) for each in records] == [(0, b"key", value)]
