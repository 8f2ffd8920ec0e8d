"""Many connections, many partitions, a huge message: others are served meanwhile, and memory comes back.

`python -m benchmarks sizes` has the figures, and goes further: 10,000 partitions, and a consumer 10 GB behind.
"""

from pathlib import Path
from typing import Final

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.protocol.messages.metadata import MetadataRequest
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.protocol.records import NewRecord, build_batch
from tests.support.broker_process import BrokerProcess
from tests.support.round_trip import check_round_trip
from tests.support.waiting import wait_until
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.slow

MB: Final = 1 << 20
NOW_MS: Final = 1_700_000_000_000


def create(client: WireClient, topic: str, partitions: int) -> None:
    (row,) = client.ask("CreateTopics", 5, CreateTopicsRequest([CreatableTopic(topic, partitions, 1, [], [])])).topics
    assert row.error_code == ErrorCode.NONE, row


def produce(client: WireClient, topic: str, rows: list[PartitionProduceData]) -> None:
    request = ProduceRequest(None, -1, 60_000, [TopicProduceData(topic, bytes(16), rows)])
    answer = client.ask("Produce", 9, request).responses[0].partition_responses
    assert [row.error_code for row in answer] == [ErrorCode.NONE] * len(rows)


def test_a_thousand_connections_are_served_and_others_with_them(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        before, descriptors = broker.memory_bytes(), broker.count_descriptors()
        clients = [WireClient(broker.address) for _ in range(1000)]
        try:
            sent = [(client, client.send("Metadata", 9, MetadataRequest(topics=None))) for client in clients]
            check_round_trip(broker.address, "meanwhile")
            for client, correlation_id in sent:
                assert client.receive("Metadata", 9, correlation_id).brokers
            assert broker.memory_bytes() - before < 30 * MB
        finally:
            for client in clients:
                client.close()
        wait_until(lambda: broker.count_descriptors() < descriptors + 50)  # the log of a topic is open, too
        check_round_trip(broker.address, "afterwards")
        broker.check_log()


def test_a_broker_takes_the_descriptors_that_it_may_have(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, before=("sh", "-c", 'ulimit -Sn 64 && exec "$@"', "sh")) as broker:
        clients = [WireClient(broker.address) for _ in range(100)]
        try:
            for client in clients:
                assert client.ask("Metadata", 9, MetadataRequest(topics=None)).brokers
        finally:
            for client in clients:
                client.close()


def test_two_thousand_partitions_are_made_written_to_and_found_again(tmp_path: Path) -> None:
    count = 2000
    batch = bytes(build_batch([NewRecord(NOW_MS, b"key", b"value")]))
    everywhere = [PartitionProduceData(index, batch) for index in range(count)]
    with BrokerProcess(tmp_path) as broker:
        with WireClient(broker.address) as client:
            create(client, "many", count)
            produce(client, "many", everywhere)
        for is_clean in (True, False):
            if is_clean:
                assert broker.stop() == 0
            else:
                broker.kill()
            broker.start()
            with WireClient(broker.address) as client:
                (directory,) = client.ask("DescribeLogDirs", 4, DescribeLogDirsRequest(topics=None)).results
                sizes = {row.partition_index: row.partition_size for row in directory.topics[0].partitions}
                assert set(sizes) == set(range(count))
                assert len(set(sizes.values())) == 1
                produce(client, "many", everywhere)
        assert broker.memory_bytes() < 100 * MB
        broker.check_log()


def test_a_message_of_a_hundred_megabytes_comes_back_and_its_memory_too(tmp_path: Path) -> None:
    size = 100 * MB
    limit = str(size + MB)
    configs = {"message.max.bytes": limit, "socket.request.max.bytes": limit, "fetch.max.bytes": limit}
    batch = bytes(build_batch([NewRecord(NOW_MS, None, bytes(size))]))
    with BrokerProcess(tmp_path, configs=configs) as broker, WireClient(broker.address) as client:
        create(client, "huge", 1)
        before = broker.memory_bytes()
        for offset in range(2):
            produce(client, "huge", [PartitionProduceData(0, batch)])
            wanted = FetchPartition(0, fetch_offset=offset, partition_max_bytes=2**31 - 1)
            request = FetchRequest(max_wait_ms=0, topics=[FetchTopic("huge", partitions=[wanted])])
            (row,) = client.ask("Fetch", 12, request).responses[0].partitions
            assert row.error_code == ErrorCode.NONE
            assert bytes(row.records[61:]) == batch[61:]  # behind the header, which has got its offset
        assert broker.peak_memory_bytes() - before < 3 * size
        # The C library keeps pieces of up to 32 MB for the next one; more than that must go.
        wait_until(lambda: broker.memory_bytes() - before < 50 * MB)
        broker.check_log()
