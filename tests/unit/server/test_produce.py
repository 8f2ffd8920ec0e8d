"""Produce: what is appended, what is refused and how, and when it is acknowledged."""

import errno
from typing import Any

import pytest

from headrace.log.append import MAX_FAULTS_TOLD
from headrace.log.memory_fs import Fault, MemoryFileSystem
from headrace.protocol.batch import BatchHeader, read_header, write_crc
from headrace.protocol.compression import Codec, compress
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.errors import ProtocolError
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.protocol.messages.metadata_records import PartitionChangeRecord
from headrace.protocol.messages.produce import (
    NodeEndpoint,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from headrace.protocol.records import Record, read_payload, read_records
from headrace.protocol.types import ZERO_UUID
from tests.support.log_batches import a_batch
from tests.support.one_node import NOW_MS, Answer, OneNode

ALL = -1


def request(
    *batches: tuple[int, bytes | bytearray | None], topic: str | bytes = "t", acks: int = ALL, timeout_ms: int = 1000
) -> ProduceRequest:
    name, topic_id = (topic, ZERO_UUID) if isinstance(topic, str) else ("", topic)
    rows = [PartitionProduceData(index, None if batch is None else bytes(batch)) for index, batch in batches]
    return ProduceRequest(None, acks, timeout_ms, [TopicProduceData(name, topic_id, rows)])


def rows_of(response: Any) -> list[Any]:
    (topic,) = response.responses
    return list(topic.partition_responses)


def produce(node: OneNode, batch: bytes | bytearray | None, *, version: int = 12, **how: Any) -> Any:
    """The answer for one batch to partition 0."""
    (row,) = rows_of(node.ask("Produce", version, request((0, batch), **how)))
    return row


def code(row: Any) -> ErrorCode:
    return ErrorCode(row.error_code)


@pytest.fixture
def node() -> OneNode:
    node = OneNode()
    node.create_topic("t", partitions=3)
    return node


def test_batches_get_the_next_offsets_of_their_partition(node: OneNode) -> None:
    first = rows_of(node.ask("Produce", 12, request((0, a_batch(b"a", b"b")), (2, a_batch(b"c")))))
    second = rows_of(node.ask("Produce", 12, request((0, a_batch(b"d")))))
    assert [(row.index, row.error_code, row.base_offset) for row in first + second] == [(0, 0, 0), (2, 0, 0), (0, 0, 2)]
    assert first[0].log_append_time_ms == -1
    assert first[0].log_start_offset == 0
    assert node.partition("t").log.high_watermark == 3


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_is_served(node: OneNode, version: int) -> None:
    topic = node.controller.image.topic_ids["t"] if version >= 13 else "t"
    row = produce(node, a_batch(b"a"), version=version, topic=topic)
    assert (code(row), row.base_offset) == (ErrorCode.NONE, 0)


def test_an_unknown_topic_or_partition_is_refused_beside_others_that_work(node: OneNode) -> None:
    rows = rows_of(node.ask("Produce", 12, request((0, a_batch()), (7, a_batch()))))
    assert [code(row) for row in rows] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert rows[1].base_offset == -1
    assert code(produce(node, a_batch(), topic="nope")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(produce(node, a_batch(), topic=b"?" * 16, version=13)) is ErrorCode.UNKNOWN_TOPIC_ID


def test_acks_other_than_0_1_and_all_are_refused(node: OneNode) -> None:
    assert code(produce(node, a_batch(), acks=2)) is ErrorCode.INVALID_REQUIRED_ACKS
    assert node.partition("t").log.log_end_offset == 0


def test_acks_0_has_no_answer(node: OneNode) -> None:
    answer = node.send("Produce", 12, request((0, a_batch()), acks=0))
    assert not answer.is_there
    assert node.partition("t").log.log_end_offset == 1


def test_a_refused_batch_with_acks_0_closes_the_connection(node: OneNode) -> None:
    with pytest.raises(ProtocolError, match="acks=0"):
        node.send("Produce", 12, request((9, a_batch()), acks=0))


@pytest.mark.parametrize("records", [None, b"", b"too short for a header"])
def test_there_must_be_a_batch(node: OneNode, records: bytes | None) -> None:
    row = produce(node, records)
    assert code(row) is ErrorCode.INVALID_RECORD
    assert "exactly one" in row.error_message


def test_there_must_not_be_two_batches(node: OneNode) -> None:
    row = produce(node, a_batch(b"a") + a_batch(b"b"))
    assert code(row) is ErrorCode.INVALID_RECORD
    assert "more than one" in row.error_message
    assert node.partition("t").log.log_end_offset == 0


def test_a_damaged_batch_is_refused(node: OneNode) -> None:
    batch = a_batch(b"value")
    batch[-1] ^= 1
    assert code(produce(node, batch)) is ErrorCode.CORRUPT_MESSAGE
    cut = a_batch(b"value")[:-2]
    assert code(produce(node, cut)) is ErrorCode.CORRUPT_MESSAGE


def test_an_old_message_format_is_refused(node: OneNode) -> None:
    batch = a_batch(b"value")
    batch[16] = 1
    assert code(produce(node, batch)) is ErrorCode.INVALID_RECORD


def test_zstd_needs_version_7(node: OneNode) -> None:
    batch = a_batch(b"value", codec=Codec.ZSTD)
    assert code(produce(node, batch, version=6)) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert code(produce(node, batch, version=7)) is ErrorCode.NONE


def test_limits_and_rules_of_the_topic_hold(node: OneNode) -> None:
    node.create_topic("small", max_message_bytes="100")
    node.create_topic("keyed", cleanup_policy="compact")
    node.create_topic("dated", message_timestamp_after_max_ms="1000")
    assert code(produce(node, a_batch(b"x" * 100), topic="small")) is ErrorCode.MESSAGE_TOO_LARGE
    assert code(produce(node, a_batch(b"x", keys=[None]), topic="keyed")) is ErrorCode.INVALID_RECORD
    assert code(produce(node, a_batch(b"x", keys=[b"k"]), topic="keyed")) is ErrorCode.NONE
    assert code(produce(node, a_batch(b"x", timestamps=[NOW_MS + 1001]), topic="dated")) is ErrorCode.INVALID_TIMESTAMP


def test_a_changed_config_holds_for_the_next_batch(node: OneNode) -> None:
    assert code(produce(node, a_batch(b"x" * 100))) is ErrorCode.NONE
    node.set_config("t", "max.message.bytes", "100")
    row = produce(node, a_batch(b"x" * 100))
    assert code(row) is ErrorCode.MESSAGE_TOO_LARGE
    assert "max.message.bytes is 100" in row.error_message
    node.set_config("t", "max.message.bytes", None)
    assert code(produce(node, a_batch(b"x" * 100))) is ErrorCode.NONE


def test_the_brokers_clock_dates_records_if_the_topic_says_so(node: OneNode) -> None:
    node.create_topic("now", message_timestamp_type="LogAppendTime")
    assert produce(node, a_batch(timestamps=[5]), topic="now").log_append_time_ms == NOW_MS


def test_a_retry_of_an_idempotent_producer_gets_its_first_offsets(node: OneNode) -> None:
    for sequence in range(3):
        assert produce(node, a_batch(producer=9, sequence=sequence)).base_offset == sequence
    row = produce(node, a_batch(producer=9, sequence=1))
    assert (code(row), row.base_offset) == (ErrorCode.NONE, 1)
    assert node.partition("t").log.log_end_offset == 3


def test_a_gap_in_the_sequence_and_a_zombie_are_refused(node: OneNode) -> None:
    produce(node, a_batch(producer=9, sequence=0, producer_epoch=1))
    gap = produce(node, a_batch(producer=9, sequence=5, producer_epoch=1))
    zombie = produce(node, a_batch(producer=9, sequence=1, producer_epoch=0))
    assert code(gap) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(zombie) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_transactional_batch_without_a_transactional_id_is_refused(node: OneNode) -> None:
    row = produce(node, a_batch(producer=9, transactional=True))
    assert code(row) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert node.partition("t").log.log_end_offset == 0


def test_clients_do_not_write_to_internal_topics(node: OneNode) -> None:
    node.create_topic("__consumer_offsets")
    batch = request((0, a_batch(b"v", keys=[b"k"])), topic="__consumer_offsets")
    (refused,) = rows_of(node.ask("Produce", 12, batch))
    (taken,) = rows_of(node.ask("Produce", 12, batch, client_id="__admin_client"))
    assert [code(refused), code(taken)] == [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.NONE]


def test_who_leads_instead_is_said_from_version_10_on() -> None:
    node = OneNode(other_brokers=[2])
    node.create_topic("far", replicas=[1, 2], leader=2)
    old = produce(node, a_batch(), topic="far", version=9)
    assert code(old) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    response = node.ask("Produce", 10, request((0, a_batch()), topic="far"))
    (row,) = rows_of(response)
    assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (2, 0)
    assert list(response.node_endpoints) == [NodeEndpoint(2, "host2", 9092)]


def test_acks_all_needs_enough_replicas_in_sync() -> None:
    node = OneNode(other_brokers=[2])
    node.create_topic("safe", replicas=[1, 2], isr=[1], min_insync_replicas="2")
    row = produce(node, a_batch(), topic="safe")
    assert code(row) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert code(produce(node, a_batch(), topic="safe", acks=1)) is ErrorCode.NONE


def test_min_insync_replicas_never_asks_for_more_than_there_are(node: OneNode) -> None:
    node.create_topic("single", min_insync_replicas="3")
    assert code(produce(node, a_batch(), topic="single")) is ErrorCode.NONE


class TestSyncedBeforeAcknowledged:
    """`flush.messages=1`: an acknowledgement survives a power cut."""

    @pytest.fixture
    def fs(self) -> MemoryFileSystem:
        return MemoryFileSystem()

    @pytest.fixture
    def node(self, fs: MemoryFileSystem) -> OneNode:
        node = OneNode(fs)
        node.create_topic("t", partitions=2, flush_messages="1")
        return node

    def send(self, node: OneNode, *batches: tuple[int, bytearray], **how: Any) -> Answer:
        return node.send("Produce", 12, request(*batches, **how))

    @pytest.mark.parametrize("acks", [1, ALL])
    def test_the_answer_waits_for_the_sync(self, node: OneNode, acks: int) -> None:
        answer = self.send(node, (0, a_batch()), acks=acks)
        assert not answer.is_there
        assert node.partition("t").log.high_watermark == 0
        node.worker.step()
        assert code(rows_of(answer.response)[0]) is ErrorCode.NONE
        assert node.partition("t").log.high_watermark == 1

    def test_one_round_serves_all_that_came_before_it(self, node: OneNode) -> None:
        first = self.send(node, (0, a_batch()))
        others = [self.send(node, (0, a_batch()), (1, a_batch())) for _ in range(5)]
        assert len(node.worker.chores) == 1
        node.worker.step()
        assert first.is_there
        assert not any(answer.is_there for answer in others)
        assert len(node.worker.chores) == 1
        node.worker.step()
        assert all(answer.is_there for answer in others)
        assert not node.worker.chores

    def test_a_request_waits_for_all_of_its_partitions(self, node: OneNode) -> None:
        self.send(node, (0, a_batch()))
        answer = self.send(node, (0, a_batch()), (1, a_batch()))
        node.worker.step()
        assert not answer.is_there
        node.worker.step()
        assert [code(row) for row in rows_of(answer.response)] == [ErrorCode.NONE] * 2

    def test_what_was_appended_during_a_sync_waits_for_the_next_one(self, node: OneNode) -> None:
        first = self.send(node, (0, a_batch()))
        second = self.send(node, (0, a_batch()))
        node.worker.step()
        assert (first.is_there, second.is_there) == (True, False)
        node.worker.step()
        assert second.is_there

    def test_a_retry_waits_too(self, node: OneNode) -> None:
        self.send(node, (0, a_batch(producer=1)))
        retry = self.send(node, (0, a_batch(producer=1)))
        assert not retry.is_there
        node.worker.step()
        assert rows_of(retry.response)[0].base_offset == 0

    def test_time_runs_out(self, node: OneNode) -> None:
        answer = self.send(node, (0, a_batch()), timeout_ms=300)
        node.clock.move(299)
        assert not answer.is_there
        node.clock.move(1)
        assert code(rows_of(answer.response)[0]) is ErrorCode.REQUEST_TIMED_OUT
        node.worker.step()  # the late end of the sync changes nothing

    def test_a_failed_sync_is_told_and_the_log_takes_no_more(self, node: OneNode, fs: MemoryFileSystem) -> None:
        self.send(node, (1, a_batch()))
        node.worker.step()
        fs.faults.append(Fault("sync", errno.EIO, path_end=".log"))
        answer = self.send(node, (0, a_batch()))
        node.worker.step()
        assert code(rows_of(answer.response)[0]) is ErrorCode.KAFKA_STORAGE_ERROR
        again = self.send(node, (0, a_batch()))
        assert code(rows_of(again.response)[0]) is ErrorCode.KAFKA_STORAGE_ERROR
        other = self.send(node, (1, a_batch()))
        node.worker.step()
        assert code(rows_of(other.response)[0]) is ErrorCode.NONE

    def test_losing_the_leadership_is_told(self, node: OneNode) -> None:
        answer = self.send(node, (0, a_batch()))
        topic_id = node.controller.image.topic_ids["t"]
        node.controller.write(PartitionChangeRecord(0, topic_id, leader=-1))
        assert code(rows_of(answer.response)[0]) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_deleting_the_topic_is_told(self, node: OneNode) -> None:
        answer = self.send(node, (0, a_batch()))
        node.delete_topic("t")
        assert code(rows_of(answer.response)[0]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_a_client_that_goes_is_forgotten(self, node: OneNode) -> None:
        answer = self.send(node, (0, a_batch()))
        assert answer.later is not None
        answer.later.abandon()
        node.worker.step()
        node.clock.move(10_000)
        assert not answer.is_there


def test_disk_full_is_told_and_the_log_goes_on_when_there_is_room_again() -> None:
    fs = MemoryFileSystem()
    node = OneNode(fs)
    node.create_topic("t")
    assert code(produce(node, a_batch())) is ErrorCode.NONE
    fs.faults.append(Fault("append", errno.ENOSPC, path_end=".log", written_bytes=10))
    row = produce(node, a_batch())
    assert code(row) is ErrorCode.KAFKA_STORAGE_ERROR
    assert "Make room" in row.error_message
    assert produce(node, a_batch()).base_offset == 1


def test_a_client_cannot_claim_the_brokers_clock(node: OneNode) -> None:
    batch = a_batch()
    batch[22] |= 0x08
    write_crc(batch, 0, len(batch))
    assert code(produce(node, batch)) is ErrorCode.INVALID_TIMESTAMP


class TestRecordErrors:
    """Which records of a batch were refused, from version 8 on."""

    def places(self, row: Any) -> list[int]:
        return [each.batch_index for each in row.record_errors]

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
    def test_records_without_a_key_are_named(self, node: OneNode, codec: Codec) -> None:
        node.create_topic("keyed", cleanup_policy="compact")
        row = produce(node, a_batch(b"a", b"b", b"c", keys=[b"k", None, None], codec=codec), topic="keyed", version=8)
        assert code(row) is ErrorCode.INVALID_RECORD
        assert self.places(row) == [1, 2]
        assert row.record_errors[0].batch_index_error_message == "a record without a key in a compacted topic"
        assert row.error_message == ("a record without a key in a compacted topic (1 other records are refused, too)")

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
    def test_timestamps_that_are_too_new_or_too_old_are_named(self, node: OneNode, codec: Codec) -> None:
        node.create_topic("dated", message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="2000")
        times = [NOW_MS, NOW_MS - 1001, NOW_MS + 2001, NOW_MS - 1000, NOW_MS + 2000]
        row = produce(node, a_batch(*[b"v"] * 5, timestamps=times, codec=codec), topic="dated")
        assert code(row) is ErrorCode.INVALID_TIMESTAMP
        assert self.places(row) == [1, 2]
        assert "1001 ms behind" in row.record_errors[0].batch_index_error_message
        assert "2001 ms ahead" in row.record_errors[1].batch_index_error_message

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
    def test_a_batch_that_its_header_gives_away_is_opened_to_say_which(self, node: OneNode, codec: Codec) -> None:
        times = [NOW_MS, NOW_MS + 3_600_001, NOW_MS, NOW_MS + 3_600_002]
        row = produce(node, a_batch(b"a", b"b", b"c", b"d", timestamps=times, codec=codec))
        assert (code(row), self.places(row)) == (ErrorCode.INVALID_TIMESTAMP, [1, 3])

    def test_one_wrong_timestamp_counts_for_more_than_missing_keys(self, node: OneNode) -> None:
        node.create_topic("both", cleanup_policy="compact", message_timestamp_before_max_ms="1000")
        times = [NOW_MS, NOW_MS - 2000, NOW_MS - 2000]
        row = produce(node, a_batch(b"a", b"b", b"c", keys=[None, b"k", None], timestamps=times), topic="both")
        assert (code(row), self.places(row)) == (ErrorCode.INVALID_TIMESTAMP, [0, 1, 2])
        assert "without a key" in row.record_errors[2].batch_index_error_message

    def test_records_without_a_timestamp_are_of_any_age(self, node: OneNode) -> None:
        node.create_topic("dated", message_timestamp_before_max_ms="1000")
        assert code(produce(node, a_batch(b"a", timestamps=[-1]), topic="dated")) is ErrorCode.NONE

    def test_older_versions_cannot_tell(self, node: OneNode) -> None:
        node.create_topic("keyed", cleanup_policy="compact")
        row = produce(node, a_batch(b"a", keys=[None]), topic="keyed", version=7)
        assert (code(row), self.places(row)) == (ErrorCode.INVALID_RECORD, [])

    def test_of_many_the_first_are_named(self, node: OneNode) -> None:
        node.create_topic("keyed", cleanup_policy="compact")
        count = MAX_FAULTS_TOLD + 5
        row = produce(node, a_batch(*[b"v"] * count, keys=[None] * count), topic="keyed")
        assert self.places(row) == list(range(MAX_FAULTS_TOLD))

    def test_a_batch_that_is_refused_for_another_reason_names_none(self, node: OneNode) -> None:
        row = produce(node, a_batch(b"x" * 2_000_000))
        assert (code(row), self.places(row)) == (ErrorCode.MESSAGE_TOO_LARGE, [])


class TestCompressionType:
    """The topic says how its batches are compressed."""

    def stored(self, node: OneNode, topic: str) -> tuple[BatchHeader, list[Record]]:
        data = node.partition(topic).log.read(0, max_bytes=1 << 20).read()
        return read_header(data), list(read_records(data))

    @pytest.mark.parametrize("codec", list(Codec))
    @pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
    def test_batches_are_stored_as_the_topic_wants_them(self, codec: Codec, wanted: str) -> None:
        node = OneNode()
        node.create_topic("t", compression_type=wanted)
        batch = a_batch(
            b"a" * 500, b"b" * 500, codec=codec, producer=7, producer_epoch=2, timestamps=[NOW_MS, NOW_MS + 5]
        )
        assert code(produce(node, batch)) is ErrorCode.NONE
        header, records = self.stored(node, "t")
        assert Codec(header.codec).name.replace("NONE", "UNCOMPRESSED") == wanted.upper()
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 0)
        assert [(each.timestamp, each.key, each.value) for each in records] == [
            (NOW_MS, b"k", b"a" * 500),
            (NOW_MS + 5, b"k", b"b" * 500),
        ]

    @pytest.mark.parametrize(
        ("config", "level"), [(None, 0), ("9", 0), ("1", 3), ("8", 8), ("12", 12), ("16", 16), ("17", 16)]
    )
    def test_the_usual_level_of_lz4_is_the_fast_one(self, node: OneNode, config: str | None, level: int) -> None:
        node.create_topic("lz4", compression_type="lz4")
        node.set_config("lz4", "compression.lz4.level", config)
        value = b"".join(b"%d and %d, " % (number, number * number % 1009) for number in range(2000))
        batch = a_batch(value)
        expected = compress(Codec.LZ4, read_payload(batch, 0, read_header(batch)), level)
        produce(node, batch, topic="lz4")
        stored = node.partition("lz4").log.read(0, max_bytes=1 << 20).read()
        assert stored[61:] == expected

    def test_by_default_they_stay_as_they_came(self, node: OneNode) -> None:
        batch = a_batch(b"a" * 500, codec=Codec.LZ4)
        produce(node, batch)
        assert self.stored(node, "t")[0].crc == read_header(batch).crc

    def test_a_damaged_batch_is_still_found_out(self, node: OneNode) -> None:
        node.create_topic("zip", compression_type="gzip")
        batch = a_batch(b"a" * 500)
        batch[-1] ^= 1
        assert code(produce(node, batch, topic="zip")) is ErrorCode.CORRUPT_MESSAGE

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
    def test_more_records_than_its_bytes_can_hold_are_found_out(self, node: OneNode, codec: Codec) -> None:
        node.create_topic("zip", compression_type="zstd")
        batch = a_batch(b"a" * 500, codec=codec)
        count = len(batch) * 1000
        batch[23:27] = (count - 1).to_bytes(4, "big")
        batch[57:61] = count.to_bytes(4, "big")
        write_crc(batch, 0, len(batch))
        row = produce(node, batch, topic="zip")
        assert code(row) is ErrorCode.CORRUPT_MESSAGE
        assert f"{count} records cannot be in" in row.error_message

    def test_a_batch_above_the_topics_limit_is_refused_before_it_is_unpacked(self, node: OneNode) -> None:
        node.create_topic("zip", compression_type="zstd", max_message_bytes="1000")
        batch = a_batch(b"a" * 1500)  # small enough once it is compressed
        assert code(produce(node, batch, topic="zip")) is ErrorCode.MESSAGE_TOO_LARGE

    def test_what_no_client_may_send_is_still_refused(self, node: OneNode) -> None:
        node.create_topic("zip", compression_type="gzip")
        batch = a_batch(b"a" * 500)
        batch[22] |= 0x20  # a control batch
        write_crc(batch, 0, len(batch))
        assert code(produce(node, batch, topic="zip")) is ErrorCode.INVALID_RECORD

    def test_consumers_that_cannot_read_zstd_are_told(self, node: OneNode) -> None:
        node.create_topic("z", compression_type="zstd")
        produce(node, a_batch(b"a"), topic="z")
        wanted = FetchRequest(topics=[FetchTopic("z", partitions=[FetchPartition(0, partition_max_bytes=1000)])])
        for version, expected in ((9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (10, ErrorCode.NONE)):
            (topic,) = node.ask("Fetch", version, wanted).responses
            assert code(topic.partitions[0]) is expected
