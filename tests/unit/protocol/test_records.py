"""Records one by one: their bytes written out, what strict reading refuses, and what compaction may rebuild."""

from contextlib import suppress
from struct import pack_into
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.protocol.batch import CONTROL_FLAG, HEADER_SIZE, TRANSACTIONAL_FLAG, verify
from headrace.protocol.compression import Codec
from headrace.protocol.errors import CorruptBatchError
from headrace.protocol.records import (
    MAX_HEADERS,
    ControlType,
    NewRecord,
    Record,
    build_batch,
    build_end_transaction_marker,
    control_key,
    iter_batches,
    read_control_type,
    read_coordinator_epoch,
    read_records,
    read_usual_marker,
    rebuild_batch,
    seal_batch,
)
from headrace.protocol.varints import read_varint, read_varlong, varint
from tests.support.record_strategies import (
    BROKEN_RECORDS,
    GOOD,
    UNUSUAL_RECORDS,
    batches,
    codecs,
    damage,
    logs,
    opened,
    record_lists,
    seeds,
    some_of,
)

TWO_RECORDS = bytes.fromhex(
    # the header, 61 bytes
    "0000000000000064"  # base offset 100
    "00000052"  # batch length: the 49 bytes of header after this field, and 33 of records
    "00000007"  # leader epoch
    "02"  # magic
    "84a7392a"  # CRC-32C of all that follows
    "0000"  # attributes: no codec, CreateTime
    "00000001"  # last offset delta
    "0000018bcfe56864"  # base timestamp 1,700,000,000,100: the first record's
    "0000018bcfe56864"  # max timestamp, the same
    "ffffffffffffffff"  # no producer id
    "ffff"  # no producer epoch
    "ffffffff"  # no sequence
    "00000002"  # two records
    # the first record
    "28"  # length 20, zigzag 40
    "00"  # attributes
    "00"  # timestamp delta 0
    "00"  # offset delta 0
    "066b6579"  # key "key", 3 bytes
    "0a76616c7565"  # value "value", 5 bytes
    "02"  # one header
    "0268"  # its key, "h"
    "06010203"  # its value, 3 bytes
    # the second record
    "16"  # length 11
    "00"  # attributes
    "c701"  # timestamp delta -100: zigzag 199, in two bytes
    "02"  # offset delta 1
    "01"  # null key
    "00"  # a value of no bytes
    "02"  # one header
    "04c3a9"  # its key, "é"
    "01"  # its value is null
)
RECORDS = [
    Record(100, 1_700_000_000_100, b"key", b"value", (("h", b"\1\2\3"),)),
    Record(101, 1_700_000_000_000, None, b"", (("é", None),)),
]


