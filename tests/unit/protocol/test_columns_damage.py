"""Damaged and invented batches: the rows that the per-record reader finds, or both refuse; no claim is paid for."""

import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.protocol.batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    pack_header,
    verify,
    write_crc,
)
from headrace.protocol.columns import decode_batches
from headrace.protocol.compression import Codec
from headrace.protocol.errors import CorruptBatchError
from headrace.protocol.records import (
    NewRecord,
    build_batch,
    seal_batch,
)
from headrace.protocol.varints import varint
from tests.support.column_oracle import (
    Row,
    decoded_rows,
    expected_rows,
    outcome,
    rows_of,
    text_records,
)
from tests.support.record_strategies import (
    BROKEN_RECORDS,
    GOOD,
    UNUSUAL_RECORDS,
    damage,
    logs,
    seeds,
)


def test_decoding_stops_at_its_limit_and_goes_on_from_there() -> None:
    log = b"".join(build_batch(text_records(100), base_offset=first, codec=Codec.ZSTD) for first in range(0, 1000, 100))
    rows: list[Row] = []
    offset, calls = 0, 0
    while offset < 1000:
        columns = decode_batches(log, topic="orders", partition=3, first_offset=offset, limit_bytes=10_000)
        assert columns.next_offset > offset
        rows += rows_of(columns.table)
        offset, calls = columns.next_offset, calls + 1
    assert rows == expected_rows(log)
    assert 1 < calls < 10


def test_a_batch_that_inflates_beyond_the_limit_is_refused() -> None:
    bomb = bytes(build_batch([NewRecord(0, None, bytes(5_000_000))], codec=Codec.ZSTD))
    assert len(bomb) < 2000
    with pytest.raises(CorruptBatchError, match="more than 1000000 bytes"):
        decoded_rows(bomb)


def test_a_batch_of_more_empty_records_than_the_limit_has_room_for_as_rows_is_refused() -> None:
    batch = bytes(build_batch([NewRecord(0, None, None)] * 20_000, codec=Codec.ZSTD))
    assert len(decoded_rows(batch, limit_bytes=64 * 20_000)) == 20_000
    with pytest.raises(CorruptBatchError, match="20000 records need more than"):
        decoded_rows(batch, limit_bytes=64 * 20_000 - 1)


def test_a_flipped_bit_is_found_by_the_crc_unless_that_was_switched_off() -> None:
    log = bytearray(build_batch(text_records(10)))
    log[-5] ^= 1  # in a value
    with pytest.raises(CorruptBatchError, match="CRC"):
        decoded_rows(bytes(log))
    assert len(decoded_rows(bytes(log), check_crcs=False)) == 10


@pytest.mark.parametrize(
    "fields",
    [
        {"record_count": -1},
        {"record_count": 11},
        {"last_offset_delta": -1},
        {"last_offset_delta": 8},
        {"base_offset": 2**63 - 5},
        {"attributes": 5},
        {"attributes": 7},
    ],
)
def test_a_header_whose_numbers_cannot_be_true_is_refused(fields: dict[str, int]) -> None:
    batch = build_batch(text_records(10))
    header = verify(batch)._replace(**fields)
    broken = bytearray(pack_header(header) + batch[HEADER_SIZE:])
    write_crc(broken, 0, len(broken))
    with pytest.raises(CorruptBatchError):
        decoded_rows(bytes(broken))


@pytest.mark.parametrize("count", [2, 3, 2**31 - 1])
def test_a_record_count_that_the_bytes_cannot_hold_allocates_nothing(count: int) -> None:
    header = verify(build_batch([NewRecord(0, None, None)]))
    batch = bytes(seal_batch(header._replace(record_count=count, last_offset_delta=count - 1), b"\x0c\0\0\0\1\1\0"))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatchError, match="cannot be in 7 bytes"):
            decoded_rows(batch)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@given(log=logs, seed=seeds)
@settings(max_examples=100, deadline=None)
def test_damaged_batches_give_the_same_rows_as_one_by_one_or_are_refused_by_both(log: bytes, seed: int) -> None:
    damaged = damage(log, seed)
    assert outcome(decoded_rows, damaged, check_crcs=False) == outcome(expected_rows, damaged)


@pytest.mark.slow
@given(log=logs, seed=seeds)
@settings(max_examples=3_000, deadline=None, suppress_health_check=list(HealthCheck))
def test_damaged_batches_are_read_alike_or_refused_by_both_many_times(log: bytes, seed: int) -> None:
    damaged = damage(log, seed)
    assert outcome(decoded_rows, damaged, check_crcs=False) == outcome(expected_rows, damaged)


