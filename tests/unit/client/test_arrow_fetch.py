"""Parts of partitions as tables: in bounded steps, of one very topic, and never waiting for what does not come."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import headrace
import headrace.arrow as ha
from headrace.client import arrow_fetch, background
from headrace.client.admin import AsyncAdmin
from headrace.client.arrow_fetch import FetchSettings, Part, fetch_tables, slice_bytes
from headrace.client.cluster import Cluster
from headrace.client.consumer_errors import CorruptRecordError
from headrace.client.errors import OffsetOutOfRangeError, RequestTimedOutError, UnknownTopicError
from headrace.protocol.messages.fetch import PartitionData
from headrace.protocol.messages.list_offsets import ListOffsetsResponse, ListOffsetsTopicResponse
from headrace.protocol.records import iter_batches
from headrace.protocol.types import uuid_from_text
from tests.support.scripted_cluster import TOPIC, ScriptedCluster
from tests.support.scripted_peer import ALL_VERSIONS

ROWS = 20_000
LIST_OFFSETS = 2
MAGIC_AT, CRC_AT = 16, 17  # in the header of a batch


@pytest.fixture
def broker() -> Iterator[headrace.Broker]:
    with headrace.Broker() as broker:
        broker.create_topic("one", partitions=1)
        yield broker


@pytest.fixture
def cluster(broker: headrace.Broker) -> Iterator[Cluster]:
    admin = AsyncAdmin(broker.address)

    async def made() -> Cluster:
        return admin._cluster

    yield background.call(made())
    background.call(admin.close())


def fill(broker: headrace.Broker, **configs: Any) -> None:
    values = [f"{number:0200d}".encode() for number in range(ROWS)]
    ha.write(pa.table({"value": values}), "one", broker.address, **configs)


def offsets(tables: Iterator[pa.Table]) -> list[int]:
    return [offset for table in tables for offset in table.column("offset").to_pylist()]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_slice_is_decoded_in_steps_and_nothing_is_left_out(
    broker: headrace.Broker, cluster: Cluster, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker, compression_type=codec)
    monkeypatch.setattr(arrow_fetch, "STEP_BYTES", 100_000)
    tables = list(fetch_tables(cluster, [Part("one", 0, 3, ROWS - 5)], FetchSettings()))
    assert offsets(iter(tables)) == list(range(3, ROWS - 5))
    # A batch is decoded as a whole, and a step ends with the batch that goes beyond its size.
    assert max(table.nbytes for table in tables) < 2 * 512 * 1024
    assert len(tables) > 3


@pytest.mark.parametrize(
    ("offsets_left", "record_bytes", "expected"),
    [(10, 1024, 65_536), (1_000, 1024, 1_280_000), (1_000, 100.0, 125_000), (10_000_000, 100.0, 8_000_000)],
)
def test_no_more_is_asked_for_than_what_is_left(offsets_left: int, record_bytes: float, expected: int) -> None:
    assert slice_bytes(Part("one", 0, 500, 500 + offsets_left), record_bytes, 8_000_000) == expected


def test_a_small_part_in_the_middle_of_a_log(broker: headrace.Broker, cluster: Cluster) -> None:
    fill(broker)
    assert offsets(fetch_tables(cluster, [Part("one", 0, 7_000, 7_500)], FetchSettings())) == list(range(7_000, 7_500))


def test_a_part_of_a_topic_that_was_made_anew_is_not_read(broker: headrace.Broker, cluster: Cluster) -> None:
    fill(broker)
    with headrace.Admin(broker.address) as admin:
        old = uuid_from_text(admin.describe_topic("one").id)
        assert len(offsets(fetch_tables(cluster, [Part("one", 0, 0, ROWS, old)], FetchSettings()))) == ROWS
        admin.delete_topic("one")
        admin.create_topic("one", partitions=1)
        new = uuid_from_text(admin.describe_topic("one").id)
    fill(broker)
    with pytest.raises(UnknownTopicError, match="deleted, and another was made under its name"):
        list(fetch_tables(cluster, [Part("one", 0, 0, ROWS, old)], FetchSettings(patience_seconds=0.2)))
    # What the client knew before does not keep it from reading the new one.
    assert len(offsets(fetch_tables(cluster, [Part("one", 0, 0, ROWS, new)], FetchSettings()))) == ROWS


def test_a_topic_that_is_gone_is_an_error_soon(broker: headrace.Broker, cluster: Cluster) -> None:
    fill(broker)
    with headrace.Admin(broker.address) as admin:
        admin.delete_topic("one")
    with pytest.raises(UnknownTopicError):
        list(fetch_tables(cluster, [Part("one", 0, 0, ROWS)], FetchSettings(patience_seconds=0.2)))


def test_an_offset_that_is_gone_is_an_error_at_once(broker: headrace.Broker, cluster: Cluster) -> None:
    fill(broker)
    with headrace.Admin(broker.address) as admin:
        admin.delete_records({headrace.TopicPartition("one", 0): 100})
    with pytest.raises(OffsetOutOfRangeError, match="does not hold offset 99"):
        list(fetch_tables(cluster, [Part("one", 0, 99, ROWS)], FetchSettings()))


def test_what_does_not_come_is_not_waited_for_for_ever(broker: headrace.Broker, cluster: Cluster) -> None:
    fill(broker)
    settings = FetchSettings(max_wait_ms=10, patience_seconds=0.1)
    with pytest.raises(RequestTimedOutError, match=f"nothing came from offset {ROWS} on.*ends at {ROWS}"):
        list(fetch_tables(cluster, [Part("one", 0, 0, ROWS + 1)], settings))


def test_a_quota_makes_reading_slower_and_nothing_else() -> None:
    # A window of a second instead of eleven: what is withheld may come soon.
    with headrace.Broker(quota_window_num=2, quota_window_size_seconds=1) as broker:
        broker.create_topic("one", partitions=1)
        fill(broker)
        with headrace.Admin(broker.address) as admin:
            admin.alter_quotas({"client-id": "slow"}, {"consumer_byte_rate": 1_500_000})
        found = ha.read("one", broker.address, client_id="slow")
        assert found.column("offset").to_pylist() == list(range(ROWS))


class Tiered(ScriptedCluster):
    """Offsets below `local_start` are in remote storage, and it takes three fetches until they have come from there."""

    def __init__(self, records: int, *, local_start: int, is_compacted: bool = False) -> None:
        super().__init__([(0, b"%d" % number) for number in range(records)])
        self._local_start = local_start
        self._is_compacted = is_compacted
        self._attempts = 0

    def _list_offsets(self, node: int, request: Any) -> ListOffsetsResponse:
        response = super()._list_offsets(node, request)
        (row,) = response.topics[0].partitions
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(TOPIC, [row._replace(offset=self._local_start)])])

    def _row(self, node: int, wanted: Any, *, has_rack: bool) -> PartitionData:
        row = super()._row(node, wanted, has_rack=has_rack)
        self._attempts += wanted.fetch_offset < self._local_start
        if self._is_compacted or 0 < self._attempts < 3:
            return row._replace(records=None)
        return row


class Damaged(ScriptedCluster):
    """One byte of the batch at offset 4 is another one."""

    def __init__(self, place: int) -> None:
        super().__init__([(0, b"%d" % number) for number in range(9)])
        self._place = place

    def _row(self, node: int, wanted: Any, *, has_rack: bool) -> PartitionData:
        row = super()._row(node, wanted, has_rack=has_rack)
        records = bytearray(row.records or b"")
        for position, header in list(iter_batches(records)):
            if header.base_offset == 4:
                records[position + self._place] ^= 0x55
        return row._replace(records=memoryview(records))


def read_scripted(scripted: ScriptedCluster, part: Part) -> list[int]:
    async def story() -> list[int]:
        async with asyncio.timeout(120), scripted:
            return await asyncio.to_thread(read)

    def read() -> list[int]:
        admin = AsyncAdmin(scripted.bootstrap)

        async def made() -> Cluster:
            return admin._cluster

        try:
            return offsets(fetch_tables(background.call(made()), [part], FetchSettings(max_wait_ms=10)))
        finally:
            background.call(admin.close())

    return asyncio.run(story())


def test_what_comes_late_from_remote_storage_is_waited_for() -> None:
    assert read_scripted(Tiered(6, local_start=4), Part(TOPIC, 0, 0, 6)) == list(range(6))


@pytest.mark.parametrize("version", [7, 11])  # before remote storage was known, and after
def test_where_compaction_has_left_nothing_on_the_disk_there_is_nothing_to_wait_for(version: int) -> None:
    scripted = Tiered(6, local_start=0, is_compacted=True)
    scripted.peers[0]._ranges = {**ALL_VERSIONS, LIST_OFFSETS: (0, version)}
    assert read_scripted(scripted, Part(TOPIC, 0, 2, 6)) == []


@pytest.mark.parametrize("place", [MAGIC_AT, CRC_AT])
@pytest.mark.parametrize("start", [0, 4])
def test_damaged_records_are_an_error_that_says_where_they_are(place: int, start: int) -> None:
    with pytest.raises(CorruptRecordError, match=rf"{TOPIC}-0 at offset 4 are damaged.*end of {{0: 4}}") as raised:
        read_scripted(Damaged(place), Part(TOPIC, 0, start, 9))
    assert (raised.value.partition, raised.value.offset) == (headrace.TopicPartition(TOPIC, 0), 4)