def slow_crc32c(data: bytes) -> int:
    """Bit by bit, as the standard defines it: an oracle that shares no code with what is tested."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def news(records: list[Record]) -> list[NewRecord]:
    return [NewRecord(*record[1:]) for record in records]


def batch_of(payload: bytes, *, count: int = 1, last_offset_delta: int | None = None, **fields: Any) -> bytearray:
    """A batch with a good header around any payload."""
    header = verify(build_batch([NewRecord(1000, None, None)]))
    delta = count - 1 if last_offset_delta is None else last_offset_delta
    return seal_batch(header._replace(record_count=count, last_offset_delta=delta, **fields), payload)


# A whole batch, byte by byte


def test_a_batch_is_built_to_the_byte() -> None:
    assert build_batch(news(RECORDS), base_offset=100, leader_epoch=7) == TWO_RECORDS
    assert int.from_bytes(TWO_RECORDS[17:21]) == slow_crc32c(TWO_RECORDS[21:])


def test_a_batch_is_read_from_any_place_in_any_buffer() -> None:
    buffer = bytearray(b"before" + TWO_RECORDS + b"after")
    for view in (bytes(buffer), buffer, memoryview(buffer)):
        assert list(read_records(view, 6)) == RECORDS
    assert verify(buffer, 6).record_count == 2


@given(records=record_lists, codec=codecs, base_offset=st.integers(0, 2**50))
@settings(max_examples=50, deadline=None)
def test_what_was_built_is_read(records: list[NewRecord], codec: Codec, base_offset: int) -> None:
    batch = build_batch(records, base_offset=base_offset, codec=codec)
    header, read = opened(batch)
    assert [NewRecord(*record[1:]) for record in read] == records
    assert [record.offset for record in read] == list(range(base_offset, base_offset + len(records)))
    assert header.base_timestamp == records[0].timestamp
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert (header.record_count, header.last_offset_delta, header.codec) == (len(records), len(records) - 1, codec)


def test_a_producers_fields_are_in_the_header() -> None:
    batch = build_batch(
        news(RECORDS), producer_id=9, producer_epoch=2, base_sequence=2**31 - 1, transactional=True, leader_epoch=4
    )
    header = verify(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (
        9,
        2,
        2**31 - 1,
        0,
    )
    assert header.is_transactional
    assert not header.is_control
    assert header.leader_epoch == 4


def test_under_log_append_time_every_record_has_the_time_of_the_append() -> None:
    header, records = opened(build_batch(news(RECORDS), log_append_time_ms=5000))
    assert header.is_log_append_time
    assert header.max_timestamp == 5000
    assert [record.timestamp for record in records] == [5000, 5000]


def test_a_new_batch_needs_a_record() -> None:
    with pytest.raises(ValueError, match="at least one"):
        build_batch([])


def test_timestamps_too_far_apart_for_64_bits_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="64 bits"):
        build_batch([NewRecord(-(2**63), None, None), NewRecord(2**63 - 1, None, None)])


# Several batches


@given(log=logs, cut=st.integers(0, 200))
@settings(max_examples=50, deadline=None)
def test_a_partial_batch_at_the_end_is_left_out(log: bytes, cut: int) -> None:
    whole = list(iter_batches(log))
    assert sum(header.size_bytes for _, header in whole) == len(log)
    shortened = log[: max(0, len(log) - cut)]
    expected = [(at, header) for at, header in whole if at + header.size_bytes <= len(shortened)]
    assert list(iter_batches(shortened)) == expected


@pytest.mark.parametrize(
    ("at", "form", "number", "reason"), [(8, ">i", 48, "less than a header"), (16, ">b", 1, "magic 1")]
)
def test_where_no_batch_can_begin_the_walk_stops_with_an_error(at: int, form: str, number: int, reason: str) -> None:
    second = bytearray(TWO_RECORDS)
    pack_into(form, second, at, number)
    walk = iter_batches(TWO_RECORDS + second)
    assert next(walk) == (0, verify(TWO_RECORDS))
    with pytest.raises(CorruptBatchError, match=reason):
        next(walk)


# Strict reading


@pytest.mark.parametrize(("payload", "reason"), BROKEN_RECORDS)
def test_a_record_that_breaks_its_format_is_refused(payload: bytes, reason: str) -> None:
    with pytest.raises(CorruptBatchError, match=reason):
        list(read_records(batch_of(payload)))


@pytest.mark.parametrize("payload", UNUSUAL_RECORDS)
def test_numbers_longer_than_they_need_to_be_and_the_largest_are_read(payload: bytes) -> None:
    assert len(list(read_records(batch_of(payload, base_timestamp=0)))) == 1


def test_the_number_of_records_must_be_the_one_in_the_header() -> None:
    good = b"\x0c" + GOOD
    assert len(list(read_records(batch_of(good * 3, count=3)))) == 3
    with pytest.raises(CorruptBatchError, match="7 bytes follow the last of 2"):
        list(read_records(batch_of(good * 3, count=2)))
    with pytest.raises(CorruptBatchError, match="4 records cannot be in 21 bytes"):
        list(read_records(batch_of(good * 3, count=4)))
    with pytest.raises(CorruptBatchError, match="follow the last of 0"):
        list(read_records(batch_of(good, count=0, last_offset_delta=0)))
    with pytest.raises(CorruptBatchError, match="2147483647 records cannot be"):  # refused before anything is allocated
        list(read_records(batch_of(good, count=2**31 - 1)))


def test_a_timestamp_beyond_64_bits_is_refused() -> None:
    batch = batch_of(b"\x0c\x00\x02\x00\x01\x01\x00", base_timestamp=2**63 - 1)
    with pytest.raises(CorruptBatchError, match="timestamp 9223372036854775808"):
        list(read_records(batch))


def test_more_headers_than_any_record_needs_are_refused() -> None:
    headers = b"\x00\x01" * (MAX_HEADERS + 1)  # an empty key, a null value
    body = b"\x00\x00\x00\x01\x01" + varint(MAX_HEADERS + 1) + headers
    with pytest.raises(CorruptBatchError, match=f"{MAX_HEADERS + 1} headers"):
        list(read_records(batch_of(varint(len(body)) + body)))
    body = b"\x00\x00\x00\x01\x01" + varint(MAX_HEADERS) + headers[2:]
    (record,) = read_records(batch_of(varint(len(body)) + body))
    assert record.headers == (("", None),) * MAX_HEADERS


def test_a_compressed_batch_is_read_within_its_limit_only() -> None:
    batch = build_batch([NewRecord(0, None, bytes(10_000))], codec=Codec.ZSTD)
    assert next(read_records(batch, limit_bytes=10_100)).value == bytes(10_000)
    with pytest.raises(CorruptBatchError, match="more than 9000 bytes"):
        next(read_records(batch, limit_bytes=9000))


@given(batch=batches, seed=seeds)
@settings(max_examples=300, deadline=None)
def test_any_damage_to_a_batch_raises_one_exception_or_none(batch: bytearray, seed: int) -> None:
    damaged = damage(bytes(batch), seed)
    with suppress(CorruptBatchError):
        for record in read_records(damaged, limit_bytes=100_000):
            assert len(record.value or b"") <= 100_000


@given(number=st.integers(-(2**31), 2**31 - 1))
@example(number=2**31 - 1)
@example(number=-(2**31))
def test_varints_of_32_bits_come_back(number: int) -> None:
    encoded = varint(number)
    assert read_varint(b"x" + encoded + b"y", 1) == (number, 1 + len(encoded))
    assert read_varlong(b"x" + encoded + b"y", 1) == (number, 1 + len(encoded))
    assert len(encoded) <= 5


@given(number=st.integers(-(2**63), 2**63 - 1))
@example(number=2**63 - 1)
@example(number=-(2**63))
def test_varints_of_64_bits_come_back(number: int) -> None:
    encoded = varint(number)
    assert read_varlong(encoded, 0) == (number, len(encoded))
    assert len(encoded) <= 10


# What compaction rebuilds


@given(batch=batches, data=st.data())
@settings(max_examples=50, deadline=None)
def test_rebuilding_keeps_offsets_and_timestamps_of_what_stays(batch: bytearray, data: st.DataObject) -> None:
    header, records = opened(batch)
    kept = some_of(records, data.draw(st.integers(0)))
    horizon = data.draw(st.none() | st.integers(0, 2**45))
    rebuilt, read = opened(rebuild_batch(header, kept, delete_horizon_ms=horizon))
    assert read == kept
    same = ("base_offset", "leader_epoch", "last_offset_delta", "producer_id", "producer_epoch", "base_sequence")
    assert [getattr(rebuilt, name) for name in same] == [getattr(header, name) for name in same]
    assert rebuilt.is_transactional == header.is_transactional
    assert rebuilt.is_log_append_time == header.is_log_append_time
    assert rebuilt.record_count == len(kept)


def test_a_batch_that_lost_all_its_records_is_an_empty_one_as_kafka_writes_it() -> None:
    original = build_batch(
        news(RECORDS),
        base_offset=100,
        codec=Codec.ZSTD,
        producer_id=3,
        producer_epoch=1,
        base_sequence=5,
        transactional=True,
    )
    header = verify(original)
    empty = rebuild_batch(header, [], delete_horizon_ms=99)
    assert verify(empty) == header._replace(
        batch_length=HEADER_SIZE - 12,
        crc=verify(empty).crc,
        attributes=TRANSACTIONAL_FLAG,  # no codec, no horizon
        base_timestamp=-1,
        record_count=0,
    )
    assert list(read_records(empty)) == []


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp_and_the_deltas_count_from_it() -> None:
    header = verify(TWO_RECORDS)
    marked = rebuild_batch(header, RECORDS, delete_horizon_ms=1_700_000_000_200)
    assert verify(marked).delete_horizon_ms == verify(marked).base_timestamp == 1_700_000_000_200
    assert verify(marked).max_timestamp == header.max_timestamp
    assert list(read_records(marked)) == RECORDS
    assert marked[HEADER_SIZE + 2 : HEADER_SIZE + 4] == bytes.fromhex(
        "c701"
    )  # the first record: 100 ms before the horizon
    again = rebuild_batch(verify(marked), RECORDS[1:])
    assert verify(again).delete_horizon_ms == 1_700_000_000_200
    assert list(read_records(again)) == RECORDS[1:]


def test_the_max_timestamp_follows_the_records_that_stay_unless_it_is_the_time_of_the_append() -> None:
    header = verify(TWO_RECORDS)
    assert verify(rebuild_batch(header, RECORDS[1:])).max_timestamp == RECORDS[1].timestamp
    appended, records = opened(build_batch(news(RECORDS), log_append_time_ms=5000))
    assert verify(rebuild_batch(appended, records[1:])).max_timestamp == 5000


# Control batches


def test_the_marker_of_a_transaction_is_written_to_the_byte() -> None:
    marker = build_end_transaction_marker(
        commit=True,
        coordinator_epoch=3,
        producer_id=9,
        producer_epoch=1,
        timestamp=1000,
        base_offset=50,
        leader_epoch=2,
    )
    header, (record,) = opened(marker)
    assert header.attributes == CONTROL_FLAG | TRANSACTIONAL_FLAG
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.leader_epoch) == (9, 1, -1, 2)
    assert record == Record(50, 1000, bytes.fromhex("00000001"), bytes.fromhex("000000000003"))
    assert read_control_type(record.key) is ControlType.COMMIT
    assert read_coordinator_epoch(record.value) == 3


def test_an_abort_is_told_from_a_commit() -> None:
    marker = build_end_transaction_marker(
        commit=False, coordinator_epoch=0, producer_id=9, producer_epoch=1, timestamp=0
    )
    (record,) = read_records(marker)
    assert read_control_type(record.key) is ControlType.ABORT


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_is_what_its_record_gives_and_is_read_as_a_whole(commit: bool) -> None:
    marker = build_end_transaction_marker(
        commit=commit, coordinator_epoch=70_000, producer_id=1 << 40, producer_epoch=32_767, timestamp=1_700_000_000_000
    )
    key = control_key(ControlType.COMMIT if commit else ControlType.ABORT)
    assert marker == marker_batch(key, bytes.fromhex("0000 00011170"))
    assert read_usual_marker(marker) == (commit, 70_000, 1_700_000_000_000)


def marker_batch(key: bytes, value: bytes, **changes: Any) -> bytearray:
    record = NewRecord(1_700_000_000_000, key, value)
    identity: dict[str, Any] = {
        "producer_id": 1 << 40,
        "producer_epoch": 32_767,
        "transactional": True,
        "control": True,
    }
    return build_batch([record], **identity | changes)


@pytest.mark.parametrize(
    "batch",
    [
        marker_batch(b"\0\0\0\2", bytes(6)),  # another type
        marker_batch(b"\0\1\0\0", bytes(6)),  # a later version of the key
        marker_batch(bytes(4), b"\0\1\0\0\0\0"),  # of the value
        marker_batch(bytes(4), bytes(7)),
        marker_batch(bytes(3), bytes(7)),  # as long as a marker
        marker_batch(bytes(4), bytes(6), log_append_time_ms=5),
        marker_batch(bytes(4), bytes(6), control=False),
        bytearray(),
    ],
)
def test_what_is_no_usual_marker_is_left_to_be_read_record_by_record(batch: bytearray) -> None:
    assert read_usual_marker(batch) is None


def test_control_types_of_a_later_version_are_unknown_not_corrupt() -> None:
    assert [read_control_type(control_key(kind)) for kind in ControlType] == list(ControlType)
    assert read_control_type(b"\0\0\0\x63") is ControlType.UNKNOWN
    assert read_control_type(b"\0\1\0\0 and more") is ControlType.ABORT


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_a_control_record_without_version_and_type_is_refused(key: bytes | None) -> None:
    with pytest.raises(CorruptBatchError):
        read_control_type(key)


@pytest.mark.parametrize("value", [None, b"\0\0\0\0\0", b"\xff\xff\0\0\0\0"])
def test_a_marker_without_a_coordinator_epoch_is_refused(value: bytes | None) -> None:
    with pytest.raises(CorruptBatchError):
        read_coordinator_epoch(value)