record_bytes = st.lists(st.sampled_from([0, 0, 0, 1, 2, 4, 6, 12, 14, 16, 0x7F, 0x80, 0x81, 0xFF]), max_size=60).map(
    bytes
)


@given(payload=record_bytes | st.binary(max_size=60), count=st.integers(1, 4), framed=st.booleans())
@settings(max_examples=300, deadline=None)
def test_invented_records_are_read_alike_or_refused_by_both(payload: bytes, count: int, framed: bool) -> None:
    header = verify(build_batch(text_records(count)))
    if framed:  # so that the length is right, and what is inside is tried
        payload = (varint(len(payload)) + payload) * count
    batch = bytes(seal_batch(header._replace(last_offset_delta=5), payload))
    assert outcome(decoded_rows, batch) == outcome(expected_rows, batch)


@given(
    fields=st.lists(
        st.integers(-3, 9) | st.sampled_from([-(2**31), 2**31 - 1, 2**32, 100, -64]), min_size=5, max_size=9
    )
)
@settings(max_examples=300, deadline=None)
def test_records_of_odd_numbers_are_read_alike_or_refused_by_both(fields: list[int]) -> None:
    payload = b"\0" + b"".join(varint(number) for number in fields) + b"\0\0\0"
    records = b"".join(varint(len(body)) + body for body in (payload, b"\0\0\0\1\1\0", payload))
    header = verify(build_batch(text_records(3)))
    batch = bytes(seal_batch(header._replace(last_offset_delta=9), records))
    assert outcome(decoded_rows, batch) == outcome(expected_rows, batch)


@pytest.mark.parametrize("others", [0, 1, 40])
@pytest.mark.parametrize("payload", [payload for payload, _ in BROKEN_RECORDS])
def test_what_the_per_record_reader_refuses_is_refused_among_good_records_too(payload: bytes, others: int) -> None:
    header = verify(build_batch(text_records(1 + 2 * others)))
    good = b"\x0c" + GOOD
    headed = b"\x14" + GOOD[:-1] + b"\x02\x02h\x02v"  # with a header, so that broken headers are met in rounds, too
    for other in (good, headed):
        batch = bytes(
            seal_batch(header._replace(last_offset_delta=2 * others), other * others + payload + other * others)
        )
        assert outcome(expected_rows, batch) == outcome(decoded_rows, batch)
    batch = bytes(seal_batch(header._replace(last_offset_delta=0, record_count=1), payload))
    assert outcome(decoded_rows, batch) is None
    many = bytes(seal_batch(header._replace(last_offset_delta=50, record_count=30), payload * 30))
    assert outcome(expected_rows, many) == outcome(decoded_rows, many)


@pytest.mark.parametrize("payload", UNUSUAL_RECORDS)
def test_numbers_longer_than_they_need_to_be_and_the_largest_are_read_alike(payload: bytes) -> None:
    header = verify(build_batch([NewRecord(0, None, None)] * 3))
    batch = bytes(seal_batch(header, payload * 3))
    assert decoded_rows(batch) == expected_rows(batch)
    assert len(decoded_rows(batch)) == 3


def test_lengths_that_lead_out_of_the_buffer_are_refused() -> None:
    header = verify(build_batch(text_records(3)))
    for length in (100, 2**14, 2**21, 2**31 - 1, -1, -(2**14), -(2**31)):
        payload = varint(length) + GOOD + b"\x0c" + GOOD * 4
        with pytest.raises(CorruptBatchError, match="lengths of the records"):
            decoded_rows(bytes(seal_batch(header, payload)))


def test_a_timestamp_beyond_64_bits_is_refused_unless_the_append_time_counts() -> None:
    header = verify(build_batch([NewRecord(2**63 - 1, None, None)]))
    record = b"\x0c\0\2\0\1\1\0"  # one millisecond later
    with pytest.raises(CorruptBatchError, match="timestamp"):
        decoded_rows(bytes(seal_batch(header, record)))
    appended = header._replace(attributes=LOG_APPEND_TIME_FLAG, max_timestamp=5)
    assert [row[6] for row in decoded_rows(bytes(seal_batch(appended, record)))] == [5]


def test_bytes_of_a_batch_without_records_are_refused() -> None:
    header = verify(build_batch([NewRecord(0, None, None)]))
    with pytest.raises(CorruptBatchError, match="without records"):
        decoded_rows(bytes(seal_batch(header._replace(record_count=0), b"\0")))
