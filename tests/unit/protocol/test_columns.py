"""Columns against the per-record reader as oracle: the same rows, or both refuse."""

import tracemalloc
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.protocol import column_starts
from headrace.protocol.batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    check_header,
    stamp,
    verify,
    write_crc,
)
from headrace.protocol.columns import SCHEMA, decode_batches, encode_batches
from headrace.protocol.compression import Codec
from headrace.protocol.errors import CorruptBatchError
from headrace.protocol.records import (
    Headers,
    NewRecord,
    Record,
    build_batch,
    build_end_transaction_marker,
    iter_batches,
    read_records,
    rebuild_batch,
    seal_batch,
)
from headrace.protocol.varints import varint
from tests.support.record_strategies import (
    BROKEN_RECORDS,
    GOOD,
    UNUSUAL_RECORDS,
    batches,
    codecs,
    contents,
    damage,
    headers,
    logs,
    lookalikes,
    opened,
    seeds,
)

FIRST, END = -(2**63), 2**63 - 1
MAX_MILLISECONDS = (2**63 - 1) // 1000  # beyond that there are no microseconds
Row = tuple[bytes | None, bytes | None, Headers | None, str, int, int, int | None, int]


def rows_of(table: Any) -> list[Row]:
    """A decoded table as plain rows; timestamps in milliseconds."""
    assert table.schema == SCHEMA
    table.validate(full=True)
    columns = [table.column(name).to_pylist() for name in ("key", "value", "headers", "topic", "partition", "offset")]
    columns[2] = [None if row is None else tuple((item["key"], item["value"]) for item in row) for row in columns[2]]
    microseconds = table.column("timestamp").cast(pa.int64()).to_pylist()
    columns.append([None if number is None else number // 1000 for number in microseconds])
    columns.append(table.column("timestamp_type").to_pylist())
    return list(zip(*columns, strict=True))


def instant(record: Record) -> int | None:
    return record.timestamp if abs(record.timestamp) <= MAX_MILLISECONDS else None


def expected_rows(log: bytes, first_offset: int = FIRST, end_offset: int = END) -> list[Row]:
    """What the per-record reader finds. Raises CorruptBatchError where it does."""
    rows: list[Row] = []
    for position, header in iter_batches(log):
        check_header(log, position)
        if header.is_control:
            continue
        kind = int(header.is_log_append_time)
        rows += [
            (record.key, record.value, record.headers or None, "orders", 3, record.offset, instant(record), kind)
            for record in read_records(log, position, limit_bytes=1_000_000)
            if first_offset <= record.offset < end_offset
        ]
    return rows


def decoded_rows(log: bytes, **options: Any) -> list[Row]:
    options = {"first_offset": FIRST, "limit_bytes": 1_000_000} | options
    return rows_of(decode_batches(log, topic="orders", partition=3, **options).table)


def text_records(count: int) -> list[NewRecord]:
    return [NewRecord(1000 + i, b"key %d" % i, b"value %d, and more of it" % (i * i)) for i in range(count)]


def payloads_of(batch: bytes | bytearray) -> column_starts.Payloads:
    header = verify(batch)
    numbers = (HEADER_SIZE, header.size_bytes, header.record_count)
    return column_starts.Payloads(*(np.array([number], np.int64) for number in numbers))


# Decoding


@given(log=logs)
@settings(max_examples=60, deadline=None)
def test_columns_hold_what_the_per_record_reader_finds(log: bytes) -> None:
    assert decoded_rows(log) == expected_rows(log)


@given(log=logs, data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_range_of_offsets_is_cut_exactly(log: bytes, data: st.DataObject) -> None:
    offsets = [0, *(row[5] for row in expected_rows(log)), *(header.next_offset for _, header in iter_batches(log))]
    near = st.sampled_from(offsets).flatmap(lambda offset: st.integers(offset - 2, offset + 2))
    first_offset, end_offset = sorted((data.draw(near), data.draw(near)))
    columns = decode_batches(log, topic="orders", partition=3, first_offset=first_offset, end_offset=end_offset)
    assert rows_of(columns.table) == expected_rows(log, first_offset, end_offset)
    assert first_offset <= columns.next_offset <= end_offset


@given(log=logs, cut=st.integers(1, 300))
@settings(max_examples=40, deadline=None)
def test_a_partial_last_batch_is_left_for_the_next_fetch(log: bytes, cut: int) -> None:
    shortened = log[: max(0, len(log) - cut)]
    columns = decode_batches(shortened, topic="orders", partition=3)
    assert rows_of(columns.table) == expected_rows(shortened, 0)
    whole = [header for _, header in iter_batches(shortened)]
    assert columns.next_offset == (whole[-1].next_offset if whole else 0)


def test_many_small_batches_and_one_large_one_give_the_same_rows() -> None:
    records = text_records(30_000)  # several slices, and more than one group
    large = build_batch(records)
    for codec in (Codec.NONE, Codec.LZ4):
        small = b"".join(
            build_batch(records[first : first + 160], base_offset=first, codec=codec) for first in range(0, 30_000, 160)
        )
        assert decode_batches(small, topic="orders", partition=3).table.equals(
            decode_batches(large, topic="orders", partition=3).table
        )
    assert decoded_rows(bytes(large)) == expected_rows(bytes(large))


def test_control_batches_are_left_out_and_stepped_over() -> None:
    marker = build_end_transaction_marker(
        commit=True, coordinator_epoch=0, producer_id=7, producer_epoch=0, timestamp=5, base_offset=10
    )
    log = bytes(build_batch(text_records(10)) + marker)
    columns = decode_batches(log, topic="orders", partition=3)
    assert columns.table.num_rows == 10
    assert columns.next_offset == 11
    columns = decode_batches(bytes(marker), topic="orders", partition=3, first_offset=10)
    assert (columns.table.num_rows, columns.next_offset) == (0, 11)


def test_nothing_at_all_is_an_empty_table_and_the_same_offset() -> None:
    columns = decode_batches(b"", topic="orders", partition=3, first_offset=17)
    assert (columns.table.schema, columns.table.num_rows, columns.next_offset) == (SCHEMA, 0, 17)


def test_after_the_end_of_a_range_the_offsets_that_compaction_removed_are_stepped_over() -> None:
    log = bytes(build_batch(text_records(3)) + build_batch(text_records(3), base_offset=50))
    columns = decode_batches(log, topic="orders", partition=3, end_offset=40)
    assert (columns.table.num_rows, columns.next_offset) == (3, 40)
    with pytest.raises(ValueError, match="below the first"):
        decode_batches(log, topic="orders", partition=3, first_offset=5, end_offset=4)


def test_a_timestamp_is_an_instant_in_microseconds_as_in_sparks_kafka_source() -> None:
    moment = datetime(2024, 2, 29, 12, 30, 15, 123_000, tzinfo=UTC)
    batch = build_batch([NewRecord(int(moment.timestamp() * 1000), None, None), NewRecord(-1, None, None)])
    table = decode_batches(batch, topic="orders", partition=3).table
    assert table.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert table.column("timestamp")[0].as_py() == moment
    assert table.column("timestamp").cast(pa.int64())[1].as_py() == -1000


def test_a_timestamp_that_microseconds_cannot_express_is_null() -> None:
    edge = MAX_MILLISECONDS
    for beyond in (edge + 1, 2**63 - 1, -edge - 1, -(2**63)):
        batch = build_batch([NewRecord(beyond, None, b"a")]) + build_batch([NewRecord(edge, None, b"b")], base_offset=1)
        table = decode_batches(bytes(batch), topic="orders", partition=3).table
        assert table.column("timestamp").cast(pa.int64()).to_pylist() == [None, edge * 1000]


def test_log_append_time_and_a_delete_horizon_are_read_as_the_batch_says() -> None:
    records = text_records(4)
    appended = build_batch(records, log_append_time_ms=777)
    header, read = opened(build_batch(records, base_offset=4))
    marked = rebuild_batch(header, read, delete_horizon_ms=99_999)
    rows = decoded_rows(bytes(appended + marked))
    assert [row[6] for row in rows] == [777] * 4 + [1000, 1001, 1002, 1003]
    assert [row[7] for row in rows] == [1] * 4 + [0] * 4


def test_records_without_headers_have_null_for_headers() -> None:
    mixed = [NewRecord(0, None, b"a"), NewRecord(0, None, b"b", (("h", b"1"), ("h", None))), NewRecord(0, None, b"c")]
    assert [row[2] for row in decoded_rows(bytes(build_batch(mixed)))] == [None, (("h", b"1"), ("h", None)), None]


@given(rows=st.lists(headers, min_size=20, max_size=40))
@settings(max_examples=30, deadline=None)
def test_headers_of_many_records_are_read_in_rounds(rows: list[Headers]) -> None:
    batch = bytes(build_batch([NewRecord(0, b"k", b"v", row) for row in rows]))
    assert decoded_rows(batch) == expected_rows(batch)


def test_a_record_with_very_many_headers_is_read_as_well() -> None:
    many: Headers = tuple((str(i), b"x" * (i % 200)) for i in range(3000))
    batch = bytes(build_batch([NewRecord(0, None, None, many), *text_records(40), NewRecord(0, None, None, many[:5])]))
    assert decoded_rows(batch) == expected_rows(batch)


# Transactions


def transactional(first_offset: int, producer_id: int, values: Sequence[bytes]) -> bytearray:
    return build_batch(
        [NewRecord(0, None, value) for value in values],
        base_offset=first_offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=first_offset,
        transactional=True,
    )


def marker(offset: int, producer_id: int, *, commit: bool) -> bytearray:
    return build_end_transaction_marker(
        commit=commit, coordinator_epoch=0, producer_id=producer_id, producer_epoch=0, timestamp=0, base_offset=offset
    )


TRANSACTIONS = bytes(
    transactional(0, 1, [b"1 aborted", b"1 aborted"])
    + transactional(2, 2, [b"2 kept"])
    + build_batch([NewRecord(0, None, b"plain")], base_offset=3)
    + transactional(4, 1, [b"1 aborted"])
    + marker(5, 1, commit=False)
    + transactional(6, 1, [b"1 kept"])
    + marker(7, 2, commit=True)
    + marker(8, 1, commit=True)
    + transactional(9, 2, [b"2 aborted"])
    + marker(10, 2, commit=False)
    + transactional(11, 2, [b"2 kept again"])
)
ABORTED = [(2, 9), (1, 0)]


def committed(log: bytes, aborted: Iterable[tuple[int, int]] = ABORTED, **options: Any) -> list[bytes | None]:
    return [row[1] for row in decoded_rows(log, aborted=aborted, **options)]


def test_aborted_transactions_are_left_out() -> None:
    assert committed(TRANSACTIONS) == [b"2 kept", b"plain", b"1 kept", b"2 kept again"]
    assert len(committed(TRANSACTIONS, [])) == 8


def test_a_transaction_that_began_before_the_wanted_offset_is_still_left_out() -> None:
    assert committed(TRANSACTIONS, first_offset=4) == [b"1 kept", b"2 kept again"]
    assert committed(TRANSACTIONS, first_offset=1, end_offset=10) == [b"2 kept", b"plain", b"1 kept"]


def test_a_marker_that_compaction_has_emptied_ends_nothing() -> None:
    header, _ = opened(marker(5, 1, commit=False))
    log = bytes(transactional(4, 1, [b"aborted"]) + rebuild_batch(header, []) + transactional(6, 1, [b"aborted, too"]))
    assert committed(log, [(1, 0)]) == []


def test_a_large_aborted_transaction_between_two_small_batches_does_no_harm() -> None:
    kept = build_batch([NewRecord(0, None, b"kept")])
    log = bytes(kept + transactional(1, 1, [b"aborted" * 9] * 500) + marker(501, 1, commit=False))
    log += bytes(build_batch([NewRecord(0, None, b"kept, too")], base_offset=502))
    assert committed(log, [(1, 1)]) == [b"kept", b"kept, too"]


# Limits and damage


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


def test_a_flipped_bit_is_found_by_the_crc_unless_that_was_switched_off() -> None:
    log = bytearray(build_batch(text_records(10)))
    log[-5] ^= 1  # in a value
    with pytest.raises(CorruptBatchError, match="CRC"):
        decoded_rows(bytes(log))
    assert len(decoded_rows(bytes(log), check_crcs=False)) == 10


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


def outcome(rows: Any, log: bytes, **options: Any) -> list[Row] | None:
    try:
        return rows(log, **options)  # type: ignore[no-any-return]
    except CorruptBatchError:
        return None


@given(log=logs, seed=seeds)
@settings(max_examples=100, deadline=None)
def test_damaged_batches_give_the_same_rows_as_one_by_one_or_are_refused_by_both(log: bytes, seed: int) -> None:
    damaged = damage(log, seed)
    assert outcome(decoded_rows, damaged, check_crcs=False) == outcome(expected_rows, damaged)


@pytest.mark.slow
@given(log=logs, seed=seeds)
@settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
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


# Where records begin


def test_the_guess_finds_records_of_text_without_a_walk() -> None:
    batch = bytes(build_batch(text_records(2000)))
    octets, payloads = np.frombuffer(batch, np.uint8), payloads_of(batch)
    walked = column_starts._walk(octets, payloads, 2000)
    assert np.array_equal(column_starts._guess(octets, payloads, 2000), walked)


def test_the_guess_finds_the_records_of_many_batches_at_once() -> None:
    log = b"".join(build_batch(text_records(160), base_offset=first) for first in range(0, 1600, 160))
    at = [(position + HEADER_SIZE, position + header.size_bytes, 160) for position, header in iter_batches(log)]
    payloads = column_starts.Payloads(*(np.array(column, np.int64) for column in zip(*at, strict=True)))
    octets = np.frombuffer(log, np.uint8)
    assert np.array_equal(column_starts._guess(octets, payloads, 1600), column_starts._walk(octets, payloads, 1600))


def test_the_guess_sees_through_random_bytes() -> None:
    values = np.random.default_rng(1).integers(0, 256, (2000, 100), np.uint8)
    batch = bytes(build_batch([NewRecord(i, b"key", value.tobytes()) for i, value in enumerate(values)]))
    octets, payloads = np.frombuffer(batch, np.uint8), payloads_of(batch)
    assert np.array_equal(column_starts._guess(octets, payloads, 2000), column_starts._walk(octets, payloads, 2000))


@given(values=st.lists(lookalikes, min_size=1, max_size=60))
@settings(max_examples=60, deadline=None)
def test_values_that_look_like_records_are_told_from_records(values: list[bytes]) -> None:
    batch = bytes(build_batch([NewRecord(1000, None, value) for value in values]))
    assert [row[1] for row in decoded_rows(batch)] == values


@given(marks=st.lists(st.sampled_from([0, 0, 0, 0, 1]), min_size=8, max_size=200))
@settings(max_examples=60, deadline=None)
def test_marks_are_found_eight_at_a_time(marks: list[int]) -> None:
    array = np.array(marks[: len(marks) // 8 * 8], np.uint8)
    array[3] = 1
    assert column_starts._places(array).tolist() == np.flatnonzero(array).tolist()


# Encoding

tables = st.lists(
    st.tuples(contents, contents, st.none() | headers, st.integers(-(2**40), 2**40)), min_size=1, max_size=60
)


def table_of(rows: Sequence[tuple[bytes | None, bytes | None, Headers | None, int]]) -> Any:
    keys, values, header_lists, milliseconds = zip(*rows, strict=True)
    entries = [None if row is None else [{"key": k, "value": v} for k, v in row] for row in header_lists]
    return pa.table(
        {
            "timestamp": pa.array([number * 1000 for number in milliseconds], pa.int64()).cast(
                pa.timestamp("us", tz="UTC")
            ),
            "headers": pa.array(entries, SCHEMA.field("headers").type),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )


def records_in(encoded: Sequence[bytearray]) -> list[NewRecord]:
    for batch in encoded:
        verify(batch)
    return [NewRecord(*record[1:]) for batch in encoded for record in read_records(batch)]


@given(
    rows=tables, codec=codecs, batch_bytes=st.integers(100, 3000), chunk=st.integers(1, 60), skipped=st.integers(0, 5)
)
@settings(max_examples=150, deadline=None)
def test_what_was_encoded_is_read_one_by_one(
    rows: list[tuple[bytes | None, bytes | None, Headers | None, int]],
    codec: Codec,
    batch_bytes: int,
    chunk: int,
    skipped: int,
) -> None:
    chunks = table_of(rows).to_batches(max_chunksize=chunk)
    table = pa.Table.from_batches(chunks).slice(skipped)
    encoded = encode_batches(table, codec=codec, batch_bytes=batch_bytes)
    expected = [NewRecord(time, key, value, entries or ()) for key, value, entries, time in rows[skipped:]]
    assert records_in(encoded) == expected
    for batch in encoded:
        header = verify(batch)
        assert header.codec == codec
        assert header.max_timestamp == max(record.timestamp for record in read_records(batch))
        assert len(batch) <= batch_bytes or header.record_count == 1


@given(rows=tables)
@settings(max_examples=40, deadline=None)
def test_columns_come_back_from_encoding(rows: list[tuple[bytes | None, bytes | None, Headers | None, int]]) -> None:
    offset = 0
    log = bytearray()
    for batch in encode_batches(table_of(rows), batch_bytes=1500):
        stamp(batch, 0, base_offset=offset, leader_epoch=0)
        offset = verify(batch).next_offset
        log += batch
    table = decode_batches(log, topic="orders", partition=3).table
    assert table.column("offset").to_pylist() == list(range(len(rows)))
    for name in ("key", "value", "timestamp"):
        assert table.column(name).to_pylist() == table_of(rows).column(name).to_pylist()


def test_the_first_batch_is_the_one_that_the_record_builder_makes() -> None:
    records = [*text_records(70), NewRecord(900, None, None, (("h", None), ("é", b"x")))]
    rows = [(record.key, record.value, record.headers, record.timestamp) for record in records]
    options = {"producer_id": 5, "producer_epoch": 2, "base_sequence": 9, "transactional": True}
    assert encode_batches(table_of(rows), **options) == [build_batch(records, **options)]  # type: ignore[arg-type]


def test_batches_are_nearly_as_large_as_they_may_be() -> None:
    value = np.random.default_rng(2).integers(0, 256, 100, np.uint8).tobytes()
    table = pa.table({"value": [value] * 50_000, "timestamp": pa.array(range(50_000), pa.int64())})
    for codec in Codec:
        encoded = encode_batches(table, codec=codec, batch_bytes=100_000)
        assert max(len(batch) for batch in encoded) <= 100_000
    sizes = [len(batch) for batch in encode_batches(table, batch_bytes=100_000)]
    assert min(sizes[:-1]) > 97_000


@pytest.mark.parametrize("codec", Codec)
def test_data_that_cannot_be_compressed_still_fits(codec: Codec) -> None:
    noise = np.random.default_rng(3).integers(0, 256, (3000, 500), np.uint8)
    table = pa.table({"value": [row.tobytes() for row in noise], "timestamp": pa.array([0] * 3000)})
    for size in (3000, 20_000, 1_000_000):
        assert max(len(batch) for batch in encode_batches(table, codec=codec, batch_bytes=size)) <= size


def test_sequences_go_on_from_batch_to_batch_and_wrap() -> None:
    table = pa.table({"value": [b"x" * 100] * 10, "timestamp": pa.array([0] * 10)})
    encoded = encode_batches(table, batch_bytes=300, producer_id=1, producer_epoch=0, base_sequence=2**31 - 4)
    assert len(encoded) == 5
    headers_ = [verify(batch) for batch in encoded]
    assert [header.base_sequence for header in headers_] == [2**31 - 4, 2**31 - 2, 0, 2, 4]
    assert [header.last_sequence for header in headers_] == [2**31 - 3, 2**31 - 1, 1, 3, 5]
    plain = encode_batches(table, batch_bytes=300)
    assert {verify(batch).base_sequence for batch in plain} == {-1}


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.large_binary(), pa.binary_view(), pa.string_view()]
)
def test_keys_and_values_may_be_any_kind_of_text_or_bytes(kind: Any) -> None:
    words = ["alice", None, "", "zoë" * 30]
    column = pa.array(words, pa.string()).cast(kind)
    records = records_in(encode_batches(pa.table({"key": column, "value": column}), timestamp_ms=7))
    assert [record.value for record in records] == [None if word is None else word.encode() for word in words]
    assert [record.key for record in records] == [record.value for record in records]
    assert {record.timestamp for record in records} == {7}


@pytest.mark.parametrize(("unit", "scale"), [("s", 1), ("ms", 1000), ("us", 1_000_000), ("ns", 1_000_000_000)])
def test_timestamps_may_have_any_unit(unit: str, scale: int) -> None:
    column = pa.array([1_700_000_000 * scale, None, -5 * scale], pa.int64()).cast(pa.timestamp(unit))
    records = records_in(encode_batches(pa.table({"value": [b""] * 3, "timestamp": column}), timestamp_ms=42))
    assert [record.timestamp for record in records] == [1_700_000_000_000, 42, -5000]


def test_a_record_batch_without_rows_or_keys_is_fine() -> None:
    assert encode_batches(SCHEMA.empty_table()) == []
    (batch,) = encode_batches(pa.RecordBatch.from_pydict({"value": [b"a"]}), timestamp_ms=0)
    assert [record[2:] for record in read_records(batch)] == [(None, b"a", ())]


def test_mistakes_of_the_caller_are_told() -> None:
    with pytest.raises(ValueError, match="no column 'value' among key"):
        encode_batches(pa.table({"key": [b"a"]}))
    with pytest.raises(ValueError, match="no timestamp_ms"):
        encode_batches(pa.table({"value": [b"a"]}))
    with pytest.raises(ValueError, match="integer milliseconds"):
        encode_batches(pa.table({"value": [b"a"], "timestamp": ["noon"]}))
    with pytest.raises(ValueError, match="without a key"):
        encode_batches(table_of([(None, b"", ((None, b""),), 0)]))  # type: ignore[list-item]
    with pytest.raises(ValueError, match="milliseconds cannot express"):
        encode_batches(pa.table({"value": [b""], "timestamp": pa.array([2**60]).cast(pa.timestamp("s"))}))
    with pytest.raises(ValueError, match="apart"):
        encode_batches(pa.table({"value": [b"", b""], "timestamp": pa.array([-(2**63), 2**63 - 1])}))


def test_a_single_batch_keeps_its_crc_when_stamped_and_read_as_columns() -> None:
    (batch,) = encode_batches(pa.table({"value": [b"a", b"b"]}), timestamp_ms=5)
    stamp(batch, 0, base_offset=1000, leader_epoch=3)
    assert [row[5] for row in decoded_rows(bytes(batch))] == [1000, 1001]
    write_crc(batch, 0, len(batch))
    assert verify(batch).base_offset == 1000


@given(batch=batches)
@settings(max_examples=30, deadline=None)
def test_any_buffer_may_be_decoded_and_nothing_of_it_is_kept(batch: bytearray) -> None:
    expected = expected_rows(bytes(batch), 0)
    column = decode_batches(memoryview(batch), topic="orders", partition=3).table
    batch[:] = bytes(len(batch))  # the rows are copies: a receive buffer may be used again at once
    assert rows_of(column) == expected
